// The search page while one types: names at once, answers when the typing pauses.
//
// The server draws every part of the page; this script asks for parts and puts them in the place of the old ones. The
// address always holds the question, so that reload, back and forward show it again.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

const PAUSE = 150; // ms without a key after which a question is asked
const AGAIN = 2000; // ms after which an unavailable service is asked again
const form = $("form.search");
const field = form.elements.q;
const help = $("#help");
let pausing, waiting;

// The question, and where it is kept: its words in the field, its filters in the address.

function questionOf(address, words) {
  const asked = new URLSearchParams(address);
  const typed = words ?? asked.get("q") ?? "";
  for (const name of ["q", "offset", "generation", "deep"]) asked.delete(name);
  return new URLSearchParams([...(typed.trim() ? [["q", typed]] : []), ...asked]).toString();
}

const question = () => questionOf(location.search, field.value);

// What is typed after a question that was settled is an entry of the history; further typing changes that entry.
function remember({ settled }) {
  const asked = question();
  const state = settled ? null : { typed: true };
  if (asked === questionOf(location.search)) {
    if (settled) history.replaceState(null, "");
  } else if (history.state?.typed) {
    history.replaceState(state, "", `/?${asked}`);
  } else {
    history.pushState(state, "", `/?${asked}`);
  }
  document.title = field.value.trim() ? `${field.value} · Everindex` : "Everindex";
}

// Asking

const under_way = {};

// Put the parts that the server draws for a question in their places. A newer request for them cancels an older one.
async function draw(parts, asked) {
  under_way[parts]?.abort();
  const { signal } = (under_way[parts] = new AbortController());
  try {
    const answer = await fetch(`/parts/${parts}?${asked}`, { signal, headers: { Accept: "text/html" } });
    const text = await answer.text();
    if (answer.status === 401) return complain("signed-out");
    if (answer.status === 503) return complain("away", { again: true });
    if (!answer.ok && answer.status !== 422) return complain("failed");
    $("#notice").replaceChildren();
    for (const part of [...new DOMParser().parseFromString(text, "text/html").body.children]) replace(part);
    return true;
  } catch (error) {
    if (error.name !== "AbortError") complain("away", { again: true });
  }
}

function replace(part) {
  const old = document.getElementById(part.id);
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(document.adoptNode(part));
  if (focused) ($$("a[href]", part).find((link) => link.href === focused.href) ?? field).focus();
}

function complain(reason, { again = false } = {}) {
  clearTimeout(waiting);
  if (again) waiting = setTimeout(ask, AGAIN);
  if ($("#notice").dataset.reason === reason && $("#notice").childElementCount) return;
  $("#notice").dataset.reason = reason;
  $("#notice").replaceChildren($(`#${reason}`).content.cloneNode(true));
}

async function ask() {
  clearTimeout(pausing);
  clearTimeout(waiting);
  if (waiting) name(); // the names may have failed instead of the answers
  waiting = null;
  $("main").ariaBusy = "true";
  if (await draw("answers", question())) {
    $("main").ariaBusy = null;
    $("#said").textContent = $("#count")?.textContent ?? $("#found .none p")?.textContent ?? "";
    whenLoaded();
  }
}

// Replace answers by word only once the model is loaded, unless something in them is open.
function whenLoaded() {
  if (!("loading" in $("#found").dataset)) return;
  waiting = setTimeout(() => ($("#found details[open]") ? whenLoaded() : ask()), AGAIN);
}

function name() {
  const filtered = [...new URLSearchParams(question()).keys()].some((key) => key !== "q");
  draw("titles", new URLSearchParams(filtered ? [] : [["q", field.value]]));
}

// Other filters for what the field says now, which may be more than what the link's address says; or other words.
function askWith(filters, words = field.value) {
  remember({ settled: true });
  field.value = words;
  history.pushState(null, "", `/?${questionOf(filters, words)}`);
  ask();
  name();
}

field.addEventListener("input", (event) => {
  if (event.isComposing) return;
  name();
  clearTimeout(pausing);
  pausing = setTimeout(() => (remember({ settled: false }), ask()), PAUSE);
});
field.addEventListener("compositionend", () => field.dispatchEvent(new Event("input")));

form.addEventListener("submit", (event) => {
  event.preventDefault();
  remember({ settled: true });
  ask();
});

// A filter that is chosen becomes a chip, and its field is free for another one.
$(".filters").addEventListener("change", ({ target }) => {
  const value = target.value.trim();
  target.value = "";
  if (!value) return;
  const asked = new URLSearchParams(location.search);
  asked.append(target.name, value);
  askWith(asked);
});

// What the fields offer is asked for whenever they are opened: it changes with the vault.
$(".filters").addEventListener("toggle", ({ target }) => target.open && draw("filter-values", ""));

document.addEventListener("click", (event) => {
  const link = event.target.closest("#chips a, a.refine");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    // A filter in the question is removed from its words.
    askWith(link.search, "words" in link.dataset ? (new URLSearchParams(link.search).get("q") ?? "") : field.value);
    field.focus();
  } else if (event.target.closest("main a")) {
    remember({ settled: true }); // so that back leads to what was asked
  }
});

// A passage is loaded when it is opened for the first time.
document.addEventListener("toggle", async ({ target }) => {
  if (!target.matches(".passage[open]:not([data-loaded])")) return;
  target.dataset.loaded = "";
  const answer = await fetch(target.dataset.from, { headers: { Accept: "text/html" } }).catch(() => null);
  if (answer?.ok) {
    target.append(...new DOMParser().parseFromString(await answer.text(), "text/html").body.children);
  } else {
    target.open = false;
    delete target.dataset.loaded;
    complain(!answer ? "away" : answer.status === 401 ? "signed-out" : "failed");
  }
}, true);

addEventListener("popstate", () => {
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  ask();
  name();
});

// Keys

const notes = () => $$("main a.hit").filter((link) => link.checkVisibility());

function move(step) {
  const places = [field, ...notes()];
  const at = places.indexOf(document.activeElement);
  if (at < 0) return false;
  const next = places[Math.min(Math.max(at + step, 0), places.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

const toField = () => (field.focus(), field.select(), true);

const KEYS = {
  ArrowDown: () => move(1),
  ArrowUp: () => move(-1),
  // In the field it does nothing: a browser would empty it, and with it the answers.
  Escape: () => document.activeElement === field || ($("main").contains(document.activeElement) && toField()),
  "/": (types) => !types && toField(),
  "?": (types) => !types && (help.showModal(), true),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help.open) return;
  const types = event.target.matches("input, select, textarea");
  if (KEYS[event.key]?.(types)) event.preventDefault();
});

// A browser focuses the field with its first frame, and loses the keys that come before it. It puts the cursor before a
// question that the page came with, but who goes on typing adds to its end.
if (document.activeElement === document.body) field.focus();
field.setSelectionRange(field.value.length, field.value.length);

whenLoaded();
document.documentElement.classList.add("scripted");
$("#help-button").hidden = false;
$("#help-button").addEventListener("click", () => help.showModal());
