// The map of a vault: reads /graph as JSON, lets graph-layout.js place the notes, and sigma draw them.
// Without WebGL nothing is drawn, but finding a note and walking along its links still works.

import { decoded } from "/static/address.js";
import { read, typesOf } from "/static/graph-data.js";
import { setUpFinder } from "/static/graph-find.js";
import { COLOURS, fillLegend, fillPanel, hashOf, markLegend, noteAddress, plural } from "/static/graph-panel.js";
import { drawNames, forgetNames, takePlace } from "/static/graph-names.js";
import { areInSight, freePart, viewOf } from "/static/graph-view.js";

const SECOND_CLICK = 350; // milliseconds; sigma waits 300 for it

const $ = (selector) => document.querySelector(selector);

let notes = []; // as graph-data.js makes them
let groups = [];
let graph = null; // graphology's: what sigma draws
let sigma = null;
let chosen = null; // a note
let near = new Set(); // the chosen note and its neighbours, by id
let focus = null; // the number of the only group that is not faded
let colours = {};

// The data

async function ask(address) {
  const response = await fetch(address, { headers: { Accept: "application/json" } });
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  throw new Error(typeof answer.detail === "string" ? answer.detail : `the service answered ${response.status}`);
}

// At work already: its libraries load while the links are read.
const worker = new Worker("/static/graph-layout.js");
const arranged = new Promise((resolve, reject) => {
  worker.onmessage = ({ data }) => resolve(data);
  worker.onerror = (event) => reject(new Error(event.message || "the script that places the notes did not start"));
}).finally(() => worker.terminate());

function arrange() {
  worker.postMessage({
    groups: notes.map((note) => note.group.number),
    links: notes.flatMap((note) => note.out.map((other) => [note.id, other.id])),
  });
  return arranged;
}

// Drawing

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["ground", "text", "quiet", "line", "faded", "edge", "other", "surface"];
  colours = Object.fromEntries(names.map((name) => [name, read(name)]));
  colours.thread = mix(colours.quiet, colours.ground, 0.35);
  groups.forEach((group, number) => {
    group.colour = group.known && number < COLOURS ? read(`c${number}`) : colours.other;
    group.thread = mix(group.colour, colours.ground, 0.72);
  });
}

// Opaque colours: sigma draws edges fastest without blending, and thousands of see-through lines become a fog.
function mix(one, other, share) {
  const parse = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const [a, b] = [parse(one), parse(other)];
  return "#" + a.map((value, i) => Math.round(value + (b[i] - value) * share).toString(16).padStart(2, "0")).join("");
}

const isFaded = (note) => (chosen ? !near.has(note.id) : focus !== null && note.group.number !== focus);

function drawNote(id, data) {
  const note = notes[id];
  if (isFaded(note)) return { ...data, color: colours.faded, label: "", highlighted: false, zIndex: 0 };
  const shown = { ...data, color: note.group.colour, highlighted: note === chosen, zIndex: 1 };
  if (!chosen) return shown;
  return { ...shown, zIndex: note === chosen ? 3 : 2, forceLabel: near.size <= 30, size: Math.max(data.size, 4) };
}

function drawEdge(edge, data) {
  const [a, b] = graph.extremities(edge).map((id) => notes[id]);
  if (chosen) return a === chosen || b === chosen ? { ...data, color: colours.thread, zIndex: 1 } : { ...data, hidden: true };
  data = { ...data, label: "" }; // only what leads to a chosen note says of which type it is
  if (focus !== null && (isFaded(a) || isFaded(b))) return { ...data, hidden: true };
  return { ...data, color: a.group === b.group ? a.group.thread : colours.edge, zIndex: a.group === b.group ? 1 : 0 };
}

function lookOfName(group) {
  const faded = focus !== null && focus !== group.number;
  return { colour: mix(group.colour, colours.text, 0.45), ground: colours.ground, faded };
}

// The communities with a name on the map. Around a chosen note, the names of its neighbours have the room.
const named = () => (chosen ? [] : groups);

function drawHover(context, data, settings) {
  context.font = `${settings.labelSize}px ${settings.labelFont}`;
  const width = data.label ? context.measureText(data.label).width + 12 : 0;
  context.beginPath();
  context.arc(data.x, data.y, data.size + 3, 0, 2 * Math.PI);
  context.fillStyle = colours.text;
  context.fill();
  if (!data.label) return;
  const after = data.x + data.size + 6;
  const x = after + width <= freePart(sigma).right ? after : Math.max(0, data.x - data.size - 6 - width);
  context.fillStyle = colours.surface;
  context.strokeStyle = colours.line;
  context.beginPath();
  context.roundRect(x, data.y - settings.labelSize, width, settings.labelSize * 2, 4);
  context.fill();
  context.stroke();
  context.fillStyle = colours.text;
  context.fillText(data.label, x + 6, data.y + settings.labelSize / 3);
}

