"""A page is inert, its decisions are understood, and everything else that a person wrote stays."""

import re
import unicodedata
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from pipelines.notes.links import name_key, resolve
from pipelines.notes.markdown import parse_note
from pipelines.tagging.review_file import (
    MARKER,
    MOST_CHARACTERS,
    MOST_LINES,
    NOT_UNDERSTOOD,
    KeptText,
    QueuedNote,
    QueuedTag,
    Reading,
    _visible,
    neutral,
    plain,
    quoted,
    read,
    render,
    seal,
)

PAGE = "p7"
VOCABULARY = {
    "soil": "soil",
    "worms": "worms",
    "earth": "soil",
    "night sky": "astronomy",
    "biology": "biology",
}


def find(name):
    return VOCABULARY.get(name.casefold())


def tag(number, name, **more):
    return QueuedTag(number, name, "Topics", 0.82, "local", **more)


GARDEN = QueuedNote(
    "Garden.md", "Garden", "Soil\nIt sleeps.", (tag(1, "biology"), tag(2, "snake_case"), tag(3, "food/yam"))
)
SKY = QueuedNote("Night/Sky.md", "Sky", "Stars.", (tag(4, "biology"), tag(5, "stars"), tag(6, "moon")))
NOTES = (GARDEN, SKY)
SHOWN = render(NOTES, 3, PAGE)


def line_of(number, text=SHOWN):
    return next(line for line in text.split("\n") if f"<!-- e:{number} " in line)


def changed(*changes, text=SHOWN):
    """The page with pieces replaced; an item's number stands for its line."""
    for old, new in changes:
        piece = line_of(old) if isinstance(old, int) else old
        assert piece in text
        text = text.replace(piece, new)
    return text


def marked(mark, *numbers, text=SHOWN):
    return changed(*((n, line_of(n).replace("[ ]", f"[{mark}]")) for n in numbers), text=text)


def under(note, *lines, text=SHOWN):
    """The page with lines typed below a note's tags."""
    last = line_of(note.tags[-1].id)
    return changed((last, "\n".join([last, *lines])), text=text)


def said(text, known=NOTES):
    return read(text, known, PAGE, find)


def again(reading, notes=NOTES):
    return render(notes, 3, PAGE, kept=reading.kept)


# What is shown


def test_an_unedited_page_says_nothing():
    assert said(SHOWN) == Reading()


def test_a_page_shows_each_tag_with_its_group_and_confidence_in_the_order_given():
    shown = [line.partition(" <!--")[0] for line in SHOWN.split("\n") if "<!-- e:" in line]
    assert shown[:4] == [
        "- [ ] `biology` · Topics · 82% · local",
        "- [ ] `snake_case` · Topics · 82% · local",
        "- [ ] `food/yam` · Topics · 82% · local",
        "- [ ] all of the above",
    ]
    assert SHOWN.index("Garden.md") < SHOWN.index("Night/Sky.md")
    assert "3 more wait" in SHOWN


def test_an_empty_page_says_so_and_is_not_damaged():
    text = render((), 0, PAGE)
    assert text.count("nothing to review") == 1
    assert "Nothing else" not in text
    assert said(text, ()) == Reading()


def test_a_message_is_shown_once_and_is_not_taken_for_a_persons():
    text = render(NOTES, 3, PAGE, message="The file was cut.\nIt was restored: [[x]] #y.")
    assert text.count("The file was cut.") == 1
    assert parse_note("_q.md", text).tags == ()
    assert said(text) == Reading()


