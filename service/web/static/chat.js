// The page of conversations: asks, and says from what and with which files; the server draws what is kept.

import { Turn, drawn } from "/static/chat-answer.js";
import { copyText } from "/static/clipboard.js";

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
// By the address at which the page loads it: under another one it would run a second time.
const { ask: confirmed, refresh, send, tell } = await import($('script[src*="/ops.js"]').src);

const form = $("#ask");
const field = form.elements.question;
const limits = JSON.parse(form.dataset.limits);
const headers = { "Content-Type": "application/json", Accept: "application/json" };
const chat = () => new URLSearchParams(location.search).get("chat");

// Asking

let answering = null; // what stops the answer that is coming

async function ask(question, number = null, files = []) {
  const turn = new Turn(question, number ?? $$(".turn").length + 1, files);
  // An earlier question that is given no files keeps its own.
  const body = JSON.stringify({ question, chat: chat(), turn: number, scope: scopeChanged ? scope() : null, files: files.length ? files : null });
  showBusy((answering = new AbortController()));
  complain("");
  let trouble = "The connection ended before the answer did.";
  try {
    const answer = await fetch("/parts/chat", { method: "POST", headers, body, signal: answering.signal });
    if (answer.ok) await follow(turn, answer.body);
    else trouble = await reasonOf(answer);
  } catch (error) {
    if (error.name === "AbortError") trouble = "Stopped.";
    else if (!turn.isKept) trouble = "The service cannot be reached. Is everindex up running?";
  }
  showBusy((answering = null));
  turn.close(trouble);
  if (!turn.isKept) {
    field.value ||= question;
    showFiles(files);
    edit(number);
    if (trouble !== "Stopped.") complain(trouble);
  }
  $("#said").textContent = turn.isEnded ? "The answer is complete." : trouble;
  await refresh();
  if (turn.isFollowed) document.getElementById(`end-${turn.number}`)?.scrollIntoView({ block: "nearest" });
}

async function follow(turn, body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines.filter(Boolean).map((one) => JSON.parse(one))) {
      if (line.type === "metadata" && !turn.isKept) began(line);
      turn.take(line);
    }
  }
}

function began(line) {
  showScope(line.scope);
  if (chat() === line.chat) return;
  history.pushState(null, "", `/chat?chat=${line.chat}`);
}

async function reasonOf(answer) {
  if (answer.status === 401) return "This browser is not signed in any more. Run everindex open in a terminal on this machine.";
  const { detail, title } = await answer.json().catch(() => ({}));
  return typeof detail === "string" ? detail : detail?.reason ?? title ?? `The service answered ${answer.status}.`;
}

function showBusy(isBusy) {
  $("#send").textContent = isBusy ? "Stop" : "Ask";
  $("#turns").ariaBusy = isBusy ? "true" : null;
  document.documentElement.classList.toggle("answering", Boolean(isBusy));
}

const complain = (text) => ($("#notice").textContent = text);

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (answering) return answering.abort();
  const question = field.value.trim();
  if (!question) return;
  const [number, files] = [editing, added];
  field.value = "";
  edit(null);
  showFiles([]);
  ask(question, number, files);
});

// An earlier question that is asked again

let editing = null;

function edit(number) {
  editing = number;
  $("#editing").hidden = !number;
  field.focus();
  if (!number) return;
  const after = $$(".turn").length - number;
  const lost = `${after ? ` and the ${after === 1 ? "question" : `${after} questions`} after it` : ""} will be deleted.`;
  const files = $(`#turn-${number} .tag`) ? " Its texts are sent again unless you add other files; pictures are not kept." : "";
  $("#editing span").textContent = `You change question ${number}. Its answer${lost}${files}`;
}

function leave() {
  edit(null);
  field.value = "";
}

$("#editing button").addEventListener("click", leave);

// Where answers come from

const pin = $("#pin");
let scopeChanged = false;
const scope = () => $$("#scope li").map(({ dataset: { kind, value } }) => ({ kind, value }));
const shownAs = (kind, value) => ({ folder: `${value}/`, tag: `#${value}` })[kind] ?? value;

