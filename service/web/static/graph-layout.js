// The layout of the map, in a worker: the page stays free while it is computed.
//
// Two steps: every community is laid out by itself and becomes a disc; then the discs are placed, those with links
// between them near each other, none upon another. So communities are apart and have room for their names, and the
// work grows with the largest community instead of with the vault. Nothing here is random: the notes start on a
// spiral, best linked in the middle, so that the same graph gives the same picture.
"use strict";
importScripts("/static/vendor/graphology.umd.min.js", "/static/vendor/forceatlas2.min.js");

const GOLDEN_ANGLE = Math.PI * (3 - Math.sqrt(5));
const ROOM = 1.35; // of a disc, in units of the square root of its notes
const GAP = 1.2;
const MOST_DISCS = 300; // the smallest communities beyond share one

function spiral(rank) {
  const radius = Math.sqrt(rank + 0.5);
  return { x: radius * Math.cos(rank * GOLDEN_ANGLE), y: radius * Math.sin(rank * GOLDEN_ANGLE) };
}

// Lay out one graph: `items` are its nodes (with a size), `links` are [source, target, weight].
function arrange(items, links, { iterations, ...settings }) {
  const graph = new graphology.UndirectedGraph();
  const degree = new Map(items.map((item) => [item.id, 0]));
  for (const [source, target] of links) {
    degree.set(source, degree.get(source) + 1);
    degree.set(target, degree.get(target) + 1);
  }
  const order = [...items].sort((a, b) => b.size - a.size || degree.get(b.id) - degree.get(a.id) || a.id - b.id);
  order.forEach((item, rank) => graph.addNode(item.id, { ...spiral(rank), size: item.size }));
  for (const [source, target, weight] of links) graph.mergeEdge(source, target, { weight });
  return forceAtlas2(graph, { iterations, settings });
}

// Lay out a community and fit it into a disc about 0, 0.
function disc(members, links, size) {
  const count = members.length;
  if (count === 1) return { [members[0]]: { x: 0, y: 0 } };
  const places = arrange(
    members.map((id) => ({ id, size: 1 })),
    links,
    {
      iterations: Math.round(Math.min(120, Math.max(50, 30_000 / count))),
      barnesHutOptimize: count > 200, barnesHutTheta: 1,
      gravity: 0.6, strongGravityMode: false, scalingRatio: 4, slowDown: 1 + Math.log(count),
    },
  );
  const all = members.map((id) => places[id]);
  const x0 = all.reduce((sum, p) => sum + p.x, 0) / count;
  const y0 = all.reduce((sum, p) => sum + p.y, 0) / count;
  const radii = all.map((p) => Math.hypot(p.x - x0, p.y - y0)).sort((a, b) => a - b);
  const usual = radii[Math.floor(0.9 * (count - 1))] || 1;
  for (const p of all) {
    // A few stragglers would make everything else small: what lies outside is pulled in to the rim.
    const [x, y] = [(p.x - x0) / usual, (p.y - y0) / usual];
    const radius = Math.hypot(x, y) || 1;
    const wanted = radius > 0.85 ? 0.85 + 0.15 * Math.tanh((radius - 0.85) * 2) : radius;
    Object.assign(p, { x: (size * x * wanted) / radius, y: (size * y * wanted) / radius, size: 0.75 });
  }
  separate(all, 0, 30);
  return places;
}

// Draw the discs together, step by step, as far as they go without lying upon one another.
function pack(discs) {
  for (let step = 0; step < 40; step++) {
    for (const d of discs) [d.x, d.y] = [d.x * 0.93, d.y * 0.93];
    separate(discs, GAP, 10);
  }
  separate(discs, GAP, 100);
}

// Push circles apart until none overlaps another, for at most `rounds` rounds.
function separate(circles, gap, rounds) {
  const cell = 2 * Math.max(...circles.map((circle) => circle.size)) + gap;
  for (let round = 0; round < rounds; round++) {
    const grid = new Map();
    let moved = false;
    for (const a of circles) {
      const [column, line] = [Math.floor(a.x / cell), Math.floor(a.y / cell)];
      for (let i = column - 1; i <= column + 1; i++) {
        for (let j = line - 1; j <= line + 1; j++) {
          for (const b of grid.get(i * 1e5 + j) ?? []) moved = pushApart(a, b, gap) || moved;
        }
      }
      const key = column * 1e5 + line;
      if (grid.has(key)) grid.get(key).push(a);
      else grid.set(key, [a]);
    }
    if (!moved) return;
  }
}

function pushApart(a, b, gap) {
  const wanted = a.size + b.size + gap;
  const square = (b.x - a.x) ** 2 + (b.y - a.y) ** 2;
  if (square >= (wanted - 0.01) ** 2) return false;
  const distance = Math.sqrt(square) || 1e-6;
  // The larger one is, the less it gives way.
  const share = b.size ** 2 / (a.size ** 2 + b.size ** 2);
  const push = (wanted - distance) / distance;
  const [dx, dy] = [(b.x - a.x) * push, (b.y - a.y) * push];
  a.x -= dx * share; a.y -= dy * share;
  b.x += dx * (1 - share); b.y += dy * (1 - share);
  return true;
}

onmessage = ({ data: { groups, links } }) => {
  const discs = [];
  const home = groups.map((group) => Math.min(group, MOST_DISCS));
  home.forEach((number, id) => {
    discs[number] ??= { id: number, members: [], inner: [] };
    discs[number].members.push(id);
  });
  const between = new Map();
  for (const [source, target] of links) {
    const [a, b] = [home[source], home[target]];
    if (a === b) discs[a].inner.push([source, target, 1]);
    else {
      const key = `${Math.min(a, b)} ${Math.max(a, b)}`;
      between.set(key, (between.get(key) ?? 0) + 1);
    }
  }
  for (const d of discs) d.size = ROOM * Math.sqrt(d.members.length);
  const ties = [...between].map(([key, weight]) => [...key.split(" ").map(Number), Math.log2(1 + weight)]);
  const centres = arrange(discs, ties, {
    iterations: 400, adjustSizes: true, gravity: 0.05, strongGravityMode: true, scalingRatio: 30,
    slowDown: 4,
  });
  for (const d of discs) Object.assign(d, centres[d.id]);
  pack(discs);
  const [x, y] = [new Float32Array(groups.length), new Float32Array(groups.length)];
  for (const d of discs) {
    const places = disc(d.members, d.inner, d.size);
    for (const id of d.members) {
      x[id] = d.x + places[id].x;
      y[id] = d.y + places[id].y;
    }
  }
  postMessage({ x, y, discs: discs.map((d) => ({ x: d.x, y: d.y, radius: d.size })) });
};
