"""Answers as a person reads them in a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text


def print_search(console: Console, answer: dict[str, Any]) -> None:
    """Print hits with their excerpts, and say if the index is behind."""
    for number, hit in enumerate(answer["results"], start=1):
        head = Text(f"{number:>2}. ")
        head.append(hit["title"], "bold")
        if hit["section"] and hit["section"] != hit["title"]:
            head.append(f" › {hit['section']}")
        console.print(head)
        where = f"    {hit['path']}:{hit['lines'][0]}"
        console.print(Text(where + ("  changed since it was indexed" if hit["stale"] else ""), "cyan"))
        excerpt = Text(hit["excerpt"])
        for start, end in hit["marks"]:
            excerpt.stylize("bold yellow", start, end)
        console.print(Text("    ").append_text(excerpt))
        for layer in hit["layers"] or []:
            parts = "".join(f"  {name} {value:.3g}" for name, value in layer["parts"].items())
            place = f"    {layer['layer']:<9}{layer['rank']:>4}.  {layer['score']:.4g}{parts}"
            console.print(Text(place, "dim"))
    index = answer["index"]
    notes = "note" if answer["count"] == 1 else "notes"
    tail = f"{answer['count']} {notes} in {answer['took_ms']:.0f} ms"
    if index["pending"]:
        tail += f"; {index['pending']} saved notes are not indexed yet (oldest {index['oldest_pending_s']} s)"
    elif index["vectors_pending"]:
        tail += f"; {index['vectors_pending']} passages are not searched by meaning yet"
    if index["waits"]:
        tail += f"; {index['waits']}"
    if not index["model_ready"]:
        tail += "; by word only, the model is loading"
    if answer["deep_available"]:
        tail += "; a weak match: `everindex deep` may find more"
    console.print(Text(tail, "dim"))


def print_links(console: Console, answer: dict[str, Any]) -> None:
    """Print links as they are written, and what each means or may have meant."""
    for link in answer["links"]:
        written = link["target"] + (f"#{link['fragment']}" if link["fragment"] else "")
        line = Text(f"{link['path']}:{link['line']}", "cyan").append(f"  {written}", "bold")
        if link["meant"]:
            line.append(f" → {link['meant']}" + ("  (others have that name)" if link["ambiguous"] else ""))
        elif link["suggestions"]:
            line.append(f"  perhaps {', '.join(link['suggestions'])}", "yellow")
        console.print(line, soft_wrap=True)
    console.print(Text(f"{answer['count']} {'link' if answer['count'] == 1 else 'links'}", "dim"))


def print_communities(console: Console, answer: dict[str, Any]) -> None:
    """Print the communities, largest first."""
    for found in answer["communities"]:
        head = (
            Text(f"{found['notes']:>5}  ")
            .append(found["label"], "bold")
            .append(f"  {found['domain']}", "dim")
        )
        console.print(head)
        console.print(Text("       " + ", ".join(found["examples"]), "cyan"), soft_wrap=True)
    for slug, count in answer["isolated"].items():
        if count:
            console.print(Text(f"{count} notes of {slug} stand in no community", "dim"))


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
        "published": node["published_at"],
        "modified": node["modified"],
        "indexed": node["indexed_at"],
        "links": ", ".join(link["target"] or f"#{link['fragment']}" for link in node["links"]),
        "warnings": "; ".join(node["warnings"]),
    }
    for name, value in facts.items():
        if value:
            console.print(Text(f"  {name:<10}{value}"))
    for chunk in node["chunks"]:
        label = " › ".join(chunk["heading_path"]) or chunk["section"]
        console.print(Text(f"\nlines {chunk['lines'][0]}–{chunk['lines'][1]}  {label}", "cyan"))
        console.print(Text(chunk["text"]))


def print_status(console: Console, facts: dict[str, Any], parked: list[dict[str, str]]) -> None:
    """Print a row a domain, then what is wrong."""
    from rich.table import Table  # noqa: PLC0415 - a search prints none, and need not load it

    where = "running" if facts["running"] else "not running"
    console.print(f"{facts['vault']} ({where})", soft_wrap=True, markup=False)
    table = Table(box=None, pad_edge=False)
    columns = ("notes", "chunks", "vectors", "pending", "parked", "ignored")
    table.add_column("domain")
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("model")
    for slug, domain in facts["domains"].items():
        table.add_row(slug, *(f"{domain[name]:,}" for name in columns), domain["model"])
    console.print(table)
    if facts["pending"]:
        console.print(f"{facts['pending']} notes wait, the oldest for {facts['oldest_pending_s']} s")
    if facts["vectors_pending"]:
        left = [d["seconds_left"] for d in facts["domains"].values() if d["seconds_left"]]
        eta = f", about {max(left)} s left" if left else ""
        console.print(f"{facts['vectors_pending']:,} passages are not searched by meaning yet{eta}")
    if facts["last_reconcile"]:
        console.print(f"compared with the disk {facts['last_reconcile']['age_s']:.0f} s ago")
    if watcher := facts["watcher"]:
        console.print(_watcher_line(watcher))
    for problem in facts["problems"]:
        console.print(Text(problem, "red"))
    for note in parked:
        console.print(Text(f"parked: {note['path']} ({note['kind']}): {note['reason']}", "yellow"))


def _watcher_line(watcher: dict[str, Any]) -> str:
    """Say how the watcher hears, in one line."""
    said = watcher["said_s"]
    facts = [f"watching by {watcher['mode']}"]
    if watcher["last_event_s"] is not None:
        facts.append(f"last event {watcher['last_event_s'] + said:.0f} s ago")
    if watcher["last_probe_s"] is not None:
        facts.append(f"last probe heard {watcher['last_probe_s'] + said:.0f} s ago")
    if watcher["overflows"]:
        facts.append(f"{watcher['overflows']} overflows, each followed by a comparison")
    return ", ".join(facts)


def print_config(console: Console, rows: dict[str, tuple[str, str]]) -> None:
    """Print a row a setting: name, value, origin."""
    from rich.table import Table  # noqa: PLC0415 - a search prints none, and need not load it

    table = Table(box=None, pad_edge=False)
    for name in ("setting", "value", "from"):
        table.add_column(name)
    for name, (value, origin) in rows.items():
        table.add_row(name, value, origin)
    console.print(table)