function showScope(pins) {
  scopeChanged = false;
  $("#scope").replaceChildren(...pins.map(({ kind, value }) => chipOf(kind, value)));
}

function chipOf(kind, value) {
  const chip = drawn("new-chip");
  Object.assign(chip.dataset, { kind, value });
  $("span", chip).textContent = shownAs(kind, value);
  $("button", chip).ariaLabel = `Remove ${shownAs(kind, value)}`;
  return chip;
}

// Folders and tags are asked for once, and notes by what is typed.
let values;
async function suggest() {
  const typed = pin.value.trim();
  values ??= fetch("/parts/filter-values", { headers: { Accept: "text/html" } }).then((answer) => answer.text());
  const page = new DOMParser().parseFromString(await values, "text/html");
  const named = typed ? await fetch(`/titles?limit=8&q=${encodeURIComponent(typed)}`, { headers }).then((answer) => answer.json()) : { results: [] };
  const listed = (kind) => $$(`#${kind}-values option`, page).map(({ value }) => [kind, value, kind]);
  $("#pins").replaceChildren(...[...named.results.map(({ path, title }) => ["note", path, title]), ...listed("folder"), ...listed("tag")].map(([kind, value, label]) => {
    const option = Object.assign(document.createElement("option"), { value: shownAs(kind, value), label });
    Object.assign(option.dataset, { kind, value });
    return option;
  }));
}

async function pinTyped() {
  const typed = pin.value.trim().toLowerCase();
  if (!typed) return;
  await suggest().catch(() => {});
  const found = $$("#pins option").find((one) => [one.value, one.dataset.value, one.dataset.kind === "note" && one.label].some((name) => name && name.toLowerCase() === typed));
  complain(found ? "" : `No folder, tag or note is called ${pin.value.trim()}.`);
  if (!found) return;
  const { kind, value } = found.dataset;
  pin.value = "";
  scopeChanged = true;
  if (!scope().some((one) => one.kind === kind && one.value === value)) $("#scope").append(chipOf(kind, value));
}

pin.addEventListener("focus", () => suggest().catch(() => {}));
// What is chosen in the list was not typed.
pin.addEventListener("input", ({ inputType }) => (inputType && inputType !== "insertReplacementText" ? suggest().catch(() => {}) : pinTyped()));
pin.addEventListener("change", pinTyped);

form.addEventListener("click", ({ target }) => {
  const chip = target.matches(".chip button") && target.closest(".chip");
  if (!chip) return;
  if (chip.closest("#files")) showFiles(added.filter((_, at) => at !== [...chip.parentElement.children].indexOf(chip)));
  else scopeChanged = true;
  chip.remove();
  field.focus();
});

// Files

let added = [];

function showFiles(files) {
  added = files;
  $("#files").replaceChildren(...files.map(({ name }) => chipOf("file", name)));
}

async function add(files) {
  complain("");
  for (const file of files) {
    try {
      if (added.length === limits.files) throw new Error(`A question takes at most ${limits.files} files.`);
      showFiles([...added, await readFile(file, () => file.arrayBuffer())]);
    } catch (error) {
      return complain(`${file.name} was not added: ${error.message}`);
    }
  }
  field.focus();
}

const many = (number, what) => `${number.toLocaleString("en")} ${what}`;

// Return a file as it is sent. The limits are of all files of a question together.
async function readFile({ name, size, type }, bytes) {
  if (/^image\/(png|jpeg|gif|webp)$/.test(type)) {
    const left = Math.floor((limits.picture - lengthOf("picture")) * 3 / 4);
    if (size > left) throw new Error(`it has ${many(size, "bytes")}, and ${many(left, "bytes")} are left for pictures. Make it smaller.`);
    return { name, picture: btoa(new Uint8Array(await bytes()).reduce((text, byte) => text + String.fromCharCode(byte), "")), media_type: type };
  }
  const left = limits.characters - lengthOf("text");
  const tooLong = (found) => new Error(`it has ${found}, and ${many(left, "characters")} are left for texts. Add the part that matters.`);
  if (size > left * 4) throw tooLong(many(size, "bytes")); // a character has up to four
  const text = await bytes().then((all) => new TextDecoder("utf-8", { fatal: true }).decode(all)).catch(() => "\0");
  if (text.includes("\0")) throw new Error("it is neither text nor a picture (PNG, JPEG, GIF, WebP).");
  if ([...text].length > left) throw tooLong(many([...text].length, "characters"));
  return { name, text };
}

