import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipelines.domains import load
from pipelines.formats import OF_A_NEW_VAULT
from pipelines.indexing.reconcile import rules_of
from pipelines.vault.ignore import IgnoreRules
from pipelines.vault.scan import scan_vault


def write(root, raw, text=""):
    path = root / raw
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def obsidian(root, value):
    write(root, ".obsidian/app.json", json.dumps({"userIgnoreFilters": value, "spellcheck": True}))


def rules(root, generated=(), owned=("",)):
    return IgnoreRules(root, generated, owned, lambda _path: OF_A_NEW_VAULT)


def why(root, path, **kwargs):
    """Return the rule for one path, and hold a scan of the whole vault to it."""
    write(root, path)
    found = scan_vault(root, rules(root, **kwargs))
    rule = rules(root, **kwargs).for_file(path)
    assert (path in found.notes) == (rule is None)
    assert found.ignored.get(path) == listed(rule)
    return rule


def listed(rule):
    """Return a rule as a scan lists it: not for a file that Everindex generates."""
    return None if rule == IgnoreRules.GENERATED else rule


# .gitignore and .everindexignore


@pytest.mark.parametrize("name", [".gitignore", ".everindexignore"])
def test_a_rule_file_at_the_root_rules_the_whole_vault(vault, name):
    write(vault, name, "# comment\n\ndrafts/\n*.tmp.md\n/only-here.md\n")
    assert why(vault, "drafts/a.md") == name
    assert why(vault, "x/drafts/deep/a.md") == name
    assert why(vault, "x/a.tmp.md") == name
    assert why(vault, "only-here.md") == name
    assert why(vault, "x/only-here.md") is None
    assert why(vault, "x/a.md") is None


def test_a_nested_rule_file_rules_its_folder_only_and_is_named(vault):
    write(vault, "work/.gitignore", "/secret.md\nlogs/\n")
    assert why(vault, "work/secret.md") == "work/.gitignore"
    assert why(vault, "work/x/secret.md") is None
    assert why(vault, "work/x/logs/a.md") == "work/.gitignore"
    assert why(vault, "secret.md") is None
    assert why(vault, "workshop/secret.md") is None


def test_rules_that_were_read_for_one_folder_do_not_reach_a_folder_with_a_similar_name(vault):
    write(vault, "work/.gitignore", "logs/\n")
    found = rules(vault)
    assert found.for_file("work/logs/a.md") == "work/.gitignore"
    assert found.for_file("workshop/logs/a.md") is None


def test_a_rule_file_in_a_folder_in_decomposed_form_rules_it(vault):
    write(vault, "e\u0301te\u0301/.gitignore", "a.md\n")
    write(vault, "e\u0301te\u0301/a.md")
    assert set(scan_vault(vault, rules(vault)).ignored) == {"\u00e9t\u00e9/a.md"}
    assert rules(vault).for_file("e\u0301te\u0301/a.md") is not None


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("drafts/x/a.md", (".everindexignore", 3, "drafts/")),
        ("x/old.md", (".everindexignore", 4, "old*")),
        ("e\u0301te\u0301/a.md", ("e\u0301te\u0301/.gitignore", 2, "a.md")),
        ("b.md", (".everindexignore", 5, "/b.md")),
        ("odd \udcff.md", (".everindexignore", 6, "odd \ufffd*")),
        (f"{'x' * 220}.md", (".everindexignore", 7, "x" * 200 + "…")),
        ("old kept.md", None),
        ("any.md", None),
    ],
)
def test_the_line_that_decides_is_named(vault, path, rule):
    text = f"# ours\n\ndrafts/\nold*\r\n/b.md \nodd \udcff*\n{'x' * 210}*\n!old kept*\n"
    (vault / ".everindexignore").write_bytes(text.encode("utf-8", "surrogateescape"))
    write(vault, "e\u0301te\u0301/.gitignore", "# theirs\na.md\n")
    found = rules(vault).rule_of(path)
    assert (found and (found[0], found[1].line, found[1].pattern)) == rule
    assert (rules(vault).for_file(path) is None) == (rule is None)


def test_a_later_pattern_overrides_an_earlier_one(vault):
    write(vault, ".gitignore", "*.md\n!keep.md\n")
    assert why(vault, "x/drop.md") == ".gitignore"
    assert why(vault, "x/keep.md") is None


