"""Print answers for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.usecases.text import (
    NO_ANSWER,
    REFINING,
    as_phrase,
    as_sum,
    counted,
    named_so,
    nearest_first,
    not_asked_for,
    sharing,
    way_to,
    why_kept,
    why_left_out,
)

_MATCHES = {
    "strong": "a strong match",
    "weak": "a weak match: `everindex deep` may find more",
    "none": "no match: `everindex deep` may find more",
}
_NEAREST = 3
"""How many notes are shown where none is an answer."""
_STALE = {
    True: "  changed since it was indexed",
    False: "",
    None: "  as it was indexed: the vault is not there",
}
_INDENT = "    "
_TABLES = (".csv", ".tsv")
_WEB_PAGES = (".html", ".htm")
"""The suffixes of text files whose hits have no place, but lines of the text that was read from them."""
_ALIKE = 3
_WIDE = 110
"""Columns from which a table has room for a model's name with its organisation or folder."""


def shown_hits(answer: dict[str, Any], *, every: bool) -> list[dict[str, Any]]:
    """Return the hits that are printed, in the order of their numbers: answers, or else the nearest."""
    hits: list[dict[str, Any]] = answer["results"]
    return hits if every else answers_of(answer) or hits[:_NEAREST]


def answers_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the hits that are answers."""
    return [hit for hit in answer["results"] if hit.get("match") != "none"]


def print_search(console: Console, answer: dict[str, Any], *, every: bool = False) -> None:
    """Print the hits that are answers, or every one, with their excerpts, and say if the index is behind."""
    shown = shown_hits(answer, every=every)
    if shown and not answers_of(answer):
        console.print(f"{NO_ANSWER} The nearest are:")
    for number, hit in enumerate(shown, start=1):
        _print_hit(console, number, hit)
    if left := answer["count"] - len(shown):
        notes = counted(left, "more note is", "more notes are")
        console.print(
            Text(
                f"    {notes} not close to the question; `--all` shows {'it' if left == 1 else 'them'}", "dim"
            )
        )
    console.print(Text(about(answer, len(shown)), "dim"), soft_wrap=True)
    if meant := answer.get("did_you_mean"):  # a service that was started before an upgrade says nothing of it
        console.print(Text(f"did you mean: {meant}", "yellow"), soft_wrap=True)
    for file in answer.get("unindexed", ()):  # likewise
        line = f"{named_so(file)}; `everindex why {shlex.quote(file['path'])}` says what to do"
        console.print(Text(line, "yellow"), soft_wrap=True)
    if left := answer.get("not_indexed"):  # likewise
        console.print(Text(f"{left}; `everindex status` says which", "dim"), soft_wrap=True)
    for slug, reason in answer["index"]["failed"].items():
        console.print(Text(f"{slug} cannot be searched: {reason}", "red"), soft_wrap=True)


def where_of(hit: dict[str, Any]) -> str:
    """Return where a hit is, as editors and people write it: `note.md:12`, `report.pdf p. 3`."""
    # A service that was started before an upgrade says nothing of places.
    place = hit.get("place")
    return f"{hit['path']} {place['shown']}" if place else f"{hit['path']}:{hit['lines'][0]}"


def line_of(hit: dict[str, Any]) -> int:
    """Return the line at which an editor opens a hit: the first where lines are those of text read from its file."""
    place, path = hit.get("place"), hit["path"].lower()
    if place and path.endswith(_TABLES):
        return int(place["first"])
    if place and place["kind"] == "key":
        return int(place["first"]) or 1
    has_own_lines = place["kind"] == "symbol" if place else not path.endswith(_WEB_PAGES)
    return int(hit["lines"][0]) if has_own_lines else 1


def section_of(hit: dict[str, Any]) -> str:
    """Return the section of a hit, or nothing if its title or where it is says it already."""
    said = hit["title"], (hit.get("place") or {}).get("shown")
    return "" if hit["section"] in said else str(hit["section"])


def _print_hit(console: Console, number: int, hit: dict[str, Any]) -> None:
    head = Text(f"{number:>2}. ")
    head.append(hit["title"], "bold")
    if section := section_of(hit):
        head.append(f" › {section}")
    console.print(head)
    console.print(Text(f"    {where_of(hit)}{_STALE[hit['stale']]}", "cyan"), soft_wrap=True)
    excerpt = Text(hit["excerpt"])
    for start, end in hit["marks"]:
        excerpt.stylize("bold yellow", start, end)
    for line in excerpt.wrap(console, max(1, console.width - len(_INDENT))) if hit["excerpt"] else ():
        line.rstrip()
        console.print(Text(_INDENT).append_text(line), soft_wrap=True)
    if hit["alike"]:
        paths = [one["path"] for one in hit["alike"]]
        more = ", …" if len(paths) > _ALIKE else ""
        console.print(Text(f"    +{len(paths)} alike: {', '.join(paths[:_ALIKE])}{more}", "dim"))
    if hit["signals"]:
        similarity = hit.get("similarity")  # a service that was started before an upgrade says nothing of it
        near = "" if similarity is None else f"; similarity {similarity:.3f} ({hit.get('band') or 'far'})"
        console.print(Text(f"    score {as_sum(hit['score'], hit['signals'])}{near}", "dim"))
    for layer in hit["layers"] or []:
        parts = "".join(f"  {name} {value:.3g}" for name, value in layer["parts"].items())
        place = f"    {layer['layer']:<9}{layer['rank']:>4}.  {layer['score']:.4g}{parts}"
        console.print(Text(place, "dim"))


def about(answer: dict[str, Any], shown: int) -> str:
    """Say how many notes answer, how well they match, and how far the index is behind."""
    index, is_list = answer["index"], _is_list(answer)
    tail = _what_answers(answer, shown)
    if index["pending"]:
        late = counted(index["pending"], "saved note is", "saved notes are")
        tail += f"; {late} not indexed yet (oldest {index['oldest_pending_s']} s)"
    elif index["vectors_pending"]:
        tail += (
            f"; {counted(index['vectors_pending'], 'passage is', 'passages are')} not searched by meaning yet"
        )
    if index["waits"]:
        tail += f"; {index['waits']}"
    if index.get("held"):  # a service that was started before an upgrade says nothing of it
        tail += f"; {index['held']}"
    if index["model_problem"]:
        tail += f"; by word only: {index['model_problem']}"
    elif not (is_list or index["model_ready"]):
        tail += "; by word only, the model is loading"
    elif index.get("by_words") and not is_list:
        tail += "; by words"
    return tail


def _is_list(answer: dict[str, Any]) -> bool:
    """Say whether the hits are all notes that pass filters; a service of an earlier version has no such answers."""
    return bool(answer.get("order") == "newest")


def _what_answers(answer: dict[str, Any], shown: int) -> str:
    newest = ", the newest first," if _is_list(answer) and shown > 1 else ""
    tail = f"{counted(shown, 'note')}{newest} in {answer['took_ms']:.0f} ms"
    if answer["reason"]:
        tail += f": {answer['reason']}"
    if _is_list(answer) and answer["more"]:
        tail += "; there are more, which a higher -k shows"
    if filters := answer.get("filters"):
        tail += f"; filters: {as_phrase(filters)}"
    if why := answer.get("not_reranked"):  # a service that was started before an upgrade says nothing of it
        tail += f"; not ranked again: {why}"
    if answer["results"] and answer["match"]:
        tail += f"; {_MATCHES[answer['match']]}"
    return tail


def print_links(console: Console, answer: dict[str, Any], limit: int) -> None:
    """Print links as written, with their targets or suggestions; `limit` is the most that were asked for."""
    for link in answer["links"]:
        written = link["target"] + (f"#{link['fragment']}" if link["fragment"] else "")
        line = Text(f"{link['path']}:{link['line']}", "cyan").append(f"  {written}", "bold")
        if link["meant"]:
            line.append(f" → {link['meant']}" + ("  (other files match, too)" if link["ambiguous"] else ""))
            line.append(f"  {link['type']}" if link.get("type") else "", "dim")
        elif link["suggestions"]:
            line.append(f"  did you mean {', '.join(link['suggestions'])}", "yellow")
        console.print(line, soft_wrap=True)
    more = "; there may be more, which a higher --limit shows" if answer["count"] == limit else ""
    console.print(Text(counted(answer["count"], "link") + more, "dim"))


def print_communities(console: Console, answer: dict[str, Any]) -> None:
    """Print the communities, largest first."""
    for found in answer["communities"]:
        head = (
            Text(f"{found['notes']:>5}  ")
            .append(found["label"], "bold")
            .append(f"  {found['domain']}  -f community={found['id']}", "dim")
        )
        console.print(head)
        console.print(Text("       " + ", ".join(found["examples"]), "cyan"), soft_wrap=True)
    for slug, count in answer["isolated"].items():
        if count:
            alone = counted(count, "note belongs", "notes belong")
            console.print(Text(f"{slug}: {alone} to no community", "dim"))
    _print_methods(console, answer.get("methods", {}))


def _print_methods(console: Console, methods: dict[str, dict[str, str]]) -> None:
    """Print by which methods the domains were ranked, those that were ranked alike on one line."""
    alike: dict[str, list[str]] = {}
    for slug, by in methods.items():
        line = f"communities by {by['communities'].title()}'s method, centrality by {by['centrality']}"
        alike.setdefault(line, []).append(slug)
    for line, slugs in alike.items():
        console.print(Text(f"{', '.join(slugs)}: {line}" if len(alike) > 1 else line, "dim"), soft_wrap=True)


def print_node(console: Console, node: dict[str, Any]) -> None:
    """Print a note's row and its chunks."""
    console.print(Text(node["title"], "bold"))
    facts = {
        "path": node["path"],
        "domain": node["domain"],
        "tags": ", ".join(node["tags"]),
        "aliases": ", ".join(node["aliases"]),
        "author": node["author"],
        "kind": node["kind"],
        "dates": node.get("dates", {}).get("said"),  # a service that was started before an upgrade has none
        "indexed": node["indexed_at"],
        "links": ", ".join(link["target"] or f"#{link['fragment']}" for link in node["links"]),
        "warnings": "; ".join(node["warnings"]),
    }
    for name, value in facts.items():
        if value:
            console.print(Text(f"  {name:<10}{value}"))
    for chunk in node["chunks"]:
        label = " › ".join(chunk["heading_path"]) or chunk["section"]
        lines = f"lines {chunk['lines'][0]}–{chunk['lines'][1]}"
        where = chunk["place"]["shown"] if chunk.get("place") else lines
        console.print(Text(f"\n{where}  {label if label != where else ''}", "cyan"))
        console.print(Text(chunk["text"]))


