"""Edges follow the links and the files, whatever comes, goes and moves; and nothing else is resolved again."""

from __future__ import annotations

import pytest

from pipelines.cache import links as module
from pipelines.cache.graph import may_be_broken
from pipelines.notes.links import resolve

ON_BOTH_STORES = True


def edges(house) -> set[tuple[str, str, str]]:
    return set(house.cache.con.execute("SELECT path, target, kind FROM vault_edge").fetchall())


def test_a_link_gets_its_edge_when_its_note_is_created_and_loses_it_when_that_goes(house):
    house.save("a.md", "See [[b]].")
    assert edges(house) == set()
    house.save("folder/b.md", "Here.")
    assert edges(house) == {("a.md", "folder/b.md", "wikilink")}
    house.save("b.md", "Nearer to the root.")
    assert edges(house) == {("a.md", "b.md", "wikilink")}
    (house.root / "b.md").unlink()
    house.notice("b.md")
    assert edges(house) == {("a.md", "folder/b.md", "wikilink")}


def test_a_renamed_note_takes_its_edges_along(house):
    house.save("a.md", "See [[b]].")
    house.save("b.md", "See [[a]].")
    (house.root / "a.md").rename(house.root / "c.md")
    house.notice("a.md", "c.md")
    house.drain()
    assert edges(house) == {("c.md", "b.md", "wikilink")}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[[b]]", "wikilink"),
        ("[words](b.md)", "wikilink"),
        ("![[b]]", "embed"),
        ("---\nup: '[[b]]'\n---\n", "citation"),
        ("---\nSources: ['[[b]]']\n---\n", "citation"),
        ("---\nrelated: '[[b]]'\n---\n", "wikilink"),
        ("## References\n\n- [[b]]", "citation"),
        ("## Bibliography:\n\n### Books\n\n[x](b.md)", "citation"),
        ("## References\n\nNone.\n\n## Notes\n\n[[b]]", "wikilink"),
        ("### Sources\n\nNone.\n\n## Notes\n\n[[b]]", "wikilink"),
        ("As he says[^1].\n\n[^1]: In [[b]].", "citation"),
        ("As he says[^1].\n\n[^1]: In a book.\n\n[[b]]", "wikilink"),
        ("## Sources\n\n![[b]]", "embed"),
    ],
)
def test_a_links_place_decides_its_kind(house, text, kind):
    house.save("b.md", "Here.")
    house.save("a.md", text)
    assert edges(house) == {("a.md", "b.md", kind)}


def test_an_attachment_and_another_domains_note_are_edges_outside_the_graph(house):
    (house.root / "_domains.yaml").write_text("vault:\n  path: in\nother:\n  path: out\n")
    house.write("out/b.md", "Elsewhere.")
    house.write("in/pic.png", b"png")
    house.write("in/a.md", "![[pic.png]] and [[b]] and [[c]].")
    house.write("in/c.md", "Here.")
    house.index()
    assert edges(house) == {
        ("in/a.md", "in/pic.png", "embed"),
        ("in/a.md", "out/b.md", "wikilink"),
        ("in/a.md", "in/c.md", "wikilink"),
    }
    graph = house.cache.graph.read()
    assert [(e.source, e.target) for e in graph.edges] == [("in/a.md", "in/c.md")]


def test_an_attachment_that_comes_and_goes_is_noticed(house):
    house.save("a.md", "![[pic.png]]")
    house.write("media/pic.png", b"png")
    house.notice("media/pic.png")
    assert edges(house) == {("a.md", "media/pic.png", "embed")}
    (house.root / "media" / "pic.png").rename(house.root / "media" / "other.png")
    house.notice("media")
    assert edges(house) == set()


def test_a_new_note_resolves_only_the_links_of_its_name(house, monkeypatch):
    for n in range(50):
        house.write(f"{n}.md", f"[[{n + 1}]] [[nowhere {n}]] [[wanted]]" if n < 3 else f"[[{n + 1}]]")
    house.index()
    asked = []

    def count(target, source, named):
        asked.append((source, target))
        return resolve(target, source, named)

    monkeypatch.setattr(module, "resolve", count)
    house.save("deep/wanted.md", "[[1]]")
    assert sorted(asked) == [
        ("0.md", "wanted"),
        ("1.md", "wanted"),
        ("2.md", "wanted"),
        ("deep/wanted.md", "1"),
    ]


def test_an_edit_that_leaves_the_links_alone_leaves_the_ranks_alone(house):
    house.save("b.md", "Here.")
    house.save("a.md", "[[b]]")
    before = house.cache.graph.read().generation
    house.save("a.md", "A word more. [[b]]")
    assert house.cache.graph.read().generation == before
    house.save("a.md", "[[b]] and [[b]]")
    assert house.cache.graph.read().generation > before


def test_what_is_broken_is_listed_with_its_line(house):
    house.save("a.md", "One.\n\n[[nowhere]] and [[b#Part|text]].\n\n[[b]]")
    (first, second, third) = house.cache.graph.links_in_state("broken", 10)
    assert (first.path, first.line, first.target) == ("a.md", 3, "nowhere")
    assert (second.target, second.fragment, second.text) == ("b", "Part", "text")
    house.save("b.md", "[[a]]")
    assert [link.target for link in house.cache.graph.links_of("a.md") if link.meant is None] == ["nowhere"]
    (back,) = house.cache.graph.backlinks("b.md")
    assert (back.path, back.count, back.fragment, back.line, third.line) == ("a.md", 2, "Part", 3, 5)


