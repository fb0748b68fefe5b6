// Browse by keyboard: arrows or j and k go through the entries, / to the search field, Escape back from it.

const field = document.getElementById("q");
const entries = () => [...document.querySelectorAll(".entry")];

function move(step) {
  const all = entries();
  const at = all.indexOf(document.activeElement);
  const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

const keys = {
  ArrowDown: () => move(1),
  ArrowUp: () => move(-1),
  j: () => move(1),
  k: () => move(-1),
  "/": () => (field.focus(), field.select()),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target === field) {
    if (event.key === "ArrowDown" || (event.key === "Escape" && !field.value)) event.preventDefault(), move(1);
    return;
  }
  if (!Object.hasOwn(keys, event.key) || document.querySelector(".menu[open]")) return;
  event.preventDefault();
  keys[event.key]();
});