NAMES = st.text(
    st.sampled_from("ab Z[]#^|`<>%$*_~=&{}()!'\"\\.-é中")
    | st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="/"),
    min_size=1,
    max_size=12,
).filter(lambda name: name == name.strip() and unicodedata.is_normalized("NFC", name))
HOSTILE = st.lists(
    st.sampled_from(
        ["[[x]]", "![[x]]", "#tag", "[a](b.md)", "<b>", "<!-- e:1 -->", "<!-- end:p7 -->", "%%", "$$", "$x$", "^id", "[^1]", "- [x] ",
         "- [ ] soil", "```", "~~~", "---", "===", "> ", "1. ", "\\", "`", "https://x.y", "www.x.y", "a@b.c", "a:: b", "{{x}}", "\t",
         "\r\n", "\n", "\n\n", "    ", "|", "&lt;", "\u2028", "\u202e", "\x00", "word", "# ", "<!-- n:", "-->", "\ud800", "!", "＃x"]
    )
    | st.text(max_size=8),
    max_size=30,
).map("".join)  # fmt: skip


@given(opening=HOSTILE, title=HOSTILE, group=HOSTILE, name=NAMES)
@example(
    opening="- [x] biology <!-- e:1 -->", title="a]] [[b|c", group="<!-- end:p7 -->", name="a[[b]]#c|d^e"
)
def test_nothing_in_a_note_comes_alive(opening, title, group, name):
    tags = (QueuedTag(1, "soil", group, 0.5, group), QueuedTag(2, "yam", group, 0.5, "local"))
    notes = (QueuedNote(f"Folder/{name}.md", title, opening, tags),)
    text = render(notes, 0, PAGE, message=opening)
    note = parse_note("_review-queue.md", text)
    assert [link.target for link in note.links] == [f"Folder/{name}.md"]
    assert note.tags == ()
    assert [heading.level for heading in note.headings] == [1, 2]
    assert text.encode()
    quotes = [line for line in text.split("\n") if line.startswith("> ") and not line.startswith("> **")]
    assert all(
        line[2] not in "-+*_#>=~`|0123456789" or re.match(r"> \d*[^-+.)*#>=~`|]", line)
        for line in quotes
        if len(line) > 2
    )
    for line in quotes:
        alive = re.sub(r"\\[!-/:-@\[-`{-~]", "·", line[2:])
        assert not re.search(
            r"[\[\]$^`\\|@*~]|<[!/?a-zA-Z]|(?:^|[^\w])#|%%|==|::|:/|\{\{|www\.|&\w+;", alive
        ), line
        assert not re.search(r"%%|\[\[|==|::|://|\{\{|<!", line), line
    assert said(text, notes) == Reading()
    accepted = said(text.replace("- [ ] `soil`", "- [x] `soil`"), notes)
    assert accepted == Reading(accepted=frozenset({1}))


@given(name=NAMES, other=NAMES)
def test_a_heading_opens_that_very_note(name, other):
    path, rival = f"Folder/{name}.md", f"{other}/{name}.md"
    (link,) = parse_note("_q.md", render([QueuedNote(path, "", "", ())], 0, PAGE)).links
    found = resolve(link.target, "_q.md", lambda key: [p for p in (rival, path) if name_key(p) == key])
    assert found is not None
    assert found.path == path


@given(HOSTILE)
def test_a_quote_is_short(opening):
    lines = quoted(opening * 20)
    assert len(lines) <= MOST_LINES
    assert sum(len(plain(line)) - 2 for line in lines) <= MOST_CHARACTERS + 1


@given(HOSTILE)
@example(":_0_")
@example("a _b_ c __d__ e_f_ _")
def test_a_reader_of_markdown_shows_a_neutral_text_as_it_was_written(text):
    assert plain(neutral(text)) == _visible(text)
    inline = MarkdownIt("commonmark").parse(f"> {neutral(text)}")
    shown = "".join(
        child.content for token in inline if token.type == "inline" for child in token.children or ()
    )
    assert shown == _visible(text)