function drawLabel(context, data, settings) {
  if (!data.label || !sigma || data.highlighted) return; // sigma draws once while it is being made
  context.font = `${settings.labelSize}px ${settings.labelFont}`;
  const { width } = context.measureText(data.label);
  const y = data.y + settings.labelSize / 3;
  const sides = [data.x + data.size + 3, data.x - data.size - 3 - width];
  const box = takePlace(sigma, named(), notes[data.key], sides.map((left) => [left, y - settings.labelSize, left + width, y + 3]));
  if (!box) return;
  const x = box[0];
  Object.assign(context, { lineJoin: "round", lineWidth: 3, strokeStyle: colours.ground, fillStyle: colours.text });
  context.strokeText(data.label, x, y);
  context.fillText(data.label, x, y);
}

function labelOf(one, other) {
  const words = [...typesOf(one, other), ...typesOf(other, one)].map(([, word]) => word);
  return [...new Set(words)].join(", ");
}

function draw({ x, y, discs }) {
  discs.forEach((disc, number) => Object.assign(groups[number], disc));
  graph = new graphology.UndirectedGraph();
  const scale = Math.min(1, Math.max(0.6, innerWidth / 900));
  for (const { id, size, title } of notes) graph.addNode(id, { x: x[id], y: y[id], size: size * scale, label: title });
  for (const note of notes) for (const other of note.out) graph.mergeEdge(note.id, other.id, { label: labelOf(note, other) });
  sigma = new Sigma(graph, $("#map"), {
    nodeReducer: drawNote, edgeReducer: drawEdge, zIndex: true, edgeProgramClasses: { line: Sigma.rendering.EdgeLineProgram },
    renderEdgeLabels: notes.some((note) => note.types.size), edgeLabelSize: 11, edgeLabelColor: { color: colours.quiet },
    labelFont: "system-ui, sans-serif", labelSize: 12, labelDensity: 0.6,
    labelGridCellSize: 140, labelRenderedSizeThreshold: notes.length < 150 ? 0 : 9,
    defaultDrawNodeLabel: drawLabel, defaultDrawNodeHover: drawHover,
    minCameraRatio: 0.02, maxCameraRatio: 2.5, cameraPanBoundaries: { tolerance: 300 }, stagePadding: 40,
  });
  const canvas = sigma.createCanvas("names", { afterLayer: "labels", style: { pointerEvents: "none" } });
  sigma.on("beforeRender", forgetNames);
  sigma.on("afterRender", () => drawNames(sigma, named(), canvas, lookOfName));
  sigma.scheduleRender(); // now with names
  sigma.on("clickNode", ({ node }) => chooseAt(notes[node]));
  sigma.on("clickStage", () => choose(null));
  sigma.on("doubleClickNode", ({ node, preventSigmaDefault }) => {
    preventSigmaDefault();
    location.href = noteAddress(notes[node]);
  });
  for (const [event, cursor] of [["enterNode", "pointer"], ["leaveNode", ""]]) sigma.on(event, () => ($("#map").style.cursor = cursor));
  $("#legend").addEventListener("toggle", () => sigma.resize().refresh());
  watchDragging($("#map"));
  $("#zoom").hidden = false;
}

// While the map is dragged, sigma is kept from asking after every move which note lies under the pointer: it would
// have to wait until the picture is drawn to read that out of it.
function watchDragging(map) {
  let start = null;
  map.addEventListener("pointerdown", (event) => (start = event));
  addEventListener("pointermove", (event) => {
    if (start && Math.hypot(event.x - start.x, event.y - start.y) > 6) map.classList.add("dragged");
  });
  for (const end of ["pointerup", "pointercancel"]) {
    addEventListener(end, () => {
      start = null;
      map.classList.remove("dragged");
    });
  }
}

function redraw() {
  sigma?.refresh({ skipIndexation: true });
}

// Bring a note and its neighbours to the middle of what the panel leaves free.
function show(note, { always = true } = {}) {
  const all = [note, ...note.out, ...note.in];
  if (!sigma || (!always && areInSight(sigma, all))) return;
  sigma.getCamera().animate(viewOf(sigma, all), { duration: 400 });
}

// The chosen note

function choose(note, { centre = false } = {}) {
  chosen = note;
  near = new Set(note ? [note, ...note.out, ...note.in].map((some) => some.id) : []);
  history.replaceState(null, "", note ? hashOf(note) : location.pathname + location.search);
  $("#panel").hidden = !note;
  $("#absent")?.remove();
  if (note) fillPanel(note, walk);
  if (note && centre) show(note);
  redraw();
}

// A note that was clicked stays where it is until a second click would no longer open it.
function chooseAt(note) {
  choose(note);
  setTimeout(() => chosen === note && show(note, { always: false }), SECOND_CLICK);
}

const walk = (note) => choose(note, { centre: true });

function showLegend() {
  fillLegend(groups, (number) => fadeOthers(number === focus ? null : number));
  markLegend(focus);
}

function fadeOthers(number) {
  focus = number;
  markLegend(focus);
  if (chosen) choose(null);
  else redraw();
}

// Keys and buttons

