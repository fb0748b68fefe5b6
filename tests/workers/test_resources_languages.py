"""Which model a domain gets that names none: by a look at its notes, once."""

import pytest

from pipelines.embedding.models import EMBEDDED_MODEL, MULTILINGUAL_MODEL
from queue_config.settings import Settings
from workers.resources import Resources
from workers.tasks import compare

GERMAN = "Die Tomaten brauchen im Sommer viel Wasser, und man soll sie nicht auf die Blätter gießen."
CHINESE = "番茄在夏天需要很多水，不要浇在叶子上。"
ENGLISH = "The tomatoes need a lot of water in the summer, and you should not pour it on the leaves."
LIST = "- 12\n- 13\n"


def write(folder, *texts):
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(texts, start=len(list(folder.iterdir()))):
        (folder / f"{number}.md").write_text(
            f"---\nauthor: the one of all the notes\n---\n{text}\n", encoding="utf-8"
        )


@pytest.fixture
def open_vault(vault, tmp_path):
    return lambda **settings: Resources(Settings(vault=vault, state=tmp_path / "state", **settings))


def models(resources):
    return {domain.slug: resources.cache(domain).meta.model for domain in resources.domains()}


@pytest.mark.parametrize(
    ("texts", "model"),
    [
        ([], EMBEDDED_MODEL),
        ([LIST], EMBEDDED_MODEL),
        ([ENGLISH] * 10, EMBEDDED_MODEL),
        ([GERMAN], MULTILINGUAL_MODEL),
        ([CHINESE, LIST], MULTILINGUAL_MODEL),
        ([ENGLISH] * 6 + [GERMAN], EMBEDDED_MODEL),
        ([ENGLISH] * 18 + [GERMAN, CHINESE], MULTILINGUAL_MODEL),
        ([ENGLISH] * 19 + [GERMAN, CHINESE], EMBEDDED_MODEL),
    ],
)
def test_a_tenth_of_the_notes_in_another_language_needs_the_multilingual_model(
    vault, open_vault, texts, model
):
    write(vault, *texts)
    assert models(open_vault()) == {"vault": model}


def test_each_domain_has_the_model_for_its_own_notes_and_what_was_chosen_is_said_with_its_cost(
    vault, open_vault
):
    (vault / "_domains.yaml").write_text(
        f"garten: {{}}\ngarden: {{}}\nnamed: {{embedding: {EMBEDDED_MODEL}}}\n"
    )
    write(vault / "garten", GERMAN, GERMAN, ENGLISH)
    write(vault / "garden", *[ENGLISH] * 3)
    write(vault / "named", GERMAN)
    resources = open_vault()
    assert models(resources) == {
        "garten": MULTILINGUAL_MODEL,
        "garden": EMBEDDED_MODEL,
        "named": EMBEDDED_MODEL,
    }
    (said,) = resources.chosen_by_language()
    assert said.startswith(
        "garten: 67 % of these notes are not in English (mostly German), so multilingual-e5-small"
    )
    assert "a third of the speed" in said
    assert "`embedding: all-MiniLM-L6-v2`" in said


def test_a_model_is_never_changed_because_the_notes_changed(vault, open_vault):
    write(vault, *[ENGLISH] * 3)
    assert models(open_vault()) == {"vault": EMBEDDED_MODEL}
    write(vault, *[GERMAN] * 30)
    resources = open_vault()
    resources.check_models()
    compare(resources)
    assert models(resources) == {"vault": EMBEDDED_MODEL}
    assert resources.chosen_by_language() == []


def test_the_settings_choose_before_the_notes_do(vault, open_vault):
    write(vault, GERMAN)
    resources = open_vault(embedding_model=EMBEDDED_MODEL)
    assert models(resources) == {"vault": EMBEDDED_MODEL}
    assert resources.chosen_by_language() == []