def test_a_note_that_nothing_links_to_and_that_links_to_nothing_is_an_orphan(house):
    house.save("alone.md", "[[nowhere]] [[alone]]")
    house.save("a.md", "[[b]]")
    house.save("b.md", "")
    assert house.cache.graph.orphans() == ["alone.md"]


def test_each_link_of_a_note_has_its_file_by_the_target_as_written(house):
    house.save("folder/b.md", "Here.")
    house.save("a.md", "---\nup: '[[B]]'\n---\n[[b|x]], [c](folder/b.md#d), ![[nowhere]], [[#here]]")
    assert {link.target: link.meant for link in house.cache.graph.links_of("a.md")} == {
        "B": "folder/b.md",
        "b": "folder/b.md",
        "folder/b.md": "folder/b.md",
        "nowhere": None,
        "": "a.md",
    }


PROGRAM = {
    "_domains.yaml": "vault:\n  legacy: true\n  formats: [md, code]\n",
    "app/main.py": "import numpy\nimport shop.prices\nfrom .cellar import rack\n\nOPEN = True\n",
    "ui/app.ts": 'import { x } from "./view";\nimport React from "react";\nexport const y = 1 + 1 + 1;\n',
    "core/main.rs": "mod mill;\n\nfn main() { mill::turn(); println!(); }\n",
    "note.md": "[[shop]] [[view.ts]] [[nowhere]]",
}


@pytest.fixture
def program(house):
    for path, text in PROGRAM.items():
        house.write(path, text)
    house.index()
    return house


def test_imports_follow_their_modules_when_these_come_move_and_go(program):
    assert edges(program) == set()
    steps = [
        (None, "lib/shop/prices/__init__.py", {("app/main.py", "lib/shop/prices/__init__.py")}),
        ("lib/shop/prices/__init__.py", "lib/shop/prices.py", {("app/main.py", "lib/shop/prices.py")}),
        ("lib/shop/prices.py", "lib/shop/costs.py", set()),
        (None, "app/cellar/__init__.py", {("app/main.py", "app/cellar/__init__.py")}),
        ("app/cellar/__init__.py", "app/cellar/rows.py", set()),
        (None, "ui/view/index.ts", {("ui/app.ts", "ui/view/index.ts")}),
        ("ui/view/index.ts", "ui/view.tsx", {("ui/app.ts", "ui/view.tsx")}),
        (None, "ui/view.ts", {("ui/app.ts", "ui/view.ts"), ("note.md", "ui/view.ts")}),
        ("ui/view.ts", "ui/other.ts", {("ui/app.ts", "ui/view.tsx")}),
        ("ui/view.tsx", None, set()),
        (None, "core/mill/mod.rs", {("core/main.rs", "core/mill/mod.rs")}),
        ("core/mill/mod.rs", "core/mill.rs", {("core/main.rs", "core/mill.rs")}),
        ("core/mill.rs", None, set()),
    ]
    for old, new, expected in steps:
        if new and old:
            (program.root / new).parent.mkdir(parents=True, exist_ok=True)
            (program.root / old).rename(program.root / new)
        elif old:
            (program.root / old).unlink()
        else:
            program.write(new, f"// {new}\n" if not new.endswith(".py") else f"# {new}\n")
        program.notice(*filter(None, (old, new)))
        program.drain()
        assert {(path, target) for path, target, _ in edges(program)} == expected, (old, new)
        assert program.cache.edges.drift() == []
    assert program.picture()["edges"] == program.scratch_picture()["edges"]


def test_a_folder_of_modules_that_moves_takes_its_imports_along_as_an_index_from_scratch(program):
    program.write("lib/shop/prices/__init__.py", "# prices\n")
    program.write("app/cellar/__init__.py", "# cellar\n")
    program.index()
    (program.root / "lib").rename(program.root / "vendored")
    (program.root / "app").rename(program.root / "programs")
    program.index()
    assert {(path, target) for path, target, _ in edges(program)} == {
        ("programs/main.py", "vendored/shop/prices/__init__.py"),
        ("programs/main.py", "programs/cellar/__init__.py"),
    }
    assert program.picture() == program.scratch_picture()


def test_what_a_source_file_imports_from_elsewhere_is_no_broken_link(program):
    broken = program.cache.graph.links_in_state("broken", 100)
    assert {(link.path, link.target) for link in broken} == {
        ("note.md", "shop"),
        ("note.md", "view.ts"),
        ("note.md", "nowhere"),
    }
    imports = [link.target for link in program.cache.graph.links_of("app/main.py")]
    assert imports == ["numpy.py", "shop/prices.py", "./cellar.py"]
    assert may_be_broken("note.md")
    assert not may_be_broken("app/MAIN.PY")


def test_a_link_by_the_name_of_a_file_that_stands_for_a_folder_means_it(program):
    program.write("note.md", "[[prices/__init__.py]] [[ROWS/Mod.rs]] [[index.ts]]")
    for path in ("lib/prices/__init__.py", "lib/rows/mod.rs", "ui/index.ts", "other/__init__.py"):
        program.write(path, "")
    program.index()
    assert {target for path, target, _ in edges(program) if path == "note.md"} == {
        *("lib/prices/__init__.py", "lib/rows/mod.rs", "ui/index.ts")
    }
    assert program.cache.edges.drift() == []