_SOON_SECONDS = 60


def _pending(count: int, oldest: float) -> str:
    """Say that notes are being read, or that they wait, where it takes longer than reading does."""
    if oldest > _SOON_SECONDS:
        return counted(count, "note waits", "notes wait")
    return counted(count, "note is being read", "notes are being read")


def print_status(
    console: Console, facts: dict[str, Any], parked: list[dict[str, str]], behind: str | None = None
) -> None:
    """Print why the index may be behind, one row per domain, then the problems."""
    console.print(facts["vault"] if behind else f"{facts['vault']} (running)", soft_wrap=True)
    if behind:
        console.print(behind, soft_wrap=True)
    _print_domains(console, facts["domains"])
    if facts["pending"]:
        console.print(
            f"{_pending(facts['pending'], facts['oldest_pending_s'])}, the oldest for {facts['oldest_pending_s']} s"
        )
    if facts["vectors_pending"]:
        left = [d["seconds_left"] for d in facts["domains"].values() if d["seconds_left"]]
        eta = f", about {max(left)} s left" if left else ""
        passages = counted(facts["vectors_pending"], "passage is", "passages are")
        console.print(f"{passages} not searched by meaning yet{eta}")
    elif facts.get("refining"):
        console.print(REFINING)
    _print_methods(
        console, {slug: one["methods"] for slug, one in facts["domains"].items() if one.get("methods")}
    )
    _print_reembed(console, facts["domains"])
    _print_warned(console, facts)
    if facts["last_reconcile"]:
        console.print(f"compared with the disk {facts['last_reconcile']['age_s']:.0f} s ago")
    for line in not_asked_for(facts.get("other_files", {}), facts.get("to_index_other_files", [])):
        console.print(Text(line), soft_wrap=True)
    if (watcher := facts["watcher"]) and not behind:
        console.print(_watcher_line(watcher))
    for problem in facts["problems"]:
        console.print(Text(problem, "red"), soft_wrap=True)
    for note in parked:
        console.print(
            Text(f"parked: {note['path']} ({note['kind']}): {note['reason']}", "yellow"), soft_wrap=True
        )


