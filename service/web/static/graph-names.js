// The names on the map: those of the communities, and places for those of notes. None covers another one or what
// is beside the map, and none leaves the window.

const LONGEST = 150; // pixels, or a little more than the community is wide

const measure = document.createElement("canvas").getContext("2d");
let names = null; // of communities, as the present frame shows them
let taken = []; // the boxes [left, top, right, bottom] of all names and of what lies upon the map

// To be called when a frame begins. Places are found when first asked for: only then sigma knows where things are.
export function forgetNames() {
  names = null;
}

// Take the first of these boxes that is free for the name of a note; undefined: there is none. The note that a
// community is named by, and whose name is seen already, gets no second one.
export function takePlace(sigma, groups, note, boxes) {
  if (names === null) placeNames(sigma, groups);
  if (names.some(({ group }) => group.best === note)) return undefined;
  return takeFirst(sigma, boxes);
}

function takeFirst(sigma, boxes) {
  const { width, height } = sigma.getDimensions();
  const box = boxes.find(([left, top, right, bottom]) => left >= 0 && top >= 0 && right <= width && bottom <= height && !covers([left, top, right, bottom]));
  if (box) taken.push(box);
  return box;
}

function covers(box) {
  return taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
}

function lyingUpon(map) {
  const { left, top } = map.getBoundingClientRect();
  return ["legend", "zoom", "panel"]
    .map((id) => document.getElementById(id).getBoundingClientRect())
    .filter((place) => place.width)
    .map((place) => [place.left - left, place.top - top, place.right - left, place.bottom - top]);
}

// Find places, for the largest first; a name that would cover something moves aside or is left out.
function placeNames(sigma, groups) {
  names = [];
  taken = lyingUpon(sigma.getContainer());
  const { width, height } = sigma.getDimensions();
  const scale = sigma.graphToViewport({ x: 1, y: 0 }).x - sigma.graphToViewport({ x: 0, y: 0 }).x;
  for (const group of groups) {
    const radius = group.radius * scale;
    if (!group.known || !(radius > 14)) continue;
    const centre = sigma.graphToViewport(group);
    if (centre.x < 0 || centre.x > width || centre.y < -radius || centre.y > height + radius) continue;
    const size = Math.round(Math.min(20, Math.max(11, radius / 5)));
    const font = `600 ${size}px system-ui, sans-serif`;
    const { text, half } = fit(group, font, Math.round(Math.max(Math.min(LONGEST, 0.3 * width), Math.min(2.4 * radius, 0.9 * width))));
    const x = Math.max(half, Math.min(width - half, centre.x));
    const lines = [0, -0.5, 0.5, -1, 1].map((aside) => Math.max(size, Math.min(height - size, centre.y + aside * radius)));
    const box = takeFirst(sigma, lines.map((y) => [x - half, y - size, x + half, y + size * 0.6]));
    if (box) names.push({ group, text, x, y: box[1] + size, font, radius });
  }
}

// A community's name, cut to a width. Measured again only when the map is zoomed, not when it is moved.
function fit(group, font, longest) {
  if (group.fitted?.font === font && group.fitted.longest === longest) return group.fitted;
  measure.font = font;
  const { width } = measure.measureText(group.label);
  const kept = Math.floor((group.label.length * longest) / width) - 1;
  const text = width <= longest ? group.label : `${group.label.slice(0, kept).trimEnd()}…`;
  group.fitted = { font, longest, text, half: Math.min(width, longest) / 2 + 4 };
  return group.fitted;
}

// Draw them. `look(group)` gives the colour of a name, that of the ground, and whether it is faded.
export function drawNames(sigma, groups, canvas, look) {
  if (names === null) placeNames(sigma, groups);
  const { width, height } = sigma.getDimensions();
  const [across, down] = [width, height].map((side) => Math.round(side * devicePixelRatio));
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  const context = canvas.getContext("2d");
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, width, height);
  Object.assign(context, { textAlign: "center", lineJoin: "round", lineWidth: 4 });
  for (const { group, text, x, y, font, radius } of names) {
    const { colour, ground, faded } = look(group);
    // Close up, the notes' own names are what is read.
    const strength = Math.min(1, Math.max(0.25, 1.6 - (2 * radius) / Math.min(width, height)));
    Object.assign(context, { font, globalAlpha: faded ? 0.3 * strength : strength, fillStyle: colour, strokeStyle: ground });
    context.strokeText(text, x, y);
    context.fillText(text, x, y);
  }
}
