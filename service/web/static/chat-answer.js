// An answer while it comes: each line of it is drawn into the elements in which the server shows one that is kept.
//
// The same as service/web/chat.py, and always as text: nothing that a model writes becomes a link, a picture or HTML.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

const TOKEN = /\*\*(?<bold>.+?)\*\*|`(?<code>[^`]+)`|\[(?<cited>\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\]/g;
const BEGINS = /^\s*(?:(?<bullet>[-*•])(?=\s|$)|(?<number>\d{1,9})[.)](?=\s|$)|(?<heading>#{1,6})(?=\s|$)|(?<quote>>[\s>]*))\s*/;
const QUOTE_MARKS = /["'“”„«»‹›「」『』‘’]/;
export const numbersIn = (text) => (text.match(/\d+/g) ?? []).map(Number);

export const drawn = (id) => $(`#${id}`).content.firstElementChild.cloneNode(true);
const made = (name, look, ...inner) => {
  const element = document.createElement(name);
  if (look) element.className = look;
  element.append(...inner);
  return element;
};

export class Turn {
  isKept = false; // the server has the question
  isEnded = false;
  #block = null; // the paragraph, or the item of a list, that the next sentence belongs to
  #isCode = false;
  #asked;
  #end;
  #sources;
  #work;
  #wait = made("p", "quiet wait", "Searching your notes …");

