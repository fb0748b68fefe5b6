// The box that finds a note by title or path: words in any order, accents and case aside.

const FOUND = 8;

const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

function find(notes, text) {
  const words = plain(text).split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const hits = notes.filter((note) => words.every((word) => note.found.includes(word)));
  const rank = (note) => (note.found.startsWith(words[0]) ? 0 : note.found.split("\n")[0].includes(words[0]) ? 1 : 2);
  return hits.sort((a, b) => rank(a) - rank(b) || b.size - a.size || a.id - b.id).slice(0, FOUND);
}

export function setUpFinder(notes, choose) {
  const [form, input, list] = ["finder", "find", "found"].map((id) => document.getElementById(id));
  for (const note of notes) note.found = plain(`${note.title}\n${note.path}`);
  let hits = [];
  let at = 0;
  const mark = (to) => {
    at = hits.length ? (to + hits.length) % hits.length : 0;
    [...list.children].forEach((row, i) => row.setAttribute("aria-selected", String(i === at && hits.length > 0)));
    list.children[at]?.scrollIntoView({ block: "nearest" });
    if (hits.length) input.setAttribute("aria-activedescendant", `found-${at}`);
    else input.removeAttribute("aria-activedescendant");
  };
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  };
  const pick = (note) => {
    close();
    input.value = note.title;
    choose(note);
  };
  const open = () => {
    hits = find(notes, input.value);
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    const rows = hits.map((note, i) => {
      const row = Object.assign(document.createElement("li"), { role: "option", id: `found-${i}` });
      const path = document.createElement("small");
      path.textContent = note.path;
      row.append(note.title, path);
      row.onpointerdown = (event) => event.preventDefault(); // or the input's blur closes the list first
      row.onclick = () => pick(note);
      return row;
    });
    list.replaceChildren(...rows);
    if (!rows.length) list.append("No linked note is called so.");
    mark(0);
  };
  input.oninput = open;
  input.onfocus = () => input.value && open();
  input.onblur = close;
  input.onkeydown = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") mark(at + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Escape" && !list.hidden) close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    if (hits[at]) pick(hits[at]);
  };
}
