// Proposals by keyboard and by button: j and k move, a accepts, x rejects, r renames, u undoes, o opens the note.
// What is decided is written on the element that holds the button: `data-ids` and `data-name`.

// As the page loads it, as in ops.js: a second one would listen and answer clicks, too.
const { ask, refresh, send, tell } = await import(document.querySelector('script[src*="/ops.js"]').src);

const rows = () => [...document.querySelectorAll(".proposal:not(.decided)")];
const current = () => document.activeElement?.closest?.(".proposal");
const holderOf = (element) => element.closest("[data-ids]");
const idsOf = (holder) => holder.dataset.ids.split(",").map(Number);
const rowOf = (id) => document.querySelector(`.proposal[data-key="${id}"]`);
const decisions = []; // what `u` takes back, the last one first
let arrived = null; // the row that became the current one by a decision, and not by a key

function focus(row) {
  row?.focus();
  row?.scrollIntoView({ block: "nearest" });
}

// A decision goes on to the next proposal by itself. `j` after it means that one, too, so that none is skipped.
function move(step) {
  const all = rows();
  const row = current();
  const at = all.indexOf(row);
  const isThere = step > 0 && row && row.dataset.key === arrived;
  arrived = null;
  if (isThere) return focus(row);
  focus(all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + step))]);
}

async function decide(holder, how) {
  const ids = idsOf(holder);
  const decided = ids.map(rowOf).filter((row) => row && !row.classList.contains("decided"));
  if (!decided.length) return;
  const before = rows();
  for (const row of decided) row.classList.add("decided"); // at once: the next key belongs to the next proposal
  focus(before.slice(before.indexOf(decided.at(-1))).find((row) => !decided.includes(row)) ?? rows().at(-1));
  arrived = current()?.dataset.key;
  const decision = { ids, name: holder.dataset.name, sent: send("/proposals/decide", { [how]: ids }) };
  decisions.push(decision); // at once: the next key may be `u`
  try {
    await decision.sent;
    tell(`${how === "accept" ? "Accepted" : "Rejected"}: ${decision.name}`, { undo: () => undo(decision) });
  } catch (error) {
    drop(decision);
    for (const row of decided) row.classList.remove("decided");
    focus(decided[0]);
    arrived = null;
    tell(error.message, { bad: true });
  }
  await refresh();
}

function drop(decision) {
  const place = decisions.indexOf(decision);
  if (place >= 0) decisions.splice(place, 1);
}

async function undo(decision) {
  drop(decision);
  tell(`Taking back: ${decision.name}`);
  try {
    await decision.sent;
    const { problems } = await (decision.renamed
      ? send("/ops/review/rename/undo", decision.renamed)
      : send("/proposals/undo", { ids: decision.ids }));
    if (problems.length) tell(problems.join("; "), { bad: true });
    else tell(`Waits again: ${decision.name}`);
  } catch (error) {
    tell(error.message, { bad: true });
  }
  await refresh();
  focus(rowOf(decision.ids[0]));
  arrived = null;
}

// A tag under another name: the service says what would happen before it does.

const dialog = document.getElementById("rename");
const newName = document.getElementById("new-name");
const doIt = document.getElementById("rename-do");
const said = document.getElementById("rename-said");
let renaming, pausing;

function rename(button) {
  const { rename: old, domain } = button.dataset;
  renaming = { old, domain, proposal: Number(button.closest(".proposal").dataset.key) };
  document.getElementById("old-name").textContent = old;
  newName.value = old;
  said.textContent = "";
  doIt.disabled = true;
  dialog.returnValue = "";
  dialog.showModal();
  newName.select();
}

document.getElementById("rename-not").addEventListener("click", () => dialog.close());
newName.addEventListener("input", () => {
  doIt.disabled = true;
  clearTimeout(pausing);
  pausing = setTimeout(preview, 250);
});

async function preview() {
  const name = newName.value.trim();
  if (!name || name === renaming.old) return void (said.textContent = "");
  let text, can = false;
  try {
    const answer = await send("/ops/review/rename", { ...renaming, new: name, dry_run: true });
    text = answer.said;
    can = !answer.refused;
  } catch (error) {
    text = error.message;
  }
  if (name !== newName.value.trim()) return; // typed on
  said.textContent = text;
  doIt.disabled = !can;
}

dialog.addEventListener("close", async () => {
  clearTimeout(pausing);
  const { proposal, domain, old } = renaming;
  if (dialog.returnValue === "yes") {
    tell(`Renaming ${old} …`);
    try {
      const answer = await send("/ops/review/rename", { ...renaming, new: newName.value.trim() });
      const decision = answer.back && { ids: [answer.back.accepted], name: old, renamed: { domain, ...answer.back } };
      if (decision) decisions.push(decision);
      tell(answer.said, { bad: answer.refused, undo: decision && (() => undo(decision)) });
    } catch (error) {
      tell(error.message, { bad: true });
    }
    await refresh();
  }
  focus(rowOf(proposal));
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-decide], [data-undo], [data-rename]");
  if (!button) return;
  if ("rename" in button.dataset) return rename(button);
  const holder = holderOf(button);
  if (button.dataset.ask && !(await ask(button))) return;
  if ("undo" in button.dataset) undo({ ids: idsOf(holder), name: holder.dataset.name });
  else decide(holder, button.dataset.decide);
});

const keys = {
  j: () => move(1),
  k: () => move(-1),
  a: (row) => decide(row, "accept"),
  x: (row) => decide(row, "reject"),
  A: (row) => decide(row.closest("article"), "accept"),
  X: (row) => decide(row.closest("article"), "reject"),
  r: (row) => rename(row.querySelector("[data-rename]")),
  u: () => decisions.length && undo(decisions.at(-1)),
  o: (row) => (location.href = row.closest("article").querySelector("h2 a").href),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  if (document.querySelector("dialog[open]") || !Object.hasOwn(keys, event.key)) return;
  const row = current();
  const waits = document.querySelector("[data-decide]");
  if ("axrAXo".includes(event.key) && (!row || (event.key !== "o" && !waits))) return;
  keys[event.key](row);
  event.preventDefault();
});
