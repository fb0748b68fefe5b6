// The dashboard while it is open: what is new is shown without a reload, and buttons do what is written on them.
//
// The server draws every page; this script asks for the page again when the facts changed, and puts the parts that
// are marked `data-live` in the place of the old ones.

// By the address at which the page loads it: under another one it would run a second time.
const { showBadges } = await import(document.querySelector('script[src*="/site.js"]').src);

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// Live

const IDLE = 15; // messages without news after which the page is redrawn all the same: ages grow
let last = null;
let same = 0;

function listen() {
  const source = new EventSource("/ops/events");
  source.onopen = () => showLive(true);
  source.onmessage = ({ data }) => {
    const facts = JSON.parse(data);
    showBadges(facts.badges);
    for (const time of $$("time[datetime]:not([data-clock])")) time.textContent = ago(time.dateTime) ?? time.textContent;
    same = last === data ? same + 1 : 0;
    if (last !== null && same % IDLE === 0) refresh();
    last = data;
  };
  source.onerror = () => {
    showLive(false);
    // A browser tries again by itself unless the server refused.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 10_000);
  };
  addEventListener("pagehide", () => source.close());
}

function showLive(isLive) {
  $("#live").hidden = false;
  $("#live").textContent = isLive ? "live" : "not live";
  $("#live").classList.toggle("away", !isLive);
}

