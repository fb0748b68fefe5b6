import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.domains import DOMAINS_FILE, WHOLE_VAULT, Registry, load, parse
from pipelines.errors import DomainsFileError
from pipelines.model import Decay, Domain, Kind
from tests.oddities import ODDITIES, is_untouched, make_outside
from tests.oddities import put as odd

FULL = """\
# the domains of this vault
finance:
  legacy: true
  taxonomy: _taxonomy.md
  review_queue: _review-queue.md
  embedding: BAAI/bge-large-en-v1.5
  embedding_dim: 1024
  decay:
    mode: ranked_grouped
    ladder: [1.0, 0.6, 0.45, 0.35, 0.25]
    recency_boost_days: 30
    recency_boost_amount: 0.05
    kind_overrides:
      Filings: { group_by_path_prefix: [1.0, 0.6] }
  lexical:
    weight: 0.5
fitness: { decay: { mode: off }, lexical: { weight: 0.05 } }
deep:
  path: /work/deep/
  taxonomy: tags.md
  review_queue: queue.md
  sentences: off
"""


def put(root, text):
    (root / DOMAINS_FILE).write_text(text, encoding="utf-8")


def refusal(text):
    with pytest.raises(DomainsFileError) as caught:
        parse(text)
    return str(caught.value)


# The shape


def test_every_key_is_read():
    assert parse(FULL) == (
        Domain(
            slug="finance",
            path="",
            legacy=True,
            taxonomy="_taxonomy.md",
            review_queue="_review-queue.md",
            embedding="BAAI/bge-large-en-v1.5",
            embedding_dim=1024,
            decay=Decay(
                mode="ranked_grouped",
                ladder=(1.0, 0.6, 0.45, 0.35, 0.25),
                recency_boost_days=30,
                recency_boost_amount=0.05,
                kind_overrides={"Filings": Kind((1.0, 0.6))},
            ),
            fusion="rrf",
            lexical_weight=0.5,
        ),
        Domain(slug="fitness", path="fitness", fusion="rrf", lexical_weight=0.05),
        Domain(
            slug="deep",
            path="work/deep",
            taxonomy="tags.md",
            review_queue="queue.md",
            sentences=False,
        ),
    )


@pytest.mark.parametrize("text", ["a:", "a: {}", "a: ~"])
def test_a_domain_without_settings_owns_the_folder_of_its_name_and_has_the_defaults(text):
    assert parse(text) == (Domain(slug="a", path="a"),)


@pytest.mark.parametrize("off", ["off", '"off"', "Off", "false", "no"])
def test_a_bare_off_is_off(off):
    assert parse(f"a: {{decay: {{mode: {off}}}}}")[0].decay.mode == "off"


@pytest.mark.parametrize("slug", ["finance", "my-notes_2", "日记", "_x"])
def test_a_slug_has_letters_digits_hyphens_and_underscores(slug):
    assert parse(f"{slug}: {{}}")[0].slug == slug


@pytest.mark.parametrize("slug", ["a b", "a/b", "..", "'-'", "''", "1", "off", "~", "a.b", "2026-01-01"])
def test_any_other_slug_is_refused(slug):
    assert "a domain is named with letters, digits" in refusal(f"{slug}: {{}}")


def test_the_example_vaults_file_is_valid(request):
    text = (request.config.rootpath / "examples" / "vault" / DOMAINS_FILE).read_text(encoding="utf-8")
    assert [domain.slug for domain in parse(text)] == ["finance", "fitness", "nutrition", "learning"]


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
        ("a: text\n", "_domains.yaml:1: a: Input should be a valid dictionary"),
        ("\n\na b: {}\n", "_domains.yaml:3: a domain is named with letters"),
        ("a: {}\n\nb: {path: a}\n", "_domains.yaml:3: a and b both own 'a/'; only one can"),
        (
            "a: {legacy: true}\nb: {}\nc:\n  legacy: true\n",
            "_domains.yaml:3: a and c are both `legacy: true`; only one can",
        ),
        ("a: {}\nb: [\n", "_domains.yaml:3: not valid YAML: "),
        ("a: 2026-02-30\n", "_domains.yaml:1: not valid YAML: day is out of range"),
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


def test_a_domain_that_is_written_twice_is_refused():
    assert refusal("a: {path: x}\na: {path: y}\n").startswith("_domains.yaml:2: ")


@pytest.mark.parametrize("key", ["taxonomy", "review_queue"])
@pytest.mark.parametrize("name", ["../x.md", "/etc/x.md", "''"])
def test_a_domains_own_files_must_lie_inside_it(key, name):
    assert key in refusal(f"a:\n  {key}: {name}\n")


@pytest.mark.parametrize(
    "setting", ["embedding_dim: true", "lexical: {weight: true}", "decay: {recency_boost_days: on}"]
)
def test_a_truth_value_is_no_number(setting):
    assert "_domains.yaml:1: " in refusal(f"a: {{{setting}}}")


# Hostile files


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 500,
        "a: " + "{x: " * 5_000,
        "- " * 5_000 + "a",
        "a: &x [*x]",
        "a: &x {decay: *x}",
        "a: *nothing",
        "? [a]\n: b",
        "? {a: b}\n: c",
        "a: !!python/object/apply:os.system [id]",
        "a: \0",
        "%YAML 9.9\n---\na: {}",
        "a: {}\n---\nb: {}",
        "a: " + "9" * 10_000,
        "a: !!omap x",
        "a: {path: [x]}",
        "a: {path: {x: y}}",
        "\t",
        "a: 'x",
        "a: !!binary \u00e9",
    ],
    ids=range(19),
)
def test_a_hostile_file_is_refused(text):
    assert refusal(text).startswith("_domains.yaml:")