@pytest.mark.parametrize(
    "text",
    [
        "20 % of it",
        "C# and F#",
        "a < b > c",
        "x = 1",
        "R&D",
        "10:30",
        "f(x)",
        "snake_case",
        "100%",
        "Q&A!",
        "{a}",
        "a - b",
    ],
)
def test_what_is_harmless_is_shown_as_it_stands(text):
    assert neutral(text) == text
    assert quoted(text) == [f"> {text}"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("[[Soil]]", r"\[\[Soil\]\]"),
        ("%%hidden%%", r"%\%hidden%\%"),
        ("#tag and #b", r"\#tag and \#b"),
        ("<!-- e:1 -->", r"\<\!-- e:1 -->"),
        ("https://x.y", r"https:\//x.y"),
        ("a:: b", r"a:\: b"),
        ("- [x] soil", r"\- \[x\] soil"),
        ("1. soil", r"1\. soil"),
    ],
)
def test_what_would_be_alive_has_a_backslash(text, written):
    assert neutral(text) == written


def test_a_title_with_signs_is_shown_as_it_is_and_opens_its_note():
    note = QueuedNote("A/C #1 [draft].md", "C# [draft] 20 %", "", (tag(1, "soil"),))
    text = render([note], 0, PAGE)
    assert r"## [C# \[draft\] 20 %](A/C%20%231%20%5Bdraft%5D.md)" in text
    assert "## [[a.md|20 % off]]" in render([QueuedNote("a.md", "20 % off", "", (tag(1, "soil"),))], 0, PAGE)


@given(HOSTILE)
def test_a_comment_in_a_note_is_no_comment_of_ours_however_an_editor_writes_it(opening):
    for written in (neutral(opening), neutral(opening).replace("<\\!", "<!")):
        assert not MARKER.search(written)


# Marks


@pytest.mark.parametrize(
    "line",
    [
        "- [x] `biology` · Topics · 82% · local <!-- e:1 63138734 -->",
        "- [X] `biology` · Topics · 82% · local <!-- e:1 -->",
        "- [x ] `biology` <!-- e:1 -->",
        "- [ x] `biology` <!-- e:1 -->",
        "* [x] biology <!--e:1-->",
        "+ [x] #biology <!-- E:1 -->",
        "1. [x] biology <!-- e : 1 -->",
        "12) [x] biology <!-- e:01 -->",
        "\t-\t[x]\tBIOLOGY\t<!--\te:1\t-->\t",
        "      - [x] biology <!-- e:1 -->",
        "-\u00a0[x]\u00a0`biology`\u00a0<!--\u00a0e:1\u00a0-->",
        "-[x]biology <!-- e:1 -->",
        "[x] biology <!-- e:1 -->",
        r"- \[x\] biology <!-- e:1 -->",
        "- [х] biology <!-- e:1 -->",
        "- [x] <!-- e:1 -->",
        "<!-- e:1 --> - [x] biology",
        "- [x] biology <!— e:1 —>",
        "> - [x] biology <!-- e:1 -->",
        "- [x] `biology` · Topics · 82% · local",
        "- [x] biology",
        "- [X] Biology.",
        "- biology",
        "#biology",
        "biology",
    ],
)
def test_a_tick_is_understood_however_it_is_written(line):
    assert said(changed((1, line))) == Reading(accepted=frozenset({1}))


@pytest.mark.parametrize("mark", ["-", " - ", "–", "—", "−"])
def test_a_dash_rejects(mark):
    assert said(marked(mark, 1)) == Reading(rejected=frozenset({1}))


def test_a_deleted_line_rejects():
    assert said(changed((1, ""), (5, ""))) == Reading(rejected=frozenset({1, 5}))


@pytest.mark.parametrize(
    "line", ["- [ ] `snake_case` · Topics · 82% · local", r"- [ ] snake\_case", "- snake_case <!-- e:2 -->"]
)
def test_a_line_without_its_comment_or_box_still_waits(line):
    assert said(changed((2, line))) == Reading()


def test_lines_may_move_under_another_note_or_to_the_top():
    moved = line_of(1).replace("[ ]", "[x]")
    for text in (under(SKY, moved, text=changed((1, ""))), moved + "\n" + changed((1, ""))):
        assert said(text).accepted == {1}
        assert said(text).rejected == set()