function ago(at) {
  const seconds = (Date.now() - Date.parse(at)) / 1000;
  if (Number.isNaN(seconds)) return null;
  if (seconds < 5) return "now";
  for (const [size, unit] of [[86_400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  }
  return `${Math.round(seconds)} s ago`;
}

// The server writes times in its own time zone; the browser may be in another one.
function setClocks(within) {
  for (const time of $$("[data-clock]", within)) time.textContent = clock(time.dateTime);
  for (const title of $$("title[data-at]", within)) title.textContent = `${clock(title.dataset.at)}: ${title.dataset.said}`;
}

function clock(at) {
  const then = new Date(at);
  const time = then.toLocaleTimeString("en-GB");
  if (then.toDateString() === new Date().toDateString()) return time;
  return `${then.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

// One load at a time. Who asks during a load waits for the next one, which shows what was sent meanwhile.
let load = Promise.resolve();
let next = null;
export function refresh() {
  next ??= load.then(() => {
    next = null;
    return (load = show());
  });
  return next;
}

async function show() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    showGone(answer.status === 404 ? $("main.message > p", fresh) : null);
    if (!answer.ok) return;
    setClocks(fresh);
    for (const part of $$("[data-live]")) {
      const other = fresh.getElementById(part.id);
      if (other && !isBusy(part)) replace(part, other);
    }
  } catch {
    showLive(false);
  }
}

// If what the page shows is gone, show the server's message above it: it links to a renamed note.
function showGone(said) {
  if (said) Object.assign(said, { id: "gone", className: "note", role: "alert" });
  const old = $("#gone");
  if (said && old?.isEqualNode(said)) return;
  old?.remove();
  if (said) $("main").prepend(document.adoptNode(said));
}

// A part is not replaced while the user types, chooses, decides or presses in it: a click is lost if its button is
// replaced before it is released.
const BUSY = "[aria-busy], input:not([type=checkbox]):focus, select:focus, :active";
const isBusy = (part) => Boolean($("dialog[open]") || part.querySelector(BUSY));

// Cards that the page has shown stay in their order, and come back to their place; new ones come first.
const placeOf = (card) => card.dataset.place;
let places = $$("[data-place]").map(placeOf);

function keepOrder(fresh) {
  const cards = $$("[data-place]", fresh);
  places = [...cards.map(placeOf).filter((place) => !places.includes(place)), ...places];
  cards.at(-1)?.after(...cards.sort((a, b) => places.indexOf(placeOf(a)) - places.indexOf(placeOf(b))));
}

function replace(part, other) {
  keepOrder(other);
  if (part.isEqualNode(other)) return;
  const chosen = new Set($$("input[name=chosen]:checked", part).map((box) => box.value));
  const opened = new Set($$("details[open]", part).map((some) => some.id));
  const key = keyOf(document.activeElement);
  const hadFocus = part.contains(document.activeElement);
  for (const box of $$("input[name=chosen]", other)) box.checked = chosen.has(box.value);
  for (const select of $$("select[name]", part)) {
    const twin = $(`select[name="${select.name}"]`, other);
    if (twin && $$("option", twin).some((option) => option.value === select.value)) twin.value = select.value;
  }
  for (const some of $$("details[id]", other)) some.open = some.open || opened.has(some.id);
  part.replaceWith(document.adoptNode(other));
  if (hadFocus && key) $$("[data-key], [data-post], a[href], input", other).find((some) => keyOf(some) === key)?.focus();
  countChosen();
}

const keyOf = (element) => {
  const { key, post, body } = element?.dataset ?? {};
  return key ?? (post ? post + body : element?.getAttribute?.("href") ?? element?.value ?? null);
};

// Actions

export async function send(address, body) {
  const answer = await fetch(address, {
    method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json" }, body: JSON.stringify(body),
  });
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  const detail = typeof said.detail === "string" ? said.detail : said.detail?.reason ?? said.title;
  throw new Error(detail ?? `the service answered ${answer.status}`);
}

let hiding;
export function tell(text, { bad = false, undo = null } = {}) {
  const toast = $("#toast");
  toast.textContent = text;
  toast.className = bad ? "shown bad" : "shown";
  if (undo) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Undo";
    button.addEventListener("click", undo);
    toast.append(" ", button);
  }
  hide(toast, bad || undo ? 10_000 : 4_000);
}

// A button is not taken away from under a pointer or the focus.
function hide(toast, after) {
  clearTimeout(hiding);
  hiding = setTimeout(() => {
    if (toast.matches(":hover, :focus-within")) return hide(toast, after);
    toast.className = "";
    $("button", toast)?.remove();
  }, after);
}

export function ask(button) {
  const dialog = $("#confirm");
  $("#question").textContent = button.dataset.ask;
  $("#consequence").textContent = button.dataset.consequence;
  const yes = $("button[value=yes]", dialog);
  yes.textContent = button.textContent.trim();
  yes.className = button.classList.contains("primary") ? "primary" : "danger";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

async function act(button) {
  if (button.ariaBusy === "true") return;
  const { post, body, done, selected } = button.dataset;
  const sent = selected ? { ...JSON.parse(body), [selected]: chosenValues() } : JSON.parse(body);
  if (button.dataset.ask && !(await ask(button))) return;
  button.ariaBusy = "true";
  try {
    const answer = await send(post, sent);
    if (answer?.said) tell(answer.said, { bad: answer.refused });
    else if (done) tell(done);
    if (selected) for (const box of $$("input[name=chosen]:checked")) box.checked = false;
  } catch (error) {
    tell(error.message, { bad: true });
  } finally {
    button.ariaBusy = null;
    countChosen();
  }
  await refresh();
}

// Many at once

const boxesOf = (all) => $$("input[name=chosen]").filter((box) => box.dataset.kind === all.dataset.all);
const chosenValues = () => $$("input[name=chosen]:checked").map((box) => box.value);

function countChosen() {
  const count = chosenValues().length;
  for (const bar of $$(".selected")) {
    bar.hidden = !count;
    $("[data-count]", bar).textContent = count;
  }
  for (const all of $$("input[data-all]")) {
    const boxes = boxesOf(all);
    all.checked = boxes.every((box) => box.checked);
    all.indeterminate = !all.checked && boxes.some((box) => box.checked);
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-post]");
  if (button) act(button);
});
document.addEventListener("change", (event) => {
  if (event.target.matches("input[data-all]")) for (const box of boxesOf(event.target)) box.checked = event.target.checked;
  if (event.target.matches("input[type=checkbox]")) countChosen();
});

setClocks(document);
countChosen();
listen();