  // The questions from this number on are hidden until the server has this one: then they are deleted there, too.
  constructor(question, number, files) {
    this.replaced = $$(".turn").filter((other) => Number(other.dataset.turn) >= number);
    for (const other of this.replaced) other.hidden = true;
    this.element = drawn("new-turn");
    [this.#asked, this.#end, this.#sources, this.#work] = ["asked", "end", "sources", "working"].map((name) => $(`.${name}`, this.element));
    $("h2", this.element).textContent = question;
    $(".added", this.element).append(...files.map(({ name }) => made("span", "tag", name)));
    this.#work.append(this.#wait);
    this.#number = number;
    $("#turns").append(this.element);
    this.element.scrollIntoView();
  }

  set #number(number) {
    this.number = this.element.dataset.turn = number;
    this.element.ariaLabel = `Question ${number}`;
    this.#sources.ariaLabel = `Sources of answer ${number}`;
    for (const part of [this.element, this.#asked, this.#end, this.#sources]) part.id = `${part.classList[0]}-${number}`;
  }

  // The page follows an answer as long as its reader sees its end.
  take(line) {
    this.isFollowed = this.#end.getBoundingClientRect().bottom <= innerHeight;
    this[line.type]?.(line);
    if (this.isFollowed) this.#end.scrollIntoView({ block: "nearest" });
  }

  metadata({ turn, sources }) {
    this.isKept = true;
    for (const other of this.replaced.splice(0)) other.remove();
    this.#number = turn;
    this.#wait.textContent = "Waiting for the model …";
    $("ol", this.#sources).append(...sources.map(sourceOf));
  }

  memory({ forgotten }) {
    if (forgotten) this.#works("p", "quiet", `The oldest ${forgotten === 1 ? "question is" : `${forgotten} questions are`} no longer sent to the model.`);
  }

  thinking({ text }) {
    const thoughts = $(".thinking p", this.#work) ?? this.#works("details", "thinking", made("summary", "", "Thinking"), made("p", "")).lastChild;
    thoughts.append(text);
  }

  tool({ name, given, said, failed }) {
    const what = Object.values(given).map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(", ");
    this.#works("p", failed ? "quiet failed" : "quiet", `${name}: ${what} · ${said}`);
  }

  error({ message }) {
    this.#works("p", "error", message).role = "alert";
  }

  done() {
    this.isEnded = true;
  }

  #works(name, look, ...inner) {
    const part = made(name, look, ...inner);
    if (this.#wait.isConnected) this.#wait.before(part);
    else this.#work.append(part);
    return part;
  }

  // What is around the answer is replaced, once, by what the server keeps; a question that it does not have goes away.
  close(trouble) {
    this.#wait.remove();
    if (this.isKept) {
      if (!this.isEnded) this.#end.append(made("p", "remark", trouble));
      for (const part of [this.#asked, this.#end, this.#sources]) part.dataset.live = "";
    } else {
      this.element.remove();
      for (const other of this.replaced) other.hidden = false;
    }
  }

  text(line) {
    this.#wait.remove();
    if (line.support === "judgement") {
      this.#block = null;
      return $(".answer", this.element).append(made("p", "remark", line.text.trim()));
    }
    const measured = { ...line, spans: spansOf(line) };
    const parts = line.text.split("\n");
    const last = parts.findLastIndex((part) => part.trim());
    let start = 0;
    for (const [at, part] of parts.entries()) {
      if (at && this.#isCode) this.#block?.append("\n");
      else if (at) this.#block = null;
      this.#write(measured, part, start, at === last);
      start += part.length + 1;
    }
  }

  #write(line, part, start, isLast) {
    if (/^\s*(?:```|~~~)/.test(part)) {
      this.#isCode = !this.#isCode;
      this.#block = null;
    } else if (part.trim()) {
      const skipped = this.#block ? 0 : this.#begin(part);
      const said = part.trimEnd();
      const inner = this.#isCode ? quoted(said, start, line) : this.#inline(said.slice(skipped), start + skipped, line);
      const marks = isLast && !this.#isCode ? this.#marks(line) : [];
      this.#block.append(made("span", line.support, ...inner, ...marks), part.slice(said.length));
    } else {
      this.#block?.append(part);
    }
  }

  // Begin a paragraph, a heading, code or an item of a list; return how many characters only say which it is.
  #begin(part) {
    const answer = $(".answer", this.element);
    const found = this.#isCode ? null : BEGINS.exec(part);
    const { bullet, number, heading, quote } = found?.groups ?? {};
    if (bullet || number) {
      const name = bullet ? "ul" : "ol";
      if (answer.lastElementChild?.localName !== name) answer.append(document.createElement(name));
      this.#block = document.createElement("li");
      if (number) this.#block.value = number;
      answer.lastElementChild.append(this.#block);
    } else {
      this.#block = document.createElement(this.#isCode ? "pre" : quote ? "blockquote" : "p");
      if (heading) this.#block.className = "heading";
      answer.append(this.#block);
    }
    return found?.[0].length ?? 0;
  }

  #inline(text, start, line) {
    const nodes = [];
    let at = 0;
    for (const found of text.matchAll(TOKEN)) {
      const { bold, code, cited } = found.groups;
      nodes.push(...quoted(text.slice(at, found.index), start + at, line));
      if (bold) nodes.push(made("strong", "", ...this.#inline(bold, start + found.index + 2, line)));
      else if (code) nodes.push(made("code", "", ...quoted(code, start + found.index + 1, line)));
      else nodes.push(...numbersIn(cited).map(cite));
      at = found.index + found[0].length;
    }
    return [...nodes, ...quoted(text.slice(at), start + at, line)];
  }

  // What follows a sentence: sources that its text does not name, and what supports it unsaid.
  #marks(line) {
    const { support, quotes } = line;
    const marks = [...unnamed(line).map(cite), ...quotes.filter(({ start }) => start === null).map((one) => mark(kindOf(one), one.quote))];
    if (support === "own") marks.push(mark("own"));
    if (support === "unverified" && quotes.every(({ verified }) => verified)) marks.push(mark("no_source"));
    return marks;
  }
}

function cite(n) {
  const source = document.getElementById(`s${n}`);
  return source ? Object.assign(made("a", "cite", `[${n}]`), { href: `#s${n}`, title: $("a", source).textContent }) : `[${n}]`;
}

function mark(kind, quote) {
  const drawing = drawn(`mark-${kind}`);
  if (quote) drawing.ariaLabel = drawing.title = `${drawing.title}: “${quote}”`;
  return drawing;
}

const kindOf = ({ verified, reason }) => (verified ? "verified" : $(`#mark-${reason}`) ? reason : "unverified");

// The sources of a sentence that its text does not name.
export function unnamed({ text, quotes }) {
  const named = [...text.matchAll(TOKEN)].flatMap(({ groups }) => numbersIn(groups.cited ?? ""));
  const sources = new Set(quotes.map(({ n }) => n).filter((n) => n !== null));
  return [...sources].filter((n) => !named.includes(n));
}

// The quotes that a text has, with their quotation marks. Python counts characters, JavaScript units of UTF-16.
function spansOf({ text, quotes }) {
  const characters = [...text];
  const units = (count) => characters.slice(0, count).join("").length;
  return quotes.filter(({ start }) => start !== null).map((quote) => {
    const { start, end } = quote;
    const [before, after] = [characters[start - 1], characters[end]].map((one) => QUOTE_MARKS.test(one ?? ""));
    return { quote, first: units(start - before), last: units(end + after) };
  });
}

function quoted(text, start, { spans }) {
  const nodes = [];
  let at = 0;
  for (const { quote, first, last } of spans) {
    const [from, to] = [Math.max(first - start, at), Math.min(last - start, text.length)];
    if (from >= to) continue;
    nodes.push(text.slice(at, from), made("q", quote.verified ? "verified" : "unverified", text.slice(from, to)));
    if (to === last - start) nodes.push(mark(kindOf(quote)));
    at = to;
  }
  return [...nodes, text.slice(at)].filter((node) => node !== "");
}

export const addressOf = (path) => `/notes/${path.split("/").map(encodeURIComponent).join("/")}`;

function sourceOf({ n, path, title, section, lines, place, text, why }) {
  const item = drawn("new-source");
  item.id = `s${n}`;
  $(".n", item).textContent = n;
  $("a", item).textContent = title;
  $("summary", item).textContent = text;
  if (path !== null) $("a", item).href = `${addressOf(path)}${lines ? `#L${lines.first}-L${lines.last}` : ""}`;
  const there = place ?? (lines && (lines.first === lines.last ? `line ${lines.first}` : `lines ${lines.first}–${lines.last}`));
  const above = path !== null && section && section !== title ? `${path} › ${section}` : path;
  $(".where", item).textContent = [above, path !== null && there, why].filter(Boolean).join(" · ");
  return item;
}