def test_a_deeper_file_overrides_a_shallower_one(vault):
    write(vault, ".gitignore", "*.md\n")
    write(vault, "a/.gitignore", "!*.md\n")
    write(vault, "a/b/.gitignore", "*.md\n")
    assert why(vault, "x.md") == ".gitignore"
    assert why(vault, "a/x.md") is None
    assert why(vault, "a/b/x.md") == "a/b/.gitignore"


def test_nothing_is_brought_back_from_an_ignored_folder(vault):
    write(vault, ".gitignore", "private/\n!private/a.md\n")
    write(vault, "private/.gitignore", "!a.md\n")
    assert why(vault, "private/a.md") == ".gitignore"


def test_everything_but_one_folder_can_be_ignored(vault):
    write(vault, ".gitignore", "/*\n!/foo\n/foo/*\n!/foo/bar\n")
    assert why(vault, "foo/bar/keep.md") is None
    assert why(vault, "foo/drop.md") == ".gitignore"
    assert why(vault, "drop/a.md") == ".gitignore"


@pytest.mark.parametrize(
    "text", ["*\n!*/\n!keep.md\n", "*\n!a\n!a/b\n!a/b/keep.md\n", "a/b/**\n!a/b/keep.md\n"]
)
def test_an_allow_list_brings_folders_back(vault, text):
    write(vault, ".gitignore", text)
    assert why(vault, "a/b/drop.md") == ".gitignore"
    assert why(vault, "a/b/keep.md") is None


def test_a_folder_that_is_brought_back_does_not_bring_back_its_files(vault):
    write(vault, ".gitignore", "*.md\n!keep/\n")
    assert why(vault, "keep/a.md") == ".gitignore"


def test_both_files_of_a_folder_count(vault):
    write(vault, ".gitignore", "a.md\n")
    write(vault, ".everindexignore", "b.md\n")
    assert [why(vault, f"{name}.md") for name in "abc"] == [".gitignore", ".everindexignore", None]


def test_our_own_file_overrides_that_of_git(vault):
    write(vault, ".gitignore", "journal/\n")
    write(vault, ".everindexignore", "!journal/\n")
    assert why(vault, "journal/a.md") is None


def test_a_rule_file_may_have_windows_line_ends_and_bytes_that_are_no_utf8(vault):
    (vault / ".gitignore").write_bytes(b"\xff\xfe\r\na.md\r\n")
    assert why(vault, "a.md") == ".gitignore"


def test_a_folder_named_like_a_rule_file_rules_nothing(vault):
    (vault / ".gitignore").mkdir()
    assert why(vault, "a.md") is None


@pytest.mark.parametrize("pattern", ["!", "notes\\", "[z-a]"])
def test_a_pattern_that_git_ignores_is_ignored_and_the_others_hold(vault, pattern):
    write(vault, ".gitignore", f"a.md\n{pattern}\nb.md\n")
    assert [why(vault, f"{name}.md") for name in "abc"] == [".gitignore", ".gitignore", None]


def test_a_fifo_named_like_a_rule_file_rules_nothing(vault):
    os.mkfifo(vault / ".gitignore")
    write(vault, "a.md")
    assert set(scan_vault(vault, rules(vault)).notes) == {"a.md"}


