"""Which domain owns a path, and which domains are in force when the file changes."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.domains import DOMAINS_FILE, WHOLE_VAULT, Registry, load, parse
from pipelines.errors import DomainsFileError
from pipelines.model import Domain
from tests.oddities import ODDITIES, is_untouched, make_outside
from tests.oddities import put as odd

from .domains import FULL, refusal


def put(root, text):
    (root / DOMAINS_FILE).write_text(text, encoding="utf-8")


def test_the_example_vaults_file_is_valid(request):
    text = (request.config.rootpath / "examples" / "vault" / DOMAINS_FILE).read_text(encoding="utf-8")
    assert [domain.slug for domain in parse(text)] == [
        "finance",
        "fitness",
        "nutrition",
        "learning",
        "archive",
    ]


# Ownership


def owner(registry, path):
    found = registry.owner(path)
    return found and found.slug


def test_the_longest_folder_that_holds_a_path_owns_it():
    registry = Registry(parse("all: {legacy: true}\na: {}\nab: {path: a/b}\nabc: {path: a/b/c}"))
    assert [
        owner(registry, path) for path in ("x.md", "a.md", "a/x.md", "a/b.md", "a/b/x.md", "a/b/c/d/x.md")
    ] == [*("all", "all", "a", "a", "ab", "abc")]


def test_a_folder_with_a_similar_name_is_another_folder():
    registry = Registry(parse("all: {legacy: true}\nfit: {}"))
    assert owner(registry, "fitness/a.md") == "all"


def test_without_a_legacy_domain_a_path_may_belong_to_none():
    registry = Registry(parse("a: {}"))
    assert owner(registry, "b/x.md") is None
    assert registry.prefixes == ("a/",)


def test_a_registry_knows_its_slugs_and_our_own_files():
    registry = Registry(parse(FULL))
    assert registry.get("deep").path == "work/deep"
    assert registry.get("nothing") is None
    assert registry.prefixes == ("", "fitness/", "work/deep/")
    assert registry.generated == ("_review-queue.md", "fitness/_review-queue.md", "work/deep/queue.md")


SEGMENTS = st.sampled_from(["a", "b", "ab", "c"])


@given(
    folders=st.lists(
        st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join), min_size=1, max_size=5, unique=True
    ),
    legacy=st.booleans(),
    path=st.lists(SEGMENTS, min_size=1, max_size=5).map(lambda parts: "/".join([*parts, "n.md"])),
)
def test_an_owner_is_the_nearest_parent_folder_that_a_domain_names(folders, legacy, path):
    lines = [f"d{number}: {{path: {folder}}}" for number, folder in enumerate(folders)]
    registry = Registry(parse("\n".join([*lines, *(["rest: {legacy: true}"] if legacy else [])])))
    parts = path.split("/")[:-1]
    parents = ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
    nearest = next((f"d{folders.index(parent)}" for parent in parents if parent in folders), None)
    assert owner(registry, path) == (nearest or ("rest" if legacy else None))


def test_a_path_in_decomposed_form_owns_the_same_notes():
    registry = Registry(parse(unicodedata.normalize("NFD", "d: {path: \u00e9t\u00e9}")))
    assert owner(registry, "\u00e9t\u00e9/a.md") == "d"


@pytest.mark.parametrize(
    ("written", "path"), [("./a", "a/x.md"), ("a//b", "a/b/x.md"), ("a/./b", "a/b/x.md")]
)
def test_a_path_that_is_written_in_a_roundabout_way_owns_its_folder(written, path):
    assert owner(Registry(parse(f"d: {{path: {written}}}")), path) == "d"


# What is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n  pth: x\n", "_domains.yaml:2: a.pth: unknown key; did you mean 'path'?"),
        (
            "a: {}\nb:\n  decay:\n    ladders: [1]\n",
            "_domains.yaml:4: b.decay.ladders: unknown key; did you mean 'ladder'?",
        ),
        ("a:\n  zzzzzz: 1\n", "_domains.yaml:2: a.zzzzzz: unknown key"),
        (
            "a:\n  decay:\n    kind_overrides:\n      F:\n        group_by_path: [1]\n",
            "_domains.yaml:4: a.decay.kind_overrides.F.group_by_path_prefix: Field required",
        ),
        (
            "a:\n  decay:\n    mode: linear\n",
            "_domains.yaml:3: a.decay.mode: Input should be 'off' or 'ranked_grouped'",
        ),
        (
            "a:\n  lexical:\n\n    weight: -1\n",
            "_domains.yaml:4: a.lexical.weight: Input should be greater than",
        ),
        (
            "a:\n  decay:\n    ladder:\n      - 1\n      - x\n",
            "_domains.yaml:5: a.decay.ladder.1: Input should be a valid number",
        ),
        ("a:\n  decay: {ladder: []}\n", "_domains.yaml:2: a.decay.ladder: List should have at least 1 item"),
        ("a:\n  embedding_dim: 0\n", "_domains.yaml:2: a.embedding_dim: Input should be greater than 0"),
        ("a:\n  path: ../x\n", "_domains.yaml:1: a.path must be a path inside the vault, not '../x'"),
        ("a: text\n", "_domains.yaml:1: a: Input should be a valid dictionary (got 'text')"),
        ("\n\na b: {}\n", "_domains.yaml:3: a domain is named with letters"),
        ("a: {}\n\nb: {path: a}\n", "_domains.yaml:3: a and b both own 'a/'; only one can"),
        (
            "a: {legacy: true}\nb: {}\nc:\n  legacy: true\n",
            "_domains.yaml:3: a and c are both `legacy: true`; only one can",
        ),
        ("a: {}\nb: [\n", "_domains.yaml:3: not valid YAML: "),
        ("---\na: {}\nb: \x07\n", "_domains.yaml:3: not valid YAML: "),
        ("a: 2026-02-30\n", "_domains.yaml: not valid YAML: day is out of range"),
        ("- a\n", "_domains.yaml:1: expected `<domain>:`"),
        ("", "_domains.yaml:1: expected `<domain>:`"),
        ("# nothing\n", "_domains.yaml:1: expected `<domain>:`"),
    ],
)
def test_an_error_names_file_line_and_reason(text, message):
    assert refusal(text).startswith(message)


def test_an_error_names_the_file_as_it_was_opened(vault):
    put(vault, "a:\n  pth: x\n")
    with pytest.raises(DomainsFileError) as caught:
        load(vault)
    assert str(caught.value).startswith(f"{vault / DOMAINS_FILE}:2: ")


@given(text=st.text(st.sampled_from("ab:{}[],&*!-?|>'\"%@` \n\t#0.~<"), max_size=40))
@settings(max_examples=300)
def test_any_text_is_domains_or_an_error(text):
    try:
        found = parse(text)
    except DomainsFileError:
        return
    assert all(isinstance(domain, Domain) for domain in found)


# Loading


def test_a_vault_without_the_file_is_one_domain_that_owns_everything(vault):
    assert load(vault) == Registry(WHOLE_VAULT)
    assert owner(load(vault), "any/where.md") == "vault"
    assert load(vault, Registry(parse("a: {}"), "a: {}")) == Registry(WHOLE_VAULT)


def test_an_unchanged_file_is_not_parsed_again(vault):
    put(vault, "a: {}")
    first = load(vault)
    assert load(vault, first) is first


def test_a_changed_file_comes_into_force(vault):
    put(vault, "a: {}")
    first = load(vault)
    put(vault, "b: {}")
    assert [domain.slug for domain in load(vault, first).domains] == ["b"]


def test_the_last_good_domains_stay_in_force_and_the_error_is_kept(vault):
    put(vault, "a: {}")
    good = load(vault)
    put(vault, "a: {pth: x}")
    bad = load(vault, good)
    assert bad.domains == good.domains
    assert "did you mean 'path'?" in bad.error
    assert load(vault, bad) == bad
    put(vault, "a: {}")
    assert load(vault, bad) == good


def test_without_a_last_good_one_an_invalid_file_is_an_error(vault):
    put(vault, "a: {pth: x}")
    with pytest.raises(DomainsFileError):
        load(vault)


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.write_bytes(b"a: \xff")])
def test_a_file_that_cannot_be_read_is_an_error_and_the_last_good_stays(vault, make):
    make(vault / DOMAINS_FILE)
    with pytest.raises(DomainsFileError, match="cannot be read"):
        load(vault)
    good = Registry(parse("a: {}"), "a: {}")
    assert load(vault, good).domains == good.domains
    assert "cannot be read" in load(vault, good).error


@pytest.mark.parametrize("kind", ODDITIES)
def test_what_is_no_regular_file_is_an_error_and_the_last_good_stays(vault, tmp_path, kind):
    outside = make_outside(tmp_path)
    odd(vault / DOMAINS_FILE, kind, outside)
    with pytest.raises(DomainsFileError, match=r"_domains\.yaml cannot be read"):
        load(vault)
    good = Registry(parse("a: {}"), "a: {}")
    bad = load(vault, good)
    assert (bad.domains, bad.source) == (good.domains, good.source)
    assert "_domains.yaml cannot be read" in bad.error
    assert load(vault, bad) == bad
    assert is_untouched(outside)


def test_a_file_that_is_too_large_is_an_error_and_the_largest_is_read(vault):
    put(vault, "a: {}\n#" + "x" * 99_992)
    assert load(vault).domains[0].slug == "a"
    put(vault, "a: {}\n#" + "x" * 99_994)
    with pytest.raises(DomainsFileError, match=r"cannot be read: .* too much"):
        load(vault)


def test_a_refused_text_is_not_parsed_again_until_it_changes(vault):
    put(vault, "a: {}")
    good = load(vault)
    put(vault, "a: {pth: x}")
    bad = load(vault, good)
    assert load(vault, bad) is bad
    put(vault, "a: {pth: y}")
    assert load(vault, bad) is not bad
    put(vault, "a: {}")
    assert load(vault, bad) == good


def test_domains_without_end_are_refused_at_once():
    assert "more than 1000" in refusal("".join(f"d{number}:\n" for number in range(1_001)))


@pytest.mark.parametrize("away", ["nowhere", "x" * 300])
def test_an_unavailable_or_unreadable_vault_keeps_its_domains(vault, away):
    put(vault, "a: { path: x }")
    good = load(vault)
    vault.rename(vault.with_name("aside"))
    vault.symlink_to(away)  # any look at the name that is too long fails with an error of its own
    assert load(vault, good).domains == good.domains


def test_a_file_with_a_byte_order_mark_and_windows_line_ends_is_read(vault):
    (vault / DOMAINS_FILE).write_bytes(b"\xef\xbb\xbfa:\r\n  path: x\r\n")
    assert load(vault).domains == (Domain("a", "x"),)
