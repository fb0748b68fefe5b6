"""An import means a module, which may be one of several files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.notes.links import link_names_of, resolve, target_name
from tests.pipelines.notes.test_links import meant


@pytest.mark.parametrize(
    ("target", "source", "paths", "expected"),
    [
        # a module of Python, by `import`
        ("a/b.py", "main.py", ["a/b/__init__.py"], "a/b/__init__.py"),
        ("a/b.py", "main.py", ["src/a/b/__init__.py", "b/__init__.py"], "src/a/b/__init__.py"),
        ("a/b.py", "main.py", ["a/b.py", "a/b/__init__.py"], "a/b.py"),
        ("a/b.py", "main.py", ["a/b.pyi"], "a/b.pyi"),
        ("b.py", "main.py", ["ab/__init__.py", "c/__init__.py"], None),
        # a module in the same package
        ("./b.py", "a/main.py", ["a/b/__init__.py", "b/__init__.py"], "a/b/__init__.py"),
        ("../b.py", "a/main.py", ["a/b/__init__.py"], None),
        # TypeScript writes `./x.js` for `x.ts`
        ("./x.ts", "ui/app.ts", ["ui/x.tsx"], "ui/x.tsx"),
        ("./x.ts", "ui/app.ts", ["ui/x/index.ts"], "ui/x/index.ts"),
        ("./x.ts", "ui/app.ts", ["ui/x/index.tsx", "ui/x.js"], "ui/x.js"),
        ("./x.js", "ui/app.ts", ["ui/x.ts"], "ui/x.ts"),
        ("./index.js", "ui/app.ts", ["ui/index.ts"], "ui/index.ts"),
        ("./x.jsx", "ui/app.jsx", ["x/index.jsx"], None),
        # a module of Rust, by `mod` and by `use`
        ("./x.rs", "src/main.rs", ["src/x/mod.rs"], "src/x/mod.rs"),
        ("x.rs", "src/main.rs", ["src/x/mod.rs"], "src/x/mod.rs"),
        # a file that stands for its folder, by its own name
        ("a/__init__.py", "main.py", ["src/A/__init__.py", "b/__init__.py"], "src/A/__init__.py"),
        ("cafe\u0301/mod.rs", "note.md", ["src/caf\u00e9/mod.rs"], "src/caf\u00e9/mod.rs"),
        ("__init__.py", "note.md", ["b/__init__.py"], "b/__init__.py"),
        ("__init__.py", "note.md", ["__init__.py", "b/__init__.py"], "__init__.py"),
        # In a note, and in another language, a path means only itself.
        ("x.ts", "note.md", ["x.tsx", "x/index.ts"], None),
        ("x.ts", "main.py", ["x.tsx"], None),
        ("x.h", "main.c", ["x/index.ts", "x/mod.rs"], None),
        ("./.py", "main.py", ["__init__.py"], None),
    ],
)
def test_an_import_means_the_file_of_its_path_or_else_of_its_module(target, source, paths, expected):
    assert meant(target, source, *paths) == expected
    assert meant(target, source, *reversed(paths)) == expected


def test_of_all_files_that_stand_for_a_folder_only_those_of_that_folder_are_looked_at():
    asked = []
    resolve("shop/prices.py", "main.py", lambda key: asked.append(key) or ())
    assert asked[-2:] == ["prices/__init__.py", "prices/__init__.pyi"]
    assert not {"__init__.py", "__init__.pyi"} & {*asked}


parts = st.sampled_from(
    ["a", "B", "index.ts", "index.TSX", "mod.rs", "__init__.py", "a.py", "B.pyi", "a.js", "x.ts", ".."]
)
paths = st.lists(parts, min_size=1, max_size=3).map("/".join)
targets = st.builds("".join, st.tuples(st.sampled_from(["", "./", "../"]), paths))


@given(targets, paths, st.lists(paths, max_size=6, unique=True), paths)
def test_what_an_import_means_depends_on_the_files_of_its_names_only(target, source, present, other):
    found = meant(target, source, *present)
    assert found is None or target_name(target) in link_names_of(found)
    if target_name(target) not in link_names_of(other):
        assert meant(target, source, *present, other) == found