@pytest.mark.parametrize("text", ["!!bool x", "!!int ''", "!!float ''", "!!timestamp x"])
def test_a_tag_whose_value_does_not_fit_is_refused(text):
    assert refusal(f"a: {text}").startswith("_domains.yaml:")


PARSE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
from pipelines.domains import parse
from pipelines.errors import DomainsFileError
try:
    parse(sys.stdin.read())
except DomainsFileError as error:
    print(len(str(error)))
"""
LAUGHS = "a: [&a0 [x,x,x,x,x,x,x,x,x,x]" + "".join(
    f", &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)
)
MERGES = "a: {x0: &m0 {k: v}" + "".join(f", x{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}" for n in range(1, 32))


def parsed_apart(text):
    """Parse in a process of its own with 1 GB of memory and 3 s of computing; return the length of the refusal."""
    done = subprocess.run(
        [sys.executable, "-c", PARSE], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr[-500:]
    return int(done.stdout)


@pytest.mark.parametrize("text", [f"{LAUGHS}]", f"{MERGES}}}"], ids=["laughs", "merges"])
def test_an_alias_bomb_is_refused_in_few_words_and_little_memory(text):
    assert parsed_apart(text) < 2_000


def test_a_deep_nest_is_refused_without_reading_it_all():
    assert parsed_apart("a: " + "[" * 50_000) < 2_000


@given(text=st.text(st.sampled_from("ab:{}[],&*!-?|>'\"%@` \n\t#0.~<"), max_size=40))
@settings(max_examples=300)
def test_whatever_stands_in_the_file_it_is_domains_or_an_error(text):
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


@pytest.mark.parametrize("key", ["path", "taxonomy", "review_queue"])
@pytest.mark.parametrize("value", ["x\\0y", "x\\uD800y", "../x", "a/../../x"])
def test_a_path_that_cannot_be_one_inside_the_vault_is_refused(key, value):
    assert "must be a path inside the vault" in refusal(f'a: {{{key}: "{value}"}}\n')


def test_a_name_that_no_file_can_bear_is_refused():
    assert "too long" in refusal("a" * 151 + ": {}\n")
    assert parse("a" * 150 + ": {}\n")


def test_domains_without_end_are_refused_at_once():
    assert "more than 1000" in refusal("".join(f"d{number}:\n" for number in range(1_001)))


def test_a_key_in_the_wrong_section_is_told_where_it_belongs(vault):
    put(vault, "a:\n  folders: [private]\n")
    with pytest.raises(DomainsFileError, match=r"a\.folders: a key of `privacy:`, unknown here"):
        load(vault)


@pytest.mark.parametrize("away", ["nowhere", "x" * 300])
def test_a_vault_that_is_away_or_cannot_be_looked_at_keeps_its_domains(vault, away):
    put(vault, "a: { path: x }")
    good = load(vault)
    vault.rename(vault.with_name("aside"))
    vault.symlink_to(away)  # any look at the name that is too long fails with an error of its own
    assert load(vault, good).domains == good.domains


def test_a_file_with_a_byte_order_mark_and_windows_line_ends_is_read(vault):
    (vault / DOMAINS_FILE).write_bytes(b"\xef\xbb\xbfa:\r\n  path: x\r\n")
    assert load(vault).domains == (Domain("a", "x"),)


def test_a_preset_gives_the_source_documents_stack():
    (domain,) = parse("vault: {legacy: true, preset: source}")
    assert domain == Domain(
        "vault",
        "",
        legacy=True,
        embedding="BAAI/bge-large-en-v1.5",
        fusion="rrf",
        lexical_weight=0.5,
        pagerank_over="citations",
        central_over="links",
        communities="louvain",
        graph_mode="linear",
    )


def test_what_is_written_beside_a_preset_takes_precedence_key_by_key():
    (domain,) = parse(
        "fitness: {preset: source, embedding: x/y, lexical: {weight: 0.05}, graph: {communities: leiden}}"
    )
    assert (domain.embedding, domain.lexical_weight, domain.communities) == ("x/y", 0.05, "leiden")
    assert (domain.fusion, domain.graph_mode, domain.pagerank_over) == ("rrf", "linear", "citations")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a:\n  preset: other", 2),
        ("a:\n  preset: [source]", 2),
        ("a:\n  preset: source\n  graph:\n    communities: girvan", 4),
        ("a:\n  preset: source\n  graph: louvain", 3),
        ("a:\n  preset: source\n  graph:\n    centrel_over: all", 4),
    ],
)
def test_what_is_wrong_beside_a_preset_is_named_with_its_line(text, line):
    with pytest.raises(DomainsFileError, match=rf":{line}: a\."):
        parse(text)


def test_a_domain_has_its_own_threshold_for_proposals():
    (domain,) = parse("notes:\n  review: {threshold: 0.6}\n")
    assert domain.threshold == 0.6
    (domain,) = parse("notes:\n  legacy: true\n")
    assert domain.threshold is None


@pytest.mark.parametrize("value", ["0", "1.1", "-1", "on", "high"])
def test_a_threshold_lies_above_0_and_is_at_most_1(value):
    assert ":2: notes.review.threshold: " in refusal(f"notes:\n  review: {{threshold: {value}}}\n")
