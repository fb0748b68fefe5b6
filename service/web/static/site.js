// What every page has: the menu, the numbers in the navigation, and the button that signs this browser out.

const menu = document.querySelector(".site .menu");

// Without this script the menu opens and closes by its own button alone.
document.addEventListener("click", ({ target }) => {
  if (!menu.contains(target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !menu.open) return;
  const had = menu.contains(document.activeElement);
  menu.open = false;
  if (had) menu.querySelector("summary").focus();
  event.stopPropagation();
}, true);
menu.addEventListener("focusout", ({ relatedTarget }) => {
  if (relatedTarget && !menu.contains(relatedTarget)) menu.open = false;
});

export function showBadges(counts) {
  for (const badge of document.querySelectorAll("[data-badge]")) {
    badge.textContent = counts[badge.dataset.badge];
    badge.hidden = !counts[badge.dataset.badge];
  }
}

// A page that is live is sent them.
if (!document.getElementById("live")) {
  fetch("/ops/badges.json", { headers: { Accept: "application/json" } })
    .then((answer) => (answer.ok ? answer.json() : null))
    .then((counts) => counts && showBadges(counts))
    .catch(() => {}); // the page itself says that the service cannot be reached
}

const button = document.getElementById("sign-out");
button.hidden = false;
button.addEventListener("click", async () => {
  button.disabled = true;
  const answer = await fetch("/sign-out", {
    method: "POST", headers: { "Content-Type": "application/json", Accept: "application/json" }, body: "{}",
  }).catch(() => null);
  if (answer?.ok) return location.assign("/");
  button.disabled = false;
  button.textContent = "Not signed out. Try again";
});
