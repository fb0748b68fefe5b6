// The button that signs this browser out. Without this script it is not shown.

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