@pytest.mark.parametrize("change", [str.upper, str.lower, lambda text: text.replace("\n", "\r\n"), lambda text: text.replace("\n", "\r"),
                                    lambda text: text.replace("\n", "\n\n"), lambda text: text.replace("\n- [", "\n* ["),
                                    lambda text: text.replace("\n", "  \n"), lambda text: text.replace(" ", "\u00a0"),
                                    lambda text: "\ufeff" + text, str.rstrip])  # fmt: skip
def test_an_editor_that_reformats_decides_nothing(change):
    assert said(change(SHOWN)) == Reading()
    reading = said(change(marked("x", 1, text=marked("-", 5))))
    assert (reading.accepted, reading.rejected, reading.kept) == ({1}, {5}, ())


def test_an_id_with_different_marks_decides_nothing_and_both_lines_stay():
    ticked = line_of(1).replace("[ ]", "[x]")
    for other in ("[-]", "[ ]"):
        crossed = line_of(1).replace("[ ]", other)
        reading = said(changed((1, f"{ticked}\n{crossed}")))
        assert reading == Reading(kept=(KeptText("Garden.md", f"{ticked}\n{crossed}"),))
        text = again(reading)
        assert (text.count("<!-- e:1 "), text.count(NOT_UNDERSTOOD)) == (2, 1)
        assert said(text) == reading
        assert said(text.replace(crossed + "\n", "")) == Reading(accepted=frozenset({1}))


def test_an_id_that_occurs_twice_with_the_same_mark_is_decided_once():
    ticked = line_of(1).replace("[ ]", "[x]")
    assert said(changed((1, f"{ticked}\n{ticked}"))) == Reading(accepted=frozenset({1}))


@pytest.mark.parametrize(
    "line",
    [
        "- [q] `biology` <!-- e:1 -->",
        "- [xx] `biology` <!-- e:1 -->",
        "- [x] botany <!-- e:1 -->",
        "- ~~biology~~ <!-- e:1 -->",
        "perhaps - [x] biology <!-- e:1 -->",
        "- [x] biology <!-- e:1 --> <!-- e:2 -->",
    ],
)
def test_a_line_that_is_not_understood_stays_marked_and_represents_its_tag(line):
    reading = said(changed((1, line)))
    assert reading == Reading(kept=(KeptText("Garden.md", line),))
    text = again(reading)
    assert line in text
    assert text.count("<!-- e:1 ") == 1
    assert said(text) == reading


def test_a_line_that_an_earlier_version_wrote_is_ours_by_its_seal():
    label = "`biology` · R＆D · 82% · local"
    line = f"- [x] {label} <!-- e:1 {seal(label)} -->"
    assert said(changed((1, line))) == Reading(accepted=frozenset({1}))


def test_what_is_written_behind_a_tag_is_kept_and_the_mark_counts():
    line = line_of(1).replace("[ ]", "[x]").replace(" <!--", " because of page 2 <!--")
    assert said(changed((1, line))) == Reading(
        accepted=frozenset({1}), kept=(KeptText("Garden.md", "because of page 2"),)
    )


# All of the above


def test_the_box_for_all_accepts_what_is_neither_rejected_nor_deleted():
    text = SHOWN.replace("- [ ] all of the above", "- [x] all of the above", 1)
    assert said(text) == Reading(accepted=frozenset({1, 2, 3}))
    text = marked("-", 1, text=changed((2, ""), text=text))
    assert said(text) == Reading(accepted=frozenset({3}), rejected=frozenset({1, 2}))


def test_the_box_for_all_rejects_what_is_not_accepted():
    text = marked("x", 1, text=SHOWN.replace("- [ ] all of the above", "- [-] all of the above", 1))
    assert said(text) == Reading(accepted=frozenset({1}), rejected=frozenset({2, 3}))


def test_the_box_for_all_without_its_comment_is_its_notes():
    text = re.sub(
        r"- \[ \] all of the above <!-- e:\S+ -->\n\n3 more", "- [x] ALL of the above\n\n3 more", SHOWN
    )
    assert said(text) == Reading(accepted=frozenset({4, 5, 6}))


def test_deleting_the_box_for_all_decides_nothing():
    assert said(re.sub(r"- \[ \] all of the above.*\n", "", SHOWN)) == Reading()


