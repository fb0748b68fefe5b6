// What the pages put on the clipboard.

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Browsers have no clipboard for an address without TLS that is not this machine's.
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.querySelector("main").append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
