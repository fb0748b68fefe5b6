// An answer while it comes: the server draws its sentences and sources as it does when they are kept.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

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

  metadata({ turn, html }) {
    this.isKept = true;
    for (const other of this.replaced.splice(0)) other.remove();
    this.#number = turn;
    this.#wait.textContent = "Waiting for the model …";
    $("ol", this.#sources).insertAdjacentHTML("beforeend", html);
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

  text({ keep, html }) {
    this.#wait.remove();
    const answer = $(".answer", this.element);
    for (const changed of [...answer.children].slice(keep)) changed.remove();
    answer.insertAdjacentHTML("beforeend", html);
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
}