def test_the_box_for_all_leaves_words_that_are_new_to_the_taxonomy():
    notes = (QueuedNote("a.md", "A", "", (tag(1, "a"), tag(2, "b"), tag(3, "c", is_new=True))),)
    text = render(notes, 0, PAGE).replace("[ ] all", "[x] all")
    assert said(text, notes) == Reading(accepted=frozenset({1, 2}))


# Tags typed by hand


@pytest.mark.parametrize(
    "line",
    [
        "- [x] worms",
        "- [ ] worms",
        "- worms",
        "* #worms",
        "#worms",
        "worms",
        "  worms  ",
        "- [x] `Worms`",
        "[x] worms,",
    ],
)
def test_a_tag_of_the_vocabulary_belongs_to_the_note_that_it_is_written_under(line):
    assert said(under(GARDEN, line)) == Reading(typed=(("Garden.md", "worms"),))
    assert said(under(SKY, line)) == Reading(typed=(("Night/Sky.md", "worms"),))


def test_the_last_word_of_a_paragraph_is_no_tag():
    reading = said(under(GARDEN, "Ask Tom what he thinks of", "worms"))
    assert reading == Reading(kept=(KeptText("Garden.md", "Ask Tom what he thinks of\nworms"),))


def test_several_tags_and_names_of_several_words_are_taken():
    assert said(under(GARDEN, "#worms, #soil")).typed == (("Garden.md", "worms"), ("Garden.md", "soil"))
    assert said(under(GARDEN, "- [x] Night Sky")).typed == (("Garden.md", "astronomy"),)


@pytest.mark.parametrize("line", ["- [x] mulch", "- mulch", "#mulch"])
def test_a_word_that_is_not_in_the_vocabulary_is_offered(line):
    assert said(under(GARDEN, line)) == Reading(additions=(("Garden.md", "mulch"),))


@pytest.mark.parametrize(
    "line",
    ["mulch", "- [x] not one tag", "- [-] worms", "> worms", "- [x] 123", "A worms farm.", "- [q] worms"],
)
def test_what_is_not_clearly_a_tag_is_kept(line):
    assert said(under(GARDEN, line)) == Reading(kept=(KeptText("Garden.md", line),))


def test_a_tag_that_is_offered_already_is_accepted_by_typing_it():
    assert said(under(GARDEN, "- biology")) == Reading(accepted=frozenset({1}))
    assert said(under(SKY, "- [ ] biology")) == Reading(accepted=frozenset({4}))


def test_typing_a_tag_that_is_rejected_above_is_contradictory():
    text = under(GARDEN, "- worms", "- biology", text=SHOWN)
    reading = said(marked("-", 1, text=text))
    assert (reading.accepted, reading.rejected) == (set(), set())
    assert reading.kept[0].text == f"{line_of(1).replace('[ ]', '[-]')}\n\n- biology"


@pytest.mark.parametrize("before", ["## My own heading", line_of(4)])
def test_a_tag_is_not_taken_where_its_note_is_in_doubt(before):
    reading = said(under(GARDEN, before, "- [x] worms", text=SHOWN))
    assert reading.typed == ()
    assert "- [x] worms" in "\n".join(kept.text for kept in reading.kept)
    assert said(again(reading)).typed == ()


def test_a_tag_of_another_note_without_its_comment_is_neither_accepted_nor_rejected():
    reading = said("- [x] stars\n" + changed((5, "")))
    assert reading == Reading(kept=(KeptText(None, "- [x] stars"),))


def test_the_opening_of_a_note_does_not_swallow_a_tag():
    assert said(under(GARDEN, "Soil")).typed == (("Garden.md", "soil"),)


# What does not belong to the page


def test_ids_of_another_page_act_on_no_other_tag_and_are_reported():
    foreign = [
        line_of(1).replace("e:1 ", f"e:{n} ").replace("[ ]", f"[{m}]")
        for n, m in ((91, "x"), (92, "-"), (93, " "))
    ]
    assert said(under(GARDEN, *foreign)) == Reading(elsewhere={91: True, 92: False})


