// The panel beside the map: the chosen note with its neighbours, and the legend.

import { typesOf } from "/static/graph-data.js";

export const COLOURS = 12; // communities with a colour of their own (--c0 ... in graph.css); the others are grey

const $ = (selector) => document.querySelector(selector);
const element = (tag, text = "", cls = "") => Object.assign(document.createElement(tag), { textContent: text, className: cls });
const quote = (path) => path.split("/").map(encodeURIComponent).join("/");

export const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
export const noteAddress = (note) => `/notes/${quote(note.path)}`;
export const hashOf = (note) => `#${quote(note.path)}`;

// Show a note, and the notes that it links to and that link to it; `choose` is called with one of these.
export function fillPanel(note, choose) {
  const panel = $("#panel");
  panel.querySelector("h1").textContent = note.title;
  panel.querySelector(".path").textContent = note.path;
  const community = note.community === null ? "no community yet" : `${note.group.label} (${note.group.about})`;
  panel.querySelector(".community").replaceChildren(swatch(note.group), ` ${community}`);
  panel.querySelector(".open").href = noteAddress(note);
  for (const [side, word] of [["out", "Links to"], ["in", "Linked from"]]) {
    const others = [...note[side]].sort((a, b) => b.size - a.size || a.title.localeCompare(b.title));
    panel.querySelector(`h2.${side}`).textContent = `${word} ${others.length || "no"} ${others.length === 1 ? "note" : "notes"}`;
    panel.querySelector(`ul.${side}`).replaceChildren(...others.map((other) => {
      return neighbourRow(other, choose, side === "out" ? typesOf(note, other) : typesOf(other, note));
    }));
  }
  panel.scrollTop = 0;
}

function neighbourRow(note, choose, types) {
  const button = element("button");
  button.append(swatch(note.group), element("span", note.title));
  button.title = note.path;
  button.onclick = () => choose(note);
  const row = element("li");
  row.append(button);
  for (const [type, words] of types) {
    const link = element("a", words, "type");
    link.href = `?type=${encodeURIComponent(type)}${location.hash}`; // that of the chosen note
    link.title = "Show only links of this type";
    row.append(link);
  }
  return row;
}

function swatch(group) {
  const dot = element("span", "", "swatch");
  dot.style.background = group.colour;
  return dot;
}

// List the communities that have a colour; `press` is called with the number of one.
export function fillLegend(groups, press) {
  const named = groups.filter((group) => group.known);
  $("#legend").hidden = named.length < 2;
  $("#legend ol").replaceChildren(...named.slice(0, COLOURS).map((group) => legendRow(group, press)));
  const rest = named.slice(COLOURS);
  $("#others").textContent = rest.length ? `and ${plural(rest.length, "smaller one")}, in grey` : "";
}

function legendRow(group, press) {
  const button = element("button");
  const label = element("span", group.label, "label");
  label.append(element("small", group.about));
  button.append(swatch(group), label, element("small", group.count.toLocaleString("en")));
  button.dataset.number = group.number;
  button.title = `${group.label}: fade the others`;
  button.onclick = () => press(group.number);
  const row = element("li");
  row.append(button);
  return row;
}

// Show which community alone is not faded (its number, or null).
export function markLegend(focus) {
  $("#legend ol").classList.toggle("one", focus !== null);
  for (const button of document.querySelectorAll("#legend li button")) {
    button.setAttribute("aria-pressed", String(button.dataset.number === String(focus)));
  }
}
