// A note's page: marks the lines that the address names (#L5, #L5-L9), and listens to its keys.

import { decoded } from "/static/address.js";

const $ = (selector) => document.querySelector(selector);

function lines() {
  const found = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
  return found && { first: Number(found[1]), last: Number(found[2] ?? found[1]) };
}

// The blocks on these lines; if there is none, the last one before them.
function blocks({ first, last }) {
  const all = [...document.querySelectorAll("#text [data-end]")];
  const named = all.filter((block) => startOf(block) <= last && Number(block.dataset.end) >= first);
  return named.length ? named : all.filter((block) => startOf(block) < first).slice(-1);
}

const startOf = (block) => Number(block.id.slice(1));

// The parts of the page that show these lines, from the top to the bottom.
function passage() {
  const wanted = lines();
  if (!wanted) return [];
  const raw = $("#raw")?.firstChild;
  if (raw) return [rawLines(raw, wanted)];
  const named = blocks(wanted);
  // The path of the note, and its properties, are between its title and the rest of its text.
  const title = named.filter((block) => block.closest(".head"));
  const rest = named.filter((block) => !block.closest(".head"));
  return [title, rest].filter((part) => part.length).map(around);
}

function rawLines(raw, { first, last }) {
  const range = new Range();
  const ends = [...raw.data.matchAll(/\n|$/g)].map((end) => end.index);
  range.setStart(raw, first > 1 ? Math.min((ends[first - 2] ?? raw.length - 1) + 1, raw.length) : 0);
  range.setEnd(raw, ends[last - 1] ?? raw.length);
  return range;
}

function around(blocks) {
  const range = new Range();
  range.setStartBefore(blocks[0]);
  range.setEndAfter(blocks.at(-1));
  return range;
}

// A highlight leaves the page's elements as they are, so that a refresh does not take them for changed.
function mark() {
  const parts = passage();
  CSS.highlights?.delete("passage");
  if (parts.length) CSS.highlights?.set("passage", new Highlight(...parts));
  const other = $("#other"); // the same note raw, or rendered; a note that is always raw has none
  if (other) other.hash = location.hash;
  return parts;
}

function show() {
  const parts = mark();
  if (parts.length) {
    const above = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) * 6;
    const { top } = parts[0].getBoundingClientRect();
    const { bottom } = parts.at(-1).getBoundingClientRect();
    scrollTo({ top: scrollY + bottom <= innerHeight ? 0 : scrollY + top - above });
  } else if (location.hash && !document.getElementById(decoded(location.hash))) {
    document.getElementById(`h-${slug(decoded(location.hash))}`)?.scrollIntoView();
  }
}

const slug = (heading) => heading.toLowerCase().replace(/[^\p{L}\p{N}_\s-]/gu, "").trim().replace(/\s/g, "-");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "/") $("#q").focus();
  else if (event.key === "r") $("#other")?.click();
  else return;
  event.preventDefault();
});

// What draws formulas and diagrams is loaded where there are some.
async function draw() {
  if (!$("#text .math, #text .diagram")) return;
  const { draw: drawIn } = await import($(".reading").dataset.drawings);
  await drawIn($("#text"));
}

function refreshed() {
  mark();
  draw();
}

addEventListener("hashchange", show);
new MutationObserver(refreshed).observe($(".reading"), { childList: true });
refreshed();
addEventListener("load", show); // not sooner: the browser goes to what the address names until then
