from benchmarks.heldout import questions_of, read_vault, remove, resolved

NOTES = {
    "Source.md": "# Source\n\nBread needs [a living dough](Leaven.md) and time.\n\n"
    "Feed it twice a day with rye flour: [[Leaven]].\n\nMore in [[Leaven|the same note]], and [[Ovens]].\n",
    "Other.md": "# Other\n\nSee [[Leaven]].\n",
    "Leaven.md": "# Leaven\n\nFlour and water.\n",
    "Ovens.md": "# Ovens\n\nHeat.\n",
}


def test_questions_come_from_links_and_nothing_of_them_is_left(tmp_path):
    for name, text in NOTES.items():
        (tmp_path / name).write_text(text)
    questions = questions_of(tmp_path)
    found = {(one.kind, one.text, one.target) for one in questions}
    assert ("text", "a living dough", "Leaven.md") in found
    assert ("text", "the same note", "Leaven.md") in found
    assert ("line", "Feed it twice a day with rye flour: .", "Leaven.md") in found
    assert all(one.source == "Source.md" for one in questions), "a line of too few words asks nothing"
    remove(tmp_path, questions)
    text = (tmp_path / "Source.md").read_text()
    assert not any(one.text in text for one in questions)
    left = {(note.path, target) for note, _, target in resolved(*read_vault(tmp_path))}
    assert left == {("Source.md", "Ovens.md"), ("Other.md", "Leaven.md")}
