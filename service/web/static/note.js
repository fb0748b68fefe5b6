// A note's page: marks the lines that the address names (#L5, #L5-L9), and listens to its keys.

import { decoded } from "/static/address.js";
import { copyText } from "/static/clipboard.js";

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
  const file = $("#open-file:not([download])");
  if (file) file.hash = page() ? `page=${page()}` : "";
  const program = $("#program");
  if (program) program.dataset.body = JSON.stringify({ where: "program", line: lines()?.first || 1 });
  return parts;
}

// The page of the document that the address names, itself or by lines.
function page() {
  const named = /^#page=(\d+)$/.exec(decoded(location.hash) && location.hash);
  if (named) return named[1];
  const wanted = lines();
  const heading = wanted && blocks(wanted)[0]?.querySelector('h2[id^="page="]');
  return heading?.id.slice("page=".length);
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

// Copying

const { path, title } = $(".bar").dataset;
const copies = {
  link: () => location.href,
  path: () => path,
  // As agents cite notes: the path in the vault, and the lines or the page.
  citation: () => `[${title.replace(/[[\]\\]/g, "\\$&")}](${encodeURI(path).replace(/[()#?]/g, encodeURIComponent).replace(/[()]/g, (sign) => (sign === "(" ? "%28" : "%29"))}${place()})`,
};

function place() {
  const wanted = lines();
  if (wanted && !page()) return wanted.first === wanted.last ? `#L${wanted.first}` : `#L${wanted.first}-L${wanted.last}`;
  return page() ? `#page=${page()}` : "";
}

async function copy(what) {
  const text = copies[what]();
  await copyText(text);
  said(`Copied: ${text}`);
}

let hiding;
function said(text) {
  const toast = $("#toast");
  toast.textContent = text;
  toast.className = "shown";
  clearTimeout(hiding);
  hiding = setTimeout(() => (toast.className = ""), 4_000);
}

$(".copy").hidden = false;
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button.dataset.copy);
});

// Notes that mention this one: asked for when the page is there, because the words of all notes are searched.
async function mention() {
  const part = $("#mentions");
  const answer = await fetch(part.dataset.part, { headers: { Accept: "text/html" } }).catch(() => null);
  const fresh = answer?.ok && new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!fresh || !fresh.body.childElementCount) return;
  part.replaceChildren(...document.adoptNode(fresh.body).childNodes);
  part.hidden = false;
}

const slug = (heading) => heading.toLowerCase().replace(/[^\p{L}\p{N}_\s-]/gu, "").trim().replace(/\s/g, "-");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "/") $("#q").focus();
  else {
    const action = $(`.bar [aria-keyshortcuts="${CSS.escape(event.key)}"]`);
    if (!action) return;
    action.click();
  }
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
addEventListener("load", mention);
addEventListener("load", show); // not sooner: the browser goes to what the address names until then