const lengthOf = (kind) => added.reduce((sum, one) => sum + [...(one[kind] ?? "")].length, 0);

$("#add").addEventListener("click", () => $("#picked").click());
$("#picked").addEventListener("change", ({ target }) => add([...target.files]).then(() => (target.value = "")));
document.addEventListener("dragover", (event) => event.dataTransfer.types.includes("Files") && event.preventDefault());
document.addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  add([...event.dataTransfer.files]);
});

// What can be done with a conversation

const address = (more = "") => `/chats/${chat()}${more}`;

async function got(method, from = address()) {
  const answer = await fetch(from, { method, headers });
  if (!answer.ok) throw new Error(await reasonOf(answer));
  return answer;
}

const actions = {
  edit(_, number, question) {
    field.value = question;
    edit(number);
  },
  again: (_, number, question) => ask(question, number),
  async copy(_, number) {
    await copyText(await (await got("GET", `/parts/chat/${chat()}/${number}`)).text());
    tell("Copied as Markdown");
  },
  async save() {
    const { path } = await send(address("/note"), {});
    const href = `/notes/${path.split("/").map(encodeURIComponent).join("/")}`;
    const link = Object.assign(document.createElement("a"), { href, textContent: path });
    $("#saved").replaceChildren("Saved as ", link);
  },
  async remove(button) {
    if (await confirmed(button)) await got("DELETE").then(() => location.assign("/chat"));
  },
};

document.addEventListener("click", async (event) => {
  const link = event.target.closest("a.cite");
  if (link) {
    event.preventDefault();
    return goTo(link);
  }
  const button = event.target.closest("[data-do]");
  if (!button || answering) return;
  const turn = button.closest(".turn");
  try {
    await actions[button.dataset.do](button, turn && Number(turn.dataset.turn), turn && $("h2", turn).textContent);
  } catch (error) {
    tell(error.message, { bad: true });
  }
});

// A citation and its source

const sourceOf = (link) => document.getElementById(link.hash.slice(1));

function goTo(link) {
  const source = sourceOf(link);
  for (const folded of [source.closest("details"), $("details", source)]) if (folded) folded.open = true;
  source.focus();
  source.scrollIntoView({ block: "nearest" });
}

function point({ target, type }) {
  const link = target.closest?.("a.cite");
  if (!link) return;
  const [source, isNamed] = [sourceOf(link), type === "pointerover" || type === "focusin"];
  source.classList.toggle("named", isNamed);
  const text = $("summary", source).firstChild;
  const quotes = isNamed && text ? $$("q.verified", link.closest("span")).map((quote) => quote.textContent.replace(/^["“„]|["”]$/g, "")) : [];
  const ranges = quotes.filter((quote) => text.data.includes(quote)).map((quote) => {
    const range = new Range();
    range.setStart(text, text.data.indexOf(quote));
    range.setEnd(text, text.data.indexOf(quote) + quote.length);
    return range;
  });
  CSS.highlights?.set("quoted", new Highlight(...ranges));
}

for (const type of ["pointerover", "pointerout", "focusin", "focusout"]) document.addEventListener(type, point);

// Keys

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || $("dialog[open]")) return;
  const types = event.target.matches("input, textarea, select");
  if (event.key === "Escape" && (answering || editing)) answering ? answering.abort() : leave();
  else if (event.key === "Enter" && event.target === field && !event.shiftKey) answering || form.requestSubmit();
  else if (event.key === "Enter" && event.target === pin) pinTyped();
  else if (event.key === "/" && !types) field.focus();
  else return;
  event.preventDefault();
});

document.addEventListener("visibilitychange", refresh);
addEventListener("popstate", () => location.reload());
document.documentElement.classList.add("scripted");
// Its reader wants to see the last answer, and to go on.
$(".turn:last-child")?.scrollIntoView();
field.focus({ preventScroll: true });