LINES = st.one_of(
    st.sampled_from(
        [
            "*",
            "*/",
            "!*/",
            "**",
            "/**",
            "/*",
            "!/*/",
            "a/**",
            "!a/**",
            "a/**/b",
            "**/b/",
            "\\!a",
            "#a",
            "a ",
            "a\\ ",
        ]
    ),
    st.builds(
        "".join,
        st.tuples(
            st.sampled_from(["", "!"]),
            st.sampled_from(["", "/", "**/"]),
            st.lists(
                st.sampled_from(["a", "b", "*", "**", "[ab]", "[!a]", "?", "n.md", "*.md", "n*"]),
                min_size=1,
                max_size=3,
            ).map("/".join),
            st.sampled_from(["", "/", "/**", "/*"]),
        ),
    ),
)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
@given(
    st.dictionaries(
        st.sampled_from(["", "a/", "b/", "a/b/"]), st.lists(LINES, max_size=5).map("\n".join), max_size=3
    )
)
@settings(max_examples=100)
def test_rule_files_are_read_as_git_reads_them(texts):
    paths = [
        f"{folder}{name}"
        for folder in ("", "a/", "b/", "a/a/", "a/b/", "b/b/", "a/b/a/")
        for name in ("n.md", "m.md", "a b.md")
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "vault")
        for path in paths:
            write(root, path)
        for place, text in texts.items():
            write(root, f"{place}.gitignore", text)
        # No settings of this machine's user, or of a repository around it.
        git = ["git", "-C", str(root), f"--git-dir={folder}/git", f"--work-tree={root}"]
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run([*git, "init", "-q"], env=environment, check=True)

        def said(*words, of=""):
            done = subprocess.run(
                [*git, *words], env=environment, input=of, capture_output=True, text=True, check=False
            )
            assert done.stderr == ""
            return done.stdout.split("\0")[:-1]

        listed = said("ls-files", "-z", "--others", "--exclude-standard")
        assert set(scan_vault(root, rules(root)).notes) == {path for path in listed if path.endswith(".md")}
        told = said("check-ignore", "-v", "-z", "--stdin", of="\0".join(paths))
        lines = {path: (file, int(line)) for file, line, _, path in zip(*[iter(told)] * 4, strict=True)}
        ignored = {path: found for path in paths if (found := rules(root).rule_of(path))}
        assert {path: (file, rule.line) for path, (file, rule) in ignored.items()} == {
            path: lines[path] for path in lines if path not in listed
        }


# Ours


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (".trash/a.md", "dot-folder"),
        ("x/.stversions/y/a.md", "dot-folder"),
        ("@eaDir/a.md", "default rule @eaDir"),
        ("x/._a.md", "default rule ._*"),
        ("~$a.md", "default rule ~$*"),
        ("a.sync-conflict-20260101-120000-ABCDEF.md", "default rule *.sync-conflict-*"),
    ],
)
def test_what_programs_leave_in_a_vault_is_no_note(vault, path, rule):
    assert why(vault, path) == rule


@pytest.mark.parametrize(
    "path", [".hidden.md", "x/a.tmp.md", "@eaDir.md", "$~a.md", "a~.md", "sync-conflict.md"]
)
def test_similar_names_are_notes(vault, path):
    assert why(vault, path) is None


def test_no_rule_file_brings_back_what_we_ignore(vault):
    write(vault, ".gitignore", "!.trash/\n!*.md\n")
    assert why(vault, ".trash/a.md") == "dot-folder"
    assert why(vault, "._a.md") == "default rule ._*"


def test_a_generated_review_queue_is_no_note_and_another_file_of_its_name_is(vault):
    generated = ("_review-queue.md", "fitness/_review-queue.md")
    assert why(vault, "_review-queue.md", generated=generated) == "generated by Everindex"
    assert why(vault, "fitness/_review-queue.md", generated=generated) == "generated by Everindex"
    assert why(vault, "learning/_review-queue.md", generated=generated) is None


def test_a_path_in_no_domain_says_so(vault):
    owned = ("fitness/", "learning/")
    assert why(vault, "a.md", owned=owned) == "in no domain of _domains.yaml"
    assert why(vault, "fitness-old/a.md", owned=owned) == "in no domain of _domains.yaml"
    assert why(vault, "fitness/a.md", owned=owned) is None


def test_a_folder_in_decomposed_form_belongs_to_its_domain(vault):
    write(vault, "e\u0301te\u0301/a.md")
    assert set(scan_vault(vault, rules(vault, owned=("\u00e9t\u00e9/",))).notes) == {"\u00e9t\u00e9/a.md"}


def test_a_generated_file_in_a_folder_in_decomposed_form_is_no_note(vault):
    write(vault, "e\u0301te\u0301/_review-queue.md")
    found = scan_vault(vault, rules(vault, generated=("\u00e9t\u00e9/_review-queue.md",)))
    assert (found.notes, found.ignored) == ({}, {}), (
        "and it is none of the ignored files, which could be notes"
    )


# Obsidian's


def test_an_obsidian_filter_is_a_prefix_whatever_its_case(vault):
    obsidian(vault, ["Archive/", "a+b"])
    assert why(vault, "archive/x/a.md") == "Obsidian excluded files: Archive/"
    assert why(vault, "a+b.md") == "Obsidian excluded files: a+b"
    assert why(vault, "aab.md") is None
    assert why(vault, "x/Archive/a.md") is None
    assert why(vault, "Archive.md") is None


