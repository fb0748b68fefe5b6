// Proposals by keyboard: j and k move, a accepts, r rejects, o opens the note. The same requests as the buttons.

import { refresh, send, tell } from "./ops.js";

const rows = () => [...document.querySelectorAll(".proposal[tabindex]:not(.decided)")];
const current = () => document.activeElement?.closest?.(".proposal");

function move(step) {
  const all = rows();
  const at = all.indexOf(current());
  const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

async function decide(row, how) {
  const all = rows();
  const next = all[all.indexOf(row) + 1] ?? all[all.indexOf(row) - 1];
  row.classList.add("decided"); // at once: the next key belongs to the next proposal
  next?.focus();
  try {
    await send("/proposals/decide", { [how]: [Number(row.dataset.key)] });
    tell(`${how === "accept" ? "Accepted" : "Rejected"}: ${row.querySelector(".tag").textContent}`);
  } catch (error) {
    row.classList.remove("decided");
    row.focus();
    tell(error.message, { bad: true });
  }
  await refresh();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  if (document.querySelector("dialog[open]")) return;
  const row = current();
  if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "a" && row && !row.classList.contains("decided")) decide(row, "accept");
  else if (event.key === "r" && row && !row.classList.contains("decided")) decide(row, "reject");
  else if (event.key === "o" && row) location.href = row.closest("article").querySelector("h2 a").href;
  else return;
  event.preventDefault();
});
