// A note's page: marks the lines that the address names (#L5, #L5-L9), and listens to its keys.

const $ = (selector) => document.querySelector(selector);

function lines() {
  const found = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
  return found && { first: Number(found[1]), last: Number(found[2] ?? found[1]) };
}

// The blocks on these lines; if there is none, the last one before them.
function blocks({ first, last }) {
  const all = [...document.querySelectorAll("#text [data-end]")];
  const named = all.filter((block) => startOf(block) <= last && Number(block.dataset.end) >= first);
  return named.length ? named : all.filter((block) => startOf(block) < first).slice(-1);
}

const startOf = (block) => Number(block.id.slice(1));

function passage() {
  const wanted = lines();
  if (!wanted) return null;
  const range = new Range();
  const raw = $("#raw")?.firstChild;
  if (raw) {
    const ends = [...raw.data.matchAll(/\n|$/g)].map((end) => end.index);
    range.setStart(raw, wanted.first > 1 ? Math.min((ends[wanted.first - 2] ?? raw.length - 1) + 1, raw.length) : 0);
    range.setEnd(raw, ends[wanted.last - 1] ?? raw.length);
    return range;
  }
  const named = blocks(wanted);
  if (!named.length) return null;
  range.setStartBefore(named[0]);
  range.setEndAfter(named.at(-1));
  return range;
}

// A highlight leaves the page's elements as they are, so that a refresh does not take them for changed.
function mark() {
  const range = passage();
  CSS.highlights?.delete("passage");
  if (range) CSS.highlights?.set("passage", new Highlight(range));
  const other = $("#other"); // the same note raw, or rendered; a note that is always raw has none
  if (other) other.hash = location.hash;
  return range;
}

function show() {
  const range = mark();
  if (range) {
    const above = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) * 6;
    const { top, bottom } = range.getBoundingClientRect();
    scrollTo({ top: scrollY + bottom <= innerHeight ? 0 : scrollY + top - above });
  } else if (location.hash && !document.getElementById(named(location.hash))) {
    document.getElementById(`h-${slug(named(location.hash))}`)?.scrollIntoView();
  }
}

function named(hash) {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return hash.slice(1);
  }
}

const slug = (heading) => heading.toLowerCase().replace(/[^\p{L}\p{N}_\s-]/gu, "").trim().replace(/\s/g, "-");

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "/") $("#q").focus();
  else if (event.key === "r") $("#other")?.click();
  else return;
  event.preventDefault();
});

addEventListener("hashchange", show);
new MutationObserver(mark).observe($(".reading"), { childList: true });
mark();
addEventListener("load", show); // not sooner: the browser goes to what the address names until then