def test_an_obsidian_filter_between_slashes_is_a_regular_expression(vault):
    obsidian(vault, [r"/\.excalidraw\.md$/", "/^daily/20\\d\\d/"])
    assert why(vault, "x/drawing.excalidraw.md") == r"Obsidian excluded files: /\.excalidraw\.md$/"
    assert why(vault, "daily/2024/a.md") == "Obsidian excluded files: /^daily/20\\d\\d/"
    assert why(vault, "daily/24/a.md") is None


@pytest.mark.parametrize("value", [["/[/", "", "/", 5, None, ["x"]], [], None, {}])
def test_an_obsidian_filter_that_cannot_be_used_is_ignored(vault, value):
    obsidian(vault, value)
    assert why(vault, "a.md") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", "\ufeff{}"])
def test_settings_that_are_not_obsidians_rule_nothing(vault, text):
    write(vault, ".obsidian/app.json", text)
    assert why(vault, "a.md") is None


@pytest.mark.parametrize("value", [5, True, "archive/"])
def test_obsidian_filters_that_are_no_list_rule_nothing(vault, value):
    obsidian(vault, value)
    assert why(vault, "a.md") is None


# Rules of a stranger


def many_lines(pattern):
    return "\n".join(f"{pattern}{n}" for n in range(100_000))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["a*a*a*a*a*a*a*a*a*a*a*a*b", "*?*?*?*?*?*?*?*?x", "[a-z]*" * 12 + "X"])
def test_a_pattern_that_is_built_to_exhaust_costs_a_moment(vault, pattern):
    write(vault, ".gitignore", pattern)
    write(vault, "clipped/.gitignore", pattern)
    assert why(vault, f"clipped/{'a' * 200}.md") is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", ["note-", "*note-", "/n*te-"])
def test_a_hundred_thousand_lines_cost_a_moment(vault, line):
    write(vault, ".gitignore", many_lines(line)[:1_000_000])
    for n in range(50):
        write(vault, f"{n}.md")
    found = rules(vault)
    scanned = scan_vault(vault, found)
    assert len(scanned.notes) == 50
    assert bool(found.complaints) == ("*" in line)


def test_rules_beyond_the_limit_are_complained_of_with_the_line(vault):
    write(vault, "x/.gitignore", "drop*\n" + many_lines("*note-")[:900_000])
    write(vault, "x/drop.md")
    found = rules(vault)
    assert set(scan_vault(vault, found).ignored) == {"x/drop.md"}
    (complaint,) = found.complaints
    assert complaint.startswith("the rules of 'x/.gitignore' are not applied from line ")
    assert "shorten" in complaint


def test_rule_files_along_a_path_have_a_limit_together(vault):
    folder = ""
    for depth in range(6):
        folder = f"{folder}d/"
        write(vault, f"{folder}.gitignore", "*" + "x" * 15_000 + f"{depth}\nn{depth}*.md\n")
        write(vault, f"{folder}n{depth}.md")
    found = rules(vault)
    scanned = scan_vault(vault, found)
    assert set(scanned.ignored) == {"d/n0.md", "d/d/n1.md"}
    assert len(found.complaints) == 4
    one_by_one = rules(vault)
    assert {path: one_by_one.for_file(path) for path in scanned.notes} == dict.fromkeys(scanned.notes)


def a_link(path, tmp_path):
    (tmp_path / "outside").write_text("*.md\n")
    path.symlink_to(tmp_path / "outside")


def a_huge_file(path, _):
    with path.open("wb") as file:
        file.truncate(5_000_000_000_000)