def test_an_older_page_ticks_but_deletes_nothing():
    older = (QueuedNote("Old.md", "Old", "Older.", (tag(90, "soil"), tag(1, "biology"))),)
    text = render(older, 0, "p6").replace("- [ ] `", "- [x] `")
    reading = said(text)
    assert (reading.accepted, reading.rejected, reading.elsewhere) == ({1}, set(), {90: True})
    assert reading.damaged
    assert reading.kept == ()


def test_lines_that_an_older_version_wrote_are_not_taken_for_a_persons():
    older = re.sub(r"<!-- page:p7.*", "<!-- page:p7 " + "f" * 8 + " -->", SHOWN)
    assert said(older) == Reading()


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1e9", "٣", "0x1"])
def test_an_id_that_is_no_number_is_kept(number):
    line = f"- [x] soil <!-- e:{number} -->"
    assert said(under(GARDEN, line)).kept[0].text == line


# Damage


@pytest.mark.parametrize("at", range(0, len(SHOWN) - 1, 7))
def test_a_file_that_was_cut_rejects_nothing_keeps_ticks_and_says_so(at):
    text = marked("x", 1)
    reading = said(text[:at])
    assert reading.damaged
    assert reading.rejected == set()
    assert reading.accepted <= {1}
    assert not reading.typed
    assert not reading.additions
    reading = said(text[at or 1 :])
    assert reading.damaged
    assert reading.rejected == set()


@given(st.data())
def test_a_file_cut_anywhere_loses_no_words(data):
    text = under(GARDEN, "my own words")
    at = data.draw(st.integers(text.index("my own words") + 12, len(text) - 2))
    assert "my own words" in "\n".join(kept.text for kept in said(text[:at]).kept)


def test_half_of_the_tags_missing_is_damage():
    assert said(changed((1, ""), (2, ""), (3, ""))).damaged
    assert said(changed((1, ""), (2, ""))).damaged is None
    assert said("").damaged


def test_frontmatter_stays_at_the_top():
    text = "---\ncreated: today\n---\n" + SHOWN
    reading = said(text)
    assert reading == Reading(kept=(KeptText("", "---\ncreated: today\n---"),))
    assert again(reading).startswith("---\ncreated: today\n---\n")
    assert said(again(reading)) == reading


def test_a_rule_at_the_top_is_not_frontmatter():
    reading = said("---\n" + under(SKY, "---"))
    assert (reading.rejected, reading.damaged) == (set(), None)
    assert {kept.text for kept in reading.kept} == {"---"}


def test_bytes_that_are_not_utf_8_stay_what_they_are():
    text = under(GARDEN, "caf\udce9 \0 \udcff").replace("<!-- page", "---\na: \udcfe\n---\n<!-- page")
    shown = again(said(text)).encode("utf-8", "surrogateescape")
    assert b"caf\xe9 \0 \xff" in shown
    assert b"a: \xfe" in shown


# A person, at random

PROSE = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=30).map(
    lambda text: f"Perhaps {text} see there"
)
DECISIONS = st.sampled_from(["x", "-", " ", "delete"])
STYLES = st.sampled_from(["{}", "  {}  ", "\t{}", "> {}", "{}\n"])


def rewritten(draw, line, mark):
    """A tag's line as a person or an editor leaves it."""
    box = draw(st.sampled_from([mark, mark.upper(), f" {mark}", f"{mark} "]))
    line = line.replace("[ ]", f"[{box}]")
    styles = [line, line.replace("- [", "* ["), line.upper(), re.sub(r" · .*<", " <", line)]
    return draw(STYLES).format(draw(st.sampled_from(styles)))


