// Formulas and diagrams of a note, each in a shadow tree: a refresh compares the page with what the server sent, and a
// formula or diagram that cannot be drawn is seen as it is written.

const { katex: katexAddress, katexStyle, diagram: diagramAddress } = document.querySelector(".reading").dataset;
const LONGEST = 20_000; // characters of a formula
const AT_ONCE = 12; // milliseconds of drawing before the page may answer again

export async function draw(within) {
  for (const place of within.querySelectorAll(".diagram")) if (!place.shadowRoot) drawDiagram(place);
  const formulas = [...within.querySelectorAll(".math")].filter((place) => !place.shadowRoot);
  if (!formulas.length) return;
  await loadKatex();
  let began = performance.now();
  for (const place of formulas) {
    drawFormula(place);
    if (performance.now() - began < AT_ONCE) continue;
    await new Promise((go) => setTimeout(go));
    began = performance.now();
  }
}

// Formulas

const sheet = new CSSStyleSheet();
let loading;

function loadKatex() {
  loading ??= Promise.all([import(katexAddress), fetch(katexStyle).then((answer) => answer.text())]).then(([, style]) => {
    sheet.replaceSync(`${style}\n.katex-display { margin: .6em 0; overflow-x: auto; overflow-y: hidden; padding: .2em 0; }`);
    // The fonts have to be in a sheet of the document; the rules also in one of each shadow tree.
    const link = document.createElement("link");
    Object.assign(link, { rel: "stylesheet", href: katexStyle });
    document.head.append(link);
  });
  return loading;
}

function drawFormula(place) {
  const source = place.textContent.trim();
  if (!source || source.length > LONGEST || place.shadowRoot) return;
  try {
    const formula = formulaOf(source, place.classList.contains("display"));
    const shadow = place.attachShadow({ mode: "open" });
    shadow.adoptedStyleSheets = [sheet];
    shadow.append(formula);
  } catch {
    place.title = "This formula cannot be drawn, so it is shown as it is written";
  }
}

// The page's policy forbids style attributes, and allows scripts to set styles.
function formulaOf(source, displayMode) {
  const settings = { displayMode, throwOnError: true, trust: false, strict: false, maxSize: 40, maxExpand: 500 };
  const tree = globalThis.katex.__renderToDomTree(source, settings);
  for (const part of parts(tree)) {
    if (!part.attributes?.style) continue;
    part.attributes["data-style"] = part.attributes.style;
    delete part.attributes.style;
  }
  const formula = tree.toNode();
  for (const part of formula.querySelectorAll("[data-style]")) {
    part.style.cssText = part.dataset.style;
    delete part.dataset.style;
  }
  return formula;
}

function* parts(tree) {
  const left = [tree];
  while (left.length) {
    const part = left.pop();
    yield part;
    left.push(...(part.children ?? []));
  }
}

// Diagrams

const diagramSheet = new CSSStyleSheet();
diagramSheet.replaceSync(`
  iframe { display: block; width: 100%; height: 1px; border: 0; }
  summary { width: fit-content; color: var(--quiet); font-size: .8rem; cursor: pointer; }
  summary:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
  p { margin: .2rem 0; color: var(--quiet); font-size: .85rem; }
`);
const TALLEST = 10_000; // pixels
const frames = new Map(); // what each frame that answers is about

function drawDiagram(place) {
  const shadow = place.attachShadow({ mode: "open" });
  shadow.adoptedStyleSheets = [diagramSheet];
  const frame = document.createElement("iframe");
  // Without an origin: a script in it reaches neither this page nor the service.
  frame.sandbox.add("allow-scripts");
  frame.title = "Diagram";
  frame.loading = "lazy";
  frame.src = diagramAddress;
  const source = document.createElement("details");
  const summary = document.createElement("summary");
  summary.textContent = "Source of the diagram";
  source.open = true;
  source.append(summary, document.createElement("slot"));
  const complaint = document.createElement("p");
  complaint.hidden = true;
  shadow.append(frame, complaint, source);
  frame.addEventListener("load", () => {
    frames.set(frame.contentWindow, { frame, source, complaint, drawn: false });
    // It has no origin that could be named here, and what it gets is on this page.
    frame.contentWindow.postMessage({ source: place.textContent }, "*");
  });
}

addEventListener("message", ({ source: sender, data }) => {
  const known = frames.get(sender);
  if (!known || !known.frame.isConnected) return void frames.delete(sender);
  const { frame, source, complaint } = known;
  const failed = typeof data?.error === "string";
  if (!failed && !Number.isFinite(data?.height)) return;
  frame.style.height = `${failed ? 1 : Math.min(Math.max(data.height, 1), TALLEST)}px`;
  complaint.hidden = !failed;
  if (failed) complaint.textContent = `This diagram cannot be drawn: ${data.error.slice(0, 300)}`;
  if (failed || !known.drawn) source.open = failed;
  known.drawn = !failed;
});