UNREADABLE = {
    "a FIFO": lambda path, _: os.mkfifo(path),
    "a link to a device": lambda path, _: path.symlink_to("/dev/zero"),
    "a link to a file outside": a_link,
    "a huge file": a_huge_file,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("name", [".gitignore", "x/.everindexignore", ".obsidian/app.json"])
def test_a_rule_file_that_is_no_regular_file_is_ignored_with_a_complaint(tmp_path, vault, kind, name):
    write(vault, "x/a.md")
    (vault / name).parent.mkdir(exist_ok=True)
    UNREADABLE[kind](vault / name, tmp_path)
    found = rules(vault)
    assert set(scan_vault(vault, found).notes) == {"x/a.md"}
    (complaint,) = found.complaints
    assert "are not applied" in complaint
    assert name in complaint


def test_settings_of_obsidian_that_are_nested_without_end_are_ignored_with_a_complaint(vault):
    write(vault, ".obsidian/app.json", "[" * 200_000)
    write(vault, "a.md")
    found = rules(vault)
    assert set(scan_vault(vault, found).notes) == {"a.md"}
    assert any("nested" in complaint for complaint in found.complaints)


@pytest.mark.timeout(60)
def test_a_filter_that_is_built_to_exhaust_costs_a_moment(vault):
    obsidian(vault, ["/(a+)+$/", "/(a|a)*b/", "/(a*)*$b/"])
    assert why(vault, "a" * 200 + "!.md") is None


def test_filters_that_are_too_large_together_are_applied_as_far_as_they_fit(vault):
    obsidian(vault, [f"/{name}{{999}}|{name}rop/" for name in "abcdefghij"])
    assert why(vault, "drop.md") == "Obsidian excluded files: /d{999}|drop/"
    assert why(vault, "jrop.md") is None
    assert all("too large" in complaint for complaint in rules(vault).complaints)
    assert 0 < len(rules(vault).complaints) < 5


def test_a_filter_matches_names_that_are_not_unicode(vault):
    obsidian(vault, [r"/^a.\.md$/"])
    write(vault, "a\udcff.md")
    assert scan_vault(vault, rules(vault)).ignored == {r"a\xff.md": r"Obsidian excluded files: /^a.\.md$/"}


@pytest.mark.parametrize("text", ["/(a)\\1/", "/a(?=b)/", "/(?<!a)b/", "/[/", "/" + "a{999}" * 9 + "/"])
def test_a_filter_that_cannot_be_used_is_complained_of_and_the_others_hold(vault, text):
    obsidian(vault, [text, "/drop/", "archive/"])
    write(vault, "a.md")
    write(vault, "drop.md")
    write(vault, "archive/a.md")
    found = rules(vault)
    assert set(scan_vault(vault, found).notes) == {"a.md"}
    (complaint,) = found.complaints
    assert repr(text[:200]) in complaint
    assert ".everindexignore" in complaint


# Outside the vault, and behind links

OUTSIDE, LINK = "outside the vault", "symlink (not followed)"


@pytest.fixture
def linked(tmp_path):
    """A vault with links to what lies beside it; each folder out there has rules of its own."""
    root = tmp_path / "vault"
    write(root, "a/n.md")
    write(tmp_path, "beside/in/n.md")
    for folder in (".", "beside", "beside/in"):
        write(tmp_path, f"{folder}/.gitignore", "*\n")
    (root / "link").symlink_to(tmp_path / "beside")
    (root / "a/up").symlink_to("..")
    (root / "a/link.md").symlink_to(tmp_path / "beside/in/n.md")
    return root


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("../beside/in/n.md", OUTSIDE),
        ("a/../../beside/n.md", OUTSIDE),
        ("a/../a/n.md", OUTSIDE),
        ("a/..", OUTSIDE),
        ("/etc/n.md", OUTSIDE),
        ("//n.md", OUTSIDE),
        ("/", OUTSIDE),
        ("link/in/n.md", LINK),
        ("link/none.md", LINK),
        ("a/up/a/n.md", LINK),
        ("a/link.md", LINK),
    ],
)
def test_what_is_outside_the_vault_or_behind_a_link_is_ignored(linked, path, rule):
    assert rules(linked).for_file(path) == rule


