// In the frame of a diagram: draws what the note's page sends, and answers with its height. The frame has no origin, and
// its policy lets it load nothing.

const FIXED = ["secure", "securityLevel", "startOnLoad", "maxTextSize", "maxEdges", "suppressErrorRendering", "htmlLabels",
  "theme", "themeCSS", "fontFamily", "altFontFamily", "dompurifyConfig", "logLevel"];
const dark = matchMedia("(prefers-color-scheme: dark)");
let asked = null;

async function draw() {
  mermaid.initialize({
    startOnLoad: false, securityLevel: "strict", htmlLabels: false, flowchart: { htmlLabels: false }, secure: FIXED,
    suppressErrorRendering: true, theme: dark.matches ? "dark" : "neutral", fontFamily: "system-ui, sans-serif", logLevel: "fatal",
  });
  try {
    const { svg } = await mermaid.render("diagram", asked.source);
    document.body.innerHTML = svg;
    for (const link of document.querySelectorAll("a")) for (const name of ["href", "xlink:href", "target"]) link.removeAttribute(name);
    tell();
  } catch (error) {
    document.body.replaceChildren();
    asked.answer({ error: String(error?.message ?? error).split("\n")[0] });
  }
}

function tell() {
  const height = document.body.firstElementChild?.getBoundingClientRect().height;
  if (height) asked.answer({ height: Math.ceil(height) });
}

addEventListener("message", ({ source, data, origin }) => {
  if (source !== parent || typeof data?.source !== "string") return;
  asked = { source: data.source, answer: (said) => source.postMessage(said, origin) };
  draw();
});
dark.addEventListener("change", () => asked && draw());
addEventListener("resize", () => asked && tell());