def _print_domains(console: Console, domains: dict[str, dict[str, Any]]) -> None:
    """Print a table with a row per domain, and the size of the index."""
    from rich.table import Table  # noqa: PLC0415 - a search prints none, and need not load it

    table = Table(box=None, pad_edge=False)
    columns = ("notes", "chunks", "vectors", "pending", "parked", "ignored")
    table.add_column("domain")
    for name in columns:
        table.add_column("passages" if name == "chunks" else name, justify="right")
    table.add_column("model", overflow="fold")
    for slug, domain in domains.items():
        model = domain["model"] if console.width >= _WIDE else domain["model"].rpartition("/")[2]
        table.add_row(slug, *(f"{domain[name]:,}" for name in columns), model)
    console.print(table)
    for slug, domain in domains.items():
        if found_by := domain.get("vectors_in_postgresql"):
            console.print(Text(f"{slug}: vectors in PostgreSQL: {found_by}"), soft_wrap=True)
    if size := sum(domain.get("bytes", 0) for domain in domains.values()):
        console.print(f"the index has {size / 1e6:,.1f} MB")


def _print_reembed(console: Console, domains: dict[str, dict[str, Any]]) -> None:
    """Print what differs between an index and the settings, and what the switch costs."""
    for slug, domain in domains.items():
        if cost := domain.get("reembed"):
            minutes = (
                f", about {max(1, round(cost['seconds'] / 60))} min" if cost["seconds"] is not None else ""
            )
            texts = f"about {counted(cost['texts'], 'text')} to embed{minutes}"
            line = f"{slug}: {cost['change']}; `everindex reembed` switches ({texts})"
            console.print(Text(line, "yellow"), soft_wrap=True)


