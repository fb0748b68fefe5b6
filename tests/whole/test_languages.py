"""The README's two commands on a German and on a Chinese vault, with nothing set: `up`, then `search`."""

import pytest

from pipelines.embedding.models import MULTILINGUAL_MODEL
from tests.whole.conftest import User

GERMAN = {
    "Tomaten.md": "Tomaten setze ich erst nach den Eisheiligen ins Freie, weil ein einziger Nachtfrost sie tötet. Ich gieße nur am Boden, nie über die Blätter.",
    "Sauerteig.md": "Den Sauerteig füttere ich jeden Abend mit Roggenmehl und lauwarmem Wasser. Nach acht Stunden ist er reif, und das Brot geht ohne Hefe auf.",
    "Fahrrad.md": "Die Kette reinige ich mit einem Lappen und etwas Petroleum und öle danach jedes Glied einzeln. Nach tausend Kilometern messe ich, wie weit sie sich gelängt hat.",
    "Steuern.md": "Die Belege für das Finanzamt sammle ich in einem Ordner, nach Monaten sortiert. Das Arbeitszimmer kann ich nur absetzen, wenn ich es für nichts anderes nutze.",
    "Bienen.md": "Gegen die Milben verdampfe ich im Dezember Oxalsäure, wenn das Volk keine Brut mehr hat. Vorher zähle ich, wie viele Milben am Tag auf das Brett fallen.",
    "Schlaf.md": "Wenn ich nachts wach liege, stehe ich auf und lese im anderen Zimmer, bis ich müde bin. Kaffee trinke ich nur noch bis zum Mittag.",
}
CHINESE = {
    "番茄.md": "番茄要等最后一次霜冻过去以后才移到室外，一夜的霜就会把它冻死。浇水只浇在土里，不要淋到叶子。",
    "酸面团.md": "每天晚上我用黑麦粉和温水喂养酸面团，八个小时以后就成熟了，做面包不需要酵母。",
    "自行车.md": "我用布和一点煤油清洁链条，然后给每一节上油。骑了一千公里以后要测量链条拉长了多少。",
    "报税.md": "给税务局的票据我按月份放在一个文件夹里。书房只有在不做其他用途的时候才可以抵税。",
    "蜜蜂.md": "十二月蜂群没有幼虫的时候，我用草酸熏蒸来对付螨虫，之前先数每天落在板上的螨虫有多少。",
    "睡眠.md": "夜里醒着睡不着的时候，我就起来到另一个房间看书，直到困了为止。咖啡只在中午以前喝。",
}
ASKED = {
    "de": (
        GERMAN,
        {
            "Wann darf ich Tomaten nach draußen pflanzen?": "Tomaten.md",
            "Wie oft muss man Sauerteig füttern?": "Sauerteig.md",
            "Was tun gegen Milben bei den Bienen?": "Bienen.md",
        },
        {
            "Ab wann dürfen die Pflänzchen nach draußen?": "Tomaten.md",
            "Was hilft gegen Schlaflosigkeit?": "Schlaf.md",
            "Wie pflege ich den Antrieb meines Rads?": "Fahrrad.md",
            "Parasiten im Bienenstock bekämpfen": "Bienen.md",
        },
        (
            "Wer gewann 1974 die Weltmeisterschaft im Fußball?",
            "Installation eines Druckertreibers unter Windows",
        ),
    ),
    "zh": (
        CHINESE,
        {
            "番茄什么时候可以移到室外种植？": "番茄.md",
            "酸面团多久喂一次？": "酸面团.md",
            "怎么对付蜂群里的螨虫？": "蜜蜂.md",
        },
        {
            "失眠怎么办？": "睡眠.md",
            "单车传动系统的保养": "自行车.md",
            "怎么消灭蜂箱里的寄生虫": "蜜蜂.md",
        },
        ("一九七四年世界杯足球赛谁赢了？", "如何在电脑上安装打印机驱动程序"),
    ),
}


@pytest.fixture(scope="module", params=ASKED)
def asked(request, tmp_path_factory):
    notes, *questions = ASKED[request.param]
    base = tmp_path_factory.mktemp(request.param)
    root = base / "notes"
    root.mkdir()
    for name, text in notes.items():
        (root / name).write_text(f"# {name.removesuffix('.md')}\n\n{text}\n", encoding="utf-8")
    user = User(base, root)
    user.up()
    yield user, *questions
    user.stop()


def test_the_multilingual_model_is_chosen(asked):
    user, *_ = asked
    (domain,) = user.json("status")["domains"].values()
    assert domain["model"] == MULTILINGUAL_MODEL


def test_questions_in_the_notes_language_find_the_right_note(asked):
    user, questions, _, _ = asked
    answers = {question: user.json("search", question) for question in questions}
    assert {question: one["results"][0]["path"] for question, one in answers.items()} == questions
    assert "none" not in {one["match"] for one in answers.values()}


def test_questions_in_other_words_find_the_right_note_first(asked):
    user, _, paraphrases, _ = asked
    found = {question: user.json("search", question)["results"][0]["path"] for question in paraphrases}
    assert found == paraphrases


def test_the_notes_do_not_answer_nonsense(asked):
    user, _, _, nonsense = asked
    assert {user.json("search", question)["match"] for question in nonsense} <= {"none", None}