function zoom(how) {
  const camera = sigma?.getCamera();
  if (how === "in") camera?.animatedZoom();
  if (how === "out") camera?.animatedUnzoom();
  if (how === "all") camera?.animatedReset();
}

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const ZOOMS = { "+": "in", "=": "in", "-": "out", 0: "all" };

function setUpKeys() {
  $("#map").onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !sigma) return;
    if (ZOOMS[event.key]) zoom(ZOOMS[event.key]);
    else if (event.key === "Enter" && chosen) $("#panel .open").focus();
    else if (MOVES[event.key]) {
      const camera = sigma.getCamera();
      const [x, y] = MOVES[event.key].map((step) => step * 0.12 * camera.ratio);
      camera.animate({ x: camera.x + x, y: camera.y + y }, { duration: 120, easing: "linear" });
    } else return;
    event.preventDefault();
  };
  $("#panel").onkeydown = (event) => {
    const rows = [...$("#panel").querySelectorAll("li button")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !rows.length) return;
    rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(document.activeElement) + step))].focus();
    event.preventDefault();
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== $("#find")) {
      event.preventDefault();
      $("#find").focus();
    }
    if (event.key !== "Escape") return;
    if (chosen) choose(null);
    else if (focus !== null) fadeOthers(null);
    $("#map").focus();
  });
  $("#panel .close").onclick = () => choose(null);
  for (const button of document.querySelectorAll("[data-zoom]")) button.onclick = () => zoom(button.dataset.zoom);
}

// The whole

function describe(picture, { communities, isolated }) {
  const drawn = groups.filter((group) => group.known).length;
  const facts = [plural(notes.length, "note"), plural(picture.edges.length, "link")];
  if (drawn) facts.push(drawn === 1 ? "1 community" : `${drawn.toLocaleString("en")} communities`);
  else if (notes.length) facts.push("communities are not computed yet");
  const all = communities.reduce((sum, community) => sum + community.notes, 0);
  if (picture.truncated) facts.push(`only the best-ranked${all > notes.length ? ` of ${plural(all, "note")}` : ""} are drawn`);
  const unranked = Object.values(isolated).reduce((sum, count) => sum + count, 0);
  const absent = unranked - notes.filter((note) => note.community === null).length;
  const asked = new URLSearchParams(location.search);
  const filtered = asked.has("community") || asked.has("type");
  const others = Object.keys(isolated).length > 1 ? "other notes of their domain" : "other notes";
  if (!filtered && absent > 0) facts.push(`${plural(absent, "note")} without links to ${others} left out`);
  $("#facts").textContent = facts.join(" · ");
  if (location.search.length > 1) {
    const link = Object.assign(document.createElement("a"), { href: location.pathname, textContent: "show everything" });
    $("#facts").append(" · ", link);
  }
}

function tell(text) {
  $("#notice").textContent = text;
  $("#notice").hidden = false;
}

// Sigma is loaded only where it can work: its script fails where there is no WebGL.
function loadSigma() {
  return new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), { src: "/static/vendor/sigma.min.js", onload: resolve });
    script.onerror = () => reject(new Error("its scripts cannot be loaded"));
    document.head.append(script);
  });
}

function hasWebGL() {
  const canvas = document.createElement("canvas");
  return Boolean(canvas.getContext("webgl2") ?? canvas.getContext("webgl"));
}

function chooseByAddress() {
  const note = notes.find((some) => location.hash === hashOf(some));
  if (note && note !== chosen) walk(note);
  if (!note && location.hash.length > 1) tellAbsent(decoded(location.hash));
}

function tellAbsent(path) {
  choose(null);
  const said = Object.assign(document.createElement("strong"), { id: "absent", textContent: `${path} is not on this map · ` });
  $("#facts").prepend(said);
}

async function start() {
  const domain = new URLSearchParams(location.search).get("domain");
  const canDraw = hasWebGL();
  const within = domain === null ? "" : `?domain=${encodeURIComponent(domain)}`;
  const [picture, around] = await Promise.all([
    ask(location.pathname + location.search),
    ask("/communities" + within),
    canDraw && loadSigma(),
  ]);
  ({ notes, groups } = read(picture, around.communities));
  describe(picture, around);
  if (!notes.length) {
    if (location.search.length > 1) tell("There is nothing to draw here.");
    else tell("There is nothing to draw: no note links to another yet. The map shows notes and the links between them.");
    return;
  }
  readColours();
  showLegend();
  $("#legend").open = innerWidth > 640;
  setUpFinder(notes, walk);
  setUpKeys();
  if (canDraw) {
    tell(`Placing ${plural(notes.length, "note")} …`);
    draw(await arrange());
    $("#notice").hidden = true;
  } else tell("This browser has no WebGL, so the map cannot be drawn. Notes can be found above, and their links followed.");
  chooseByAddress();
  addEventListener("hashchange", chooseByAddress);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    showLegend();
    sigma?.setSetting("edgeLabelColor", { color: colours.quiet });
    redraw();
    if (chosen) fillPanel(chosen, walk);
  });
}

start().catch((error) => {
  $("#facts").textContent = "";
  tell(`The map cannot be shown: ${error.message}`);
});