def _print_warned(console: Console, facts: dict[str, Any]) -> None:
    """Print which files are ignored, how many notes could be read in part, and which records have one id."""
    for path, rule in facts.get("ignored_files", {}).items():  # an earlier version says nothing of them
        console.print(Text(f"ignored: {path} ({rule})", "dim"), soft_wrap=True)
    if count := sum(domain.get("warned", 0) for domain in facts["domains"].values()):
        notes = counted(count, "note has parts that", "notes have parts that")
        console.print(
            Text(f"{notes} could not be read: `everindex list -f has=warning` names them", "yellow"),
            soft_wrap=True,
        )
    for identity, paths in facts.get("shared_ids", {}).items():
        line = f"{sharing(identity, paths)}; give each an id of its own"
        console.print(Text(line, "yellow"), soft_wrap=True)


def _watcher_line(watcher: dict[str, Any]) -> str:
    """Print the state of the watcher in one line."""
    said = watcher["said_s"]
    facts = [f"watching by {watcher['mode']}"]
    if watcher["last_event_s"] is not None:
        facts.append(f"last event {watcher['last_event_s'] + said:.0f} s ago")
    if watcher["last_probe_s"] is not None:
        facts.append(f"last probe heard {watcher['last_probe_s'] + said:.0f} s ago")
    if watcher["overflows"]:
        facts.append(f"{counted(watcher['overflows'], 'overflow')}, each followed by a comparison")
    return ", ".join(facts)


def print_config(console: Console, rows: dict[str, tuple[str, str]]) -> None:
    """Print one row per setting: name, value, origin."""
    from rich.table import Table  # noqa: PLC0415 - a search prints none, and need not load it

    table = Table(box=None, pad_edge=False)
    for name in ("setting", "value", "from"):
        table.add_column(name)
    for name, (value, origin) in rows.items():
        table.add_row(name, value, origin)
    console.print(table)


# Print walks along links for a terminal.


_STOPS = {
    "good_enough": "enough near notes were found",
    "no_more_links": "no more notes of the domain are linked",
    "budget_spent": "the other linked notes are more than a walk reads",
    "depth": "notes farther away are not followed",
}
_SEARCHED = "found by the search"


def print_deep(console: Console, answer: dict[str, Any], *, every: bool = False) -> None:
    """Print each domain's part, the one with the nearest note first; with both walks, side by side and whole."""
    if answer["record"]:
        console.print(Text(f"record {answer['record']}: {answer['question']}", "dim"))
    found = sorted(filter(_found, answer["domains"]), key=_nearest, reverse=True)
    if not found:
        console.print("Nothing found.")
    for part in found:
        console.print(Text(part["domain"], "bold"))
        if part["fast"] and part["deep"]:
            _print_both(console, part)
        else:
            print_walk(console, part["fast"] or part["deep"], start=_SEARCHED, every=every)
    if pending := answer["index"]["vectors_pending"]:
        passages = counted(pending, "passage is", "passages are")
        console.print(Text(f"{passages} not searched by meaning yet", "yellow"))
    for slug, reason in answer["index"]["failed"].items():
        console.print(Text(f"{slug} cannot be searched: {reason}", "red"))