@given(st.lists(st.sampled_from(["a", "link", "in", "up", "..", ".", "", "n.md"]), max_size=6), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_a_path_that_leads_straight_into_the_vault_is_a_note(linked, parts, absolute):
    path = "/".join([str(linked) if absolute else "", *parts] if absolute else parts)
    found = rules(linked)
    rule = found.for_file(path)
    if rule is None:
        assert (linked / path).resolve() == linked / path
        assert not absolute
        assert ".." not in parts
    else:
        assert rule in (OUTSIDE, LINK, "dot-folder"), "a rule file out there was read"
    assert found.for_folder(path) in (None, OUTSIDE, LINK, "dot-folder")


def test_a_name_that_no_disk_can_have_has_no_rule(vault):
    long = "n" * 300
    assert rules(vault).for_file(f"{long}/{long}.md") is None
    assert rules(vault).for_file("a\0b/n.md") is None
    assert rules(vault).for_file("\ud800/n.md") is None


# One path alone and the whole vault


FOLDERS = st.sampled_from(["a", "b", "A", "c d", ".git", "@eaDir"])
FILES = st.sampled_from(["n.md", "m.MD", "N.md", "._n.md", "~$n.md", "n.sync-conflict-1.md", "q.md"])
PATHS = st.tuples(st.lists(FOLDERS, max_size=3), FILES).map(lambda parts: "/".join([*parts[0], parts[1]]))
PATTERNS = st.sampled_from(
    [
        *("a", "a/", "/a", "b/", "!b/", "*.md", "!*.md", "n.md", "!n.md", "/n.md", "a/b", "a/*", "!a/b/"),
        *("**/m.MD", "b/**", "!b/**/n.md", "*", "!*/", "c d/", "c\\ d", "# a", "", "[ab]", "?.md"),
    ]
)
RULE_FILES = st.dictionaries(
    st.tuples(st.lists(FOLDERS, max_size=2), st.sampled_from([".gitignore", ".everindexignore"])).map(
        lambda parts: "/".join([*parts[0], parts[1]])
    ),
    st.lists(PATTERNS, max_size=4).map("\n".join),
    max_size=4,
)
FILTERS = st.lists(st.sampled_from(["a/", "A/B", "/n\\.md$/", "c", "/^b//"]), max_size=2)


@given(
    paths=st.lists(PATHS, min_size=1, max_size=8, unique=True),
    rule_files=RULE_FILES,
    filters=FILTERS,
    owned=st.sampled_from([("",), ("a/",), ("a/", "b/")]),
)
@example(
    paths=["a/b/n.md", "a/n.md"],
    rule_files={".gitignore": "a/*", "a/.gitignore": "!b"},
    filters=[],
    owned=("",),
)
@settings(max_examples=150)
def test_one_path_alone_is_judged_as_in_a_scan(paths, rule_files, filters, owned):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for path in paths:
            write(root, path)
        for path, text in rule_files.items():
            write(root, path, text)
        obsidian(root, filters)
        generated = ("q.md", "a/q.md")
        found = scan_vault(root, rules(root, generated, owned))
        one_by_one = rules(root, generated, owned)
        judged = {path: one_by_one.for_file(path) for path in paths}
        assert set(found.notes) == {path for path in paths if judged[path] is None}
        assert {path: listed(rule) for path, rule in judged.items()} == {
            path: found.ignored.get(path) for path in paths
        }
        # A folder that changed is scanned alone.
        for part in {path.rpartition("/")[0] for path in paths}:
            alone = scan_vault(root, rules(root, generated, owned), part)
            below = [path for path in paths if path.startswith(f"{part}/" if part else "")]
            assert {path: alone.ignored.get(path) for path in below} == {
                path: found.ignored.get(path) for path in below
            }


DATED = ["NVDA_2026-02-19.yaml", "NVDA_20260219T0900.yaml", "2026-02-19T09:00_x.json", "a/20260219.yml"]
UNDATED = [
    "template.yaml",
    "EA-NVDA-Q4-2024.yaml",
    "2026/02/19/NVDA.yaml",
    "1202602190.json",
    "2026-13-01.yaml",
]


@pytest.mark.parametrize("path", [*DATED, *UNDATED, "Note.md", "table.csv"])
def test_a_domain_may_ignore_records_without_a_date_in_their_name(tmp_path, path):
    domains = "all: {legacy: true, formats: [md, csv, yaml, json], documents: {yaml: {only_dated: %s}}}\n"
    write(tmp_path, path)
    for setting in ("true", "false"):
        write(tmp_path, "_domains.yaml", domains % setting)
        found = rules_of(tmp_path, load(tmp_path))
        rule, scan = found.for_file(path), scan_vault(tmp_path, found)
        assert ("`only_dated`" in (rule or "")) == (path in UNDATED and setting == "true")
        assert scan.ignored.get(path) == rule
        assert (path in scan.notes) == (rule is None)