@st.composite
def sittings(draw):
    """A page, a person's decisions by id, the text that came of them, and the lines they wrote besides, by note."""
    ids = iter(range(1, 100))
    count = draw(st.integers(1, 4))
    notes = tuple(
        QueuedNote(
            f"N{n}.md",
            f"Note {n}",
            "Some words.",
            tuple(tag(next(ids), f"tag{n}x{i}") for i in range(draw(st.integers(1, 5)))),
        )
        for n in range(count)
    )
    numbers = [tag.id for note in notes for tag in note.tags]
    decided = {number: draw(DECISIONS) for number in numbers}
    deleted = [number for number in numbers if decided[number] == "delete"]
    for number in deleted[max(0, (len(numbers) - 1) // 2) :]:
        decided[number] = "-"
    prose: list[tuple[str, str]] = []
    out: list[str] = []
    moved: list[str] = []
    path = ""
    for line in render(notes, 0, PAGE).split("\n"):
        if line.startswith("## "):
            path = line[5:].partition("|")[0]
        match = re.search(r"<!-- e:(\d+) ", line)
        mark = decided[int(match[1])] if match else None
        if mark == "delete":
            continue
        text = line if mark is None else rewritten(draw, line, mark)
        if mark is not None and draw(st.integers(0, 9)) == 0:
            moved.append(text)
            continue
        out.append(text)
        if (
            path
            and line
            and not line.startswith((">", "##"))
            and draw(st.integers(0, 3)) == 0
            and "<!-- end" not in line
            and "waits" not in line
        ):
            prose.append((path, draw(PROSE)))
            out.append(prose[-1][1])
    text = draw(st.sampled_from(["\n", "\r\n"])).join([*out[:4], *moved, *out[4:]])
    return notes, decided, text, prose


@given(sittings())
def test_whatever_a_person_does_the_decisions_are_theirs_and_every_other_line_stays(sitting):
    notes, decided, text, prose = sitting
    reading = said(text, notes)
    assert reading.damaged is None
    assert reading.accepted == {number for number, mark in decided.items() if mark == "x"}
    assert reading.rejected == {number for number, mark in decided.items() if mark in {"-", "delete"}}
    assert (reading.typed, reading.additions, reading.elsewhere) == ((), (), {})
    kept = {one.path: one.text.split("\n") for one in reading.kept}
    for path, line in prose:
        assert line in kept[path]
    assert sum(len([line for line in lines if line]) for lines in kept.values()) == len(prose)
    for left in (notes, notes[1:], ()):
        shown = render(left, 0, PAGE, kept=reading.kept)
        assert all(line in shown.split("\n") for _, line in prose)
        once = said(shown, left)
        assert render(left, 0, PAGE, kept=once.kept) == shown
        assert (once.accepted, once.rejected, once.damaged) == (set(), set(), None)


LINES = st.lists(
    st.sampled_from(SHOWN.split("\n"))
    | st.sampled_from(
        [
            "- [x] worms",
            "- [q] worms",
            "#mulch",
            "## Mine",
            "> said",
            "---",
            "```",
            "- [ ] ",
            "<!--",
            "-->",
            "<!-- n:1 -->",
        ]
    )
    | HOSTILE.filter(lambda text: not re.search("[\r\n]", text)),
    max_size=30,
)


def words_kept(reading):
    return Counter(line for kept in reading.kept for line in kept.text.split("\n") if line.strip())


@given(LINES, st.booleans())
@example(["<!-- n:word", "-->"], False)  # noqa: FBT003 - as `given` has it
def test_anything_at_all_is_read_and_what_is_kept_never_grows(lines, whole):
    text = "\n".join(lines)
    text = changed((NOTES[0].tags[0].id, text)) if whole else text
    reading = said(text)
    assert not reading.accepted & reading.rejected
    shown = again(reading)
    once = said(shown)
    assert words_kept(once) <= words_kept(reading)
    if words_kept(once) == words_kept(reading):
        assert again(once) == shown
    # A comment of ours that got into a line of the user's is taken out of it.
    unmarked = "\n".join(MARKER.sub("", line) for line in text.split("\n"))
    for kept in reading.kept:
        assert all(MARKER.sub("", line) in unmarked for line in kept.text.split("\n"))
        assert kept.text in shown