def print_walk(console: Console, walk: dict[str, Any], *, start: str, every: bool = False) -> None:
    """Print the notes that a walk kept, nearest first, and its cost.

    `start` says of its first notes where they come from. With `every`, notes that are not near enough, though it
    starts at them, follow, and those that it left out, with the reason.
    """
    kept = nearest_first(walk["nodes"])
    shown = kept if every else [node for node in kept if not _is_far(node, walk)]
    for node in shown:
        line = Text(f"  {_number(node)}  ").append(node["title"], "bold").append(f"  {node['path']}", "cyan")
        line.append(f"  {way_to(node, start)}", "dim")
        if reason := why_kept(node):
            line.append(f", {reason}", "yellow")
        console.print(line, soft_wrap=True)
    for node in nearest_first(walk["dropped"]) if every else ():
        line = Text(f"  {_number(node)}  {node['path']}  left out: {why_left_out(node)}")
        console.print(line, style="dim", soft_wrap=True)
    hidden = len(kept) - len(shown) + (0 if every else len(walk["dropped"]))
    if hidden:
        notes = counted(hidden, "more note was", "more notes were")
        console.print(Text(f"  {notes} looked at; `--all` shows {'it' if hidden == 1 else 'them'}", "dim"))
    console.print(Text(_cost(walk), "dim"), soft_wrap=True)


def _is_far(node: Mapping[str, Any], walk: Mapping[str, Any]) -> bool:
    return node["similarity"] is not None and node["similarity"] < walk["prune"]


def _found(part: dict[str, Any]) -> bool:
    """Say whether the walk of a domain found any note."""
    return any(part[mode] and (part[mode]["nodes"] or part[mode]["dropped"]) for mode in ("fast", "deep"))


def _nearest(part: dict[str, Any]) -> float:
    """Return the highest similarity of a domain's notes to the question."""
    nodes = [node for mode in ("fast", "deep") if part[mode] for node in part[mode]["nodes"]]
    return max((node["similarity"] for node in nodes if node["similarity"] is not None), default=-1.0)


def _print_both(console: Console, part: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("", "note", "fast", "deep"):
        table.add_column(name)
    told = {mode: _told(part[mode]) for mode in ("fast", "deep")}
    kept = nearest_first([*part["deep"]["nodes"], *part["fast"]["nodes"]])
    for path in dict.fromkeys(node["path"] for node in kept):
        mark = "+" if path in part["added"] else "-" if path in part["lost"] else " "
        table.add_row(mark, Text(path), *(told[mode].get(path, "not reached") for mode in ("fast", "deep")))
    console.print(table)
    console.print(
        Text(f"deep adds {len(part['added'])} (+) and drops {len(part['lost'])} (-) that fast keeps", "dim")
    )
    for mode in ("fast", "deep"):
        console.print(Text(f"{mode}: {_cost(part[mode])}", "dim"), soft_wrap=True)


def _told(walk: dict[str, Any]) -> dict[str, str]:
    kept = {node["path"]: f"{_number(node)} {_distance(node)}" for node in walk["nodes"]}
    return kept | {
        node["path"]: f"{_number(node)} left out: {why_left_out(node)}" for node in walk["dropped"]
    }


def _distance(node: dict[str, Any]) -> str:
    away = f"{counted(node['hop'], 'link')} away" if node["hop"] else _SEARCHED
    return ", ".join(filter(None, (away, why_kept(node))))


def _number(node: Mapping[str, Any]) -> str:
    # Adding zero turns -0.0 into 0.0.
    return " -- " if node["similarity"] is None else f"{round(node['similarity'], 2) + 0.0:.2f}"


def _cost(walk: dict[str, Any]) -> str:
    unread = f", {counted(walk['unread'], 'linked note')} not read" if walk["unread"] else ""
    said = (
        f"{counted(len(walk['nodes']), 'note')} kept, {len(walk['dropped'])} left out{unread};"
        f" {counted(walk['embeddings_read'], 'passage')} compared in {walk['took_ms']:.0f} ms;"
        f" the walk ended because {_STOPS[walk['stopped']]}"
    )
    return said if walk["calibrated"] else f"{said}; what counts as near was not measured for this model"
