"""Evidence over HTTP and on the command line: what is kept, what is verified, what has changed since."""

from __future__ import annotations

import json
import re
import shlex
import shutil

import anyio
import pytest
from click.testing import CliRunner
from mcp_types import GetPromptRequestParams
from starlette.testclient import TestClient

from pipelines.question import read_question
from pipelines.search import quotes as citations
from queue_config.settings import Settings
from service.app import create_app
from service.cli.main import app as command
from service.mcp.resources import Prompts
from service.runtime.client import read_token
from service.schemas.evidence import WriteBack
from service.usecases.evidence import Records
from service.usecases.maintenance import index_once
from service.usecases.search import View
from workers.resources import Resources

PORT = 8742
NOTES = {
    "Garden/Soil": "# Soil\n\nHealthy soil sleeps in winter.\n\n## Compost\n\nCompost feeds the soil — “slowly”, in spring.",
    "River": "# River\n\nThe boat is moored where the river bends.",
    "Long": "# Long\n\n" + " ".join(f"compostable{n} word{n}" for n in range(600)),
}
SLEEPS = "Healthy soil sleeps in winter."
FEEDS = 'Compost feeds the soil - "slowly", in spring'


@pytest.fixture
def settings(vault, tmp_path, tiny_model):
    return Settings(vault=vault, state=tmp_path / "state", embedding_model=str(tiny_model))


@pytest.fixture
def index(settings):
    """Bring the index up to date with the disk."""
    return lambda: index_once(Resources(settings), lambda *_: None, confirmed=True)


@pytest.fixture
def written(vault, index):
    """An indexed vault: its folder."""
    for name, text in NOTES.items():
        file = vault / f"{name}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    index()
    return vault


@pytest.fixture
def stranger(written, settings):
    """A program without the token."""
    assert written
    return TestClient(create_app(settings, PORT), base_url=f"http://127.0.0.1:{PORT}")


@pytest.fixture
def program(stranger, settings):
    stranger.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    return stranger


def ask(program, question="soil winter", **more):
    response = program.post("/v1/rx", json={"question": question, **more})
    assert response.status_code == 201
    return response.json()


def write_back(program, record_id, *citations, **more):
    body = {"id": record_id, "citations": list(citations), **more}
    response = program.post("/v1/rx/deep", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def verify(program, *quotes):
    response = program.post("/verify", json={"quotes": list(quotes)})
    assert response.status_code == 200, response.text
    return response.json()


def reasons(answer):
    return [one["citation_reason"] for one in answer.get("citations", answer.get("quotes"))]


def chunk(program, path, position):
    (text,) = [
        c["text"] for n, c in enumerate(program.get(f"/node/{path}").json()["chunks"]) if n == position
    ]
    return text


def hash_in_index(settings, path, position):
    resources = Resources(settings)
    return (
        resources.caches()["vault"]
        .con.execute("SELECT text_hash FROM vault_chunk WHERE path = ? AND position = ?", (path, position))
        .fetchall()[0][0]
    )


# Quotes against the index


def test_a_quote_is_searched_in_every_chunk_of_its_note(program, settings):
    answer = verify(
        program, {"path": "Garden/Soil.md", "quote": SLEEPS}, {"path": "Garden/Soil.md", "quote": FEEDS}
    )
    assert answer["citations_status"] == "all_verified"
    assert [one["text_hash"] for one in answer["quotes"]] == [
        hash_in_index(settings, "Garden/Soil.md", 0),
        hash_in_index(settings, "Garden/Soil.md", 1),
    ]
    assert answer["quotes"][1] | {"text_hash": ""} == {
        "path": "Garden/Soil.md",
        "quote": FEEDS,
        "text_hash": "",
        "citation_verified": True,
        "citation_reason": "match",
        "place": None,
    }


def test_only_a_named_chunk_is_searched(program, settings):
    quote = {"path": "Garden/Soil.md", "quote": SLEEPS}
    first, second = (hash_in_index(settings, "Garden/Soil.md", n) for n in (0, 1))
    answer = verify(
        program,
        quote | {"position": 0},
        quote | {"position": 1},
        quote | {"text_hash": first},
        quote | {"text_hash": second},
    )
    assert reasons(answer) == ["match", "not_found", "match", "not_found"]
    assert [one["citation_verified"] for one in answer["quotes"]] == [True, False, True, False]


def test_each_reason_is_given(program, settings):
    path = "Garden/Soil.md"
    elsewhere = hash_in_index(settings, "River.md", 0)
    answer = verify(
        program,
        {"path": path, "quote": SLEEPS},
        {"path": path, "quote": "Healthy soil never sleeps in winter."},
        {"path": path, "quote": "soil sleeps"},
        {"path": path},
        {"path": path, "quote": SLEEPS, "position": 9},
        {"path": path, "quote": "The boat is moored where", "text_hash": elsewhere},
        {"path": "Nowhere.md", "quote": SLEEPS},
        {"path": "../../etc/passwd", "quote": "root:x:0:0:root:/root"},
    )
    assert reasons(answer) == [
        *("match", "not_found", "too_short", "no_quote"),
        *("no_chunk_text", "no_chunk_text", "no_chunk_text", "no_chunk_text"),
    ]
    assert answer["citations_status"] == "has_mismatch"


def test_nothing_to_verify_is_no_error(program):
    assert verify(program) == {"quotes": [], "citations_status": "no_quotes"}


# A record


def test_a_record_keeps_the_question_its_answers_and_their_passages(program, settings):
    answer = program.get("/search", params={"q": "soil winter", "k": 2}).json()
    search = answer["results"]
    record = ask(program, k=2)
    assert record["match"] == answer["match"]
    assert record["question"] == "soil winter"
    assert (record["citations"], record["citations_status"]) == ([], "no_quotes")
    assert (record["notes"], record["curated_at"]) == (None, None)
    for hit, found in zip(record["evidence"], search, strict=True):
        for name in ("path", "title", "section", "domain", "lines", "excerpt", "score"):
            assert hit[name] == found[name]
        assert hit["text"] == chunk(program, hit["path"], hit["position"])
        assert hit["text_hash"] == hash_in_index(settings, hit["path"], hit["position"])
        assert (hit["source_changed"], hit["source_gone"]) == (False, False)
    assert record["evidence"][0]["path"] == "Garden/Soil.md"
    assert program.get(f"/v1/rx/{record['id']}").json() == record


@pytest.mark.parametrize("number", [0, 150, 300, 599])
def test_of_windows_on_one_line_the_one_that_answered_is_kept(program, number):
    hit = ask(program, f"compostable{number}")["evidence"][0]
    assert hit["path"] == "Long.md"
    assert f"compostable{number} " in hit["text"]


def test_how_well_the_notes_answered_is_kept_where_the_models_cosines_are_judged(vault, tmp_path, tiny_model):
    judged = tmp_path / "all-MiniLM-L6-v2"
    shutil.copytree(tiny_model, judged)
    (vault / "River.md").write_text(NOTES["River"])
    resources = Resources(Settings(vault=vault, state=tmp_path / "state", embedding_model=str(judged)))
    index_once(resources, lambda *_: None)
    questions = View(resources, wait_for_model=True)
    match = questions.search(read_question("river boat"), 10).match
    assert match in ("strong", "weak", "none")
    record = Records(questions).ask("river boat")
    assert record.match == match
    assert Records(questions).show(record.id).match == match


def test_a_question_that_nothing_answers_is_a_record(program):
    assert ask(program, "zzzzzz")["evidence"] == []


def test_a_record_is_asked_of_one_domain_that_must_be_there(program):
    assert ask(program, domain="vault")["domain"] == "vault"
    assert program.post("/v1/rx", json={"question": "soil", "domain": "none"}).status_code == 404
    assert program.get("/v1/rx").json()["count"] == 1


def test_a_curated_result_is_kept_and_verified(program):
    record = ask(program)
    answer = write_back(
        program,
        record["id"],
        {"path": "Garden/Soil.md", "quote": SLEEPS, "text_hash": record["evidence"][0]["text_hash"]},
        {"path": "River.md", "quote": "The boat is moored … the river bends"},
        {"path": "River.md", "quote": "The boat is moored where the river ends"},
        {"path": "River.md"},
        notes="Winter is for sleeping.",
    )
    assert answer["notes"] == "Winter is for sleeping."
    assert answer["curated_at"] is not None
    assert answer["evidence"] == record["evidence"]
    assert reasons(answer) == ["match", "match", "not_found", "no_quote"]
    assert [one["citation_verified"] for one in answer["citations"]] == [True, True, False, False]
    assert answer["citations_status"] == "has_mismatch"
    assert SLEEPS in answer["citations"][0]["text"]
    assert program.get(f"/v1/rx/{record['id']}").json() == answer


def test_a_second_write_back_replaces_the_first(program):
    record = ask(program)["id"]
    write_back(program, record, {"path": "River.md", "quote": "not in there, I fear"}, notes="a")
    answer = write_back(program, record, {"path": "River.md", "quote": "where the river bends"})
    assert (reasons(answer), answer["notes"], answer["citations_status"]) == (["match"], None, "all_verified")


def test_a_citation_of_no_note_blocks_nothing(program):
    answer = write_back(program, ask(program)["id"], {"path": "Nowhere.md", "quote": SLEEPS})
    assert (reasons(answer), answer["citations_status"]) == (["no_chunk_text"], "unverifiable")
    assert (answer["citations"][0]["source_changed"], answer["citations"][0]["text"]) == (None, None)


def test_records_are_listed_and_deleted(program):
    first, second = ask(program, "soil"), ask(program, "river")
    write_back(program, first["id"], {"path": "River.md", "quote": "where the river bends"})
    answer = program.get("/v1/rx").json()
    assert [one["id"] for one in answer["records"]] == [second["id"], first["id"]]
    assert [(one["question"], one["citations"]) for one in answer["records"]] == [("river", 0), ("soil", 1)]
    assert answer["count"] == 2
    assert len(program.get("/v1/rx", params={"limit": 1}).json()["records"]) == 1
    assert program.delete(f"/v1/rx/{first['id']}").json() == {"deleted": first["id"]}
    assert [one["id"] for one in program.get("/v1/rx").json()["records"]] == [second["id"]]
    assert program.get(f"/v1/rx/{first['id']}").status_code == 404


# What became of the notes


def states(answer):
    return [(one["source_changed"], one["source_gone"]) for one in answer["citations"]]


@pytest.fixture
def curated(program):
    """A record with a quote of either note: its id."""
    record = ask(program)
    quotes = [
        {"path": "Garden/Soil.md", "quote": SLEEPS},
        {"path": "River.md", "quote": "where the river bends"},
    ]
    assert states(write_back(program, record["id"], *quotes)) == [(False, False), (False, False)]
    return record["id"]


def test_a_changed_note_is_reported_before_and_after_it_is_indexed_and_its_quote_stays_verified(
    program, curated, written, index
):
    (written / "Garden/Soil.md").write_text("# Soil\n\nNothing of it is left.")
    for step in (lambda: None, index):
        step()
        answer = program.get(f"/v1/rx/{curated}").json()
        assert states(answer) == [(True, False), (False, False)]
        assert answer["citations_status"] == "all_verified"
        assert answer["evidence"][0]["source_changed"] is True
        assert SLEEPS in answer["evidence"][0]["text"]


def test_a_removed_note_is_logged(program, curated, written, index):
    (written / "River.md").unlink()
    for step in (lambda: None, index):
        step()
        answer = program.get(f"/v1/rx/{curated}").json()
        assert states(answer) == [(False, False), (True, True)]
        assert answer["citations_status"] == "all_verified"


def test_a_note_that_is_as_it_was_again_has_not_changed(program, curated, written):
    (written / "River.md").write_text("another")
    (written / "River.md").write_text(NOTES["River"])
    assert states(program.get(f"/v1/rx/{curated}").json())[1] == (False, False)


def test_staleness_is_unknown_while_the_vault_is_unavailable(program, curated, written):
    written.rename(written.with_name("unmounted"))
    answer = program.get(f"/v1/rx/{curated}").json()
    assert states(answer) == [(None, None), (None, None)]
    assert answer["citations_status"] == "all_verified"


def test_a_quote_is_verified_against_what_the_record_kept_although_the_note_changed(program, written, index):
    record = ask(program)
    hit = record["evidence"][0]
    (written / "Garden/Soil.md").write_text("# Soil\n\nA new beginning for the soil.")
    index()
    quote = {"path": "Garden/Soil.md", "quote": SLEEPS}
    answer = write_back(
        program,
        record["id"],
        quote,
        quote | {"text_hash": hit["text_hash"]},
        quote | {"position": hit["position"]},
        {"path": "Garden/Soil.md", "quote": "A new beginning for the soil."},
    )
    assert reasons(answer) == ["match"] * 4
    assert states(answer) == [(True, False)] * 3 + [(False, False)]
    assert reasons(verify(program, quote)) == ["not_found"]


def test_each_passage_of_a_record_is_read_once_however_many_quotes_are_not_in_it(program, monkeypatch):
    record = ask(program)
    quotes = [{"path": "Long.md", "quote": f"a sentence that no note contains, {n}"} for n in range(9)]
    write_back(program, record["id"], *quotes)
    read = []
    monkeypatch.setattr(citations, "_read", lambda passage: read.append(passage) or passage)
    shown = program.get(f"/v1/rx/{record['id']}").json()
    assert reasons(shown) == ["not_found"] * 9
    assert len(read) == len(set(read)) > 1


def test_what_was_not_found_is_not_found_later_either(program, written, index):
    record = ask(program)["id"]
    write_back(program, record, {"path": "River.md", "quote": "the river has no bends at all"})
    (written / "River.md").write_text("# River\n\nthe river has no bends at all")
    index()
    answer = program.get(f"/v1/rx/{record}").json()
    assert (reasons(answer), states(answer)) == (["not_found"], [(True, False)])


# Who may, and how much


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("POST", "/verify"), ("POST", "/v1/rx"), ("POST", "/v1/rx/deep"), ("GET", "/v1/rx")),
        *(("GET", "/v1/rx/x"), ("DELETE", "/v1/rx/x")),
    ],
)
def test_evidence_needs_the_token_and_no_foreign_origin(stranger, settings, method, path):
    assert stranger.request(method, path).status_code == 401
    stranger.headers["Authorization"] = f"Bearer {read_token(settings.state)}"
    assert stranger.request(method, path, headers={"Origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param("/v1/rx", {"question": ""}, id="no question"),
        pytest.param("/v1/rx", {"question": "q" * 4001}, id="a long question"),
        pytest.param("/v1/rx", {"question": "q", "k": 51}, id="many notes"),
        pytest.param("/v1/rx/deep", {"citations": []}, id="no record"),
        pytest.param("/v1/rx/deep", {"id": "x", "citations": [{"path": "a"}] * 201}, id="many citations"),
        pytest.param("/v1/rx/deep", {"id": "x", "notes": "n" * 100_001}, id="long notes"),
        pytest.param("/verify", {"quotes": [{"path": "a", "quote": "q" * 4001}]}, id="a long quote"),
        pytest.param("/verify", {"quotes": [{"quote": "q"}]}, id="no path"),
        pytest.param("/verify", {"quotes": [{"path": "a", "chunk": 1}]}, id="a field that is not known"),
        pytest.param(
            "/verify", {"quotes": [{"path": "a", "position": 1, "text_hash": "h"}]}, id="two chunks"
        ),
        pytest.param("/verify", {"quotes": [{"path": "a", "position": -1}]}, id="no such position"),
        pytest.param("/verify", {"quotes": [{"path": "a"}] * 201}, id="many quotes"),
    ],
)
def test_what_is_too_much_or_not_understood_is_refused(program, path, body):
    assert program.post(path, json=body).status_code == 422
    assert program.get("/v1/rx").json()["count"] == 0


def test_the_most_that_is_allowed_is_taken(program):
    record = ask(program, "q" * 4000)["id"]
    answer = write_back(
        program, record, *[{"path": "Long.md", "quote": "q" * 4000}] * 200, notes="n" * 100_000
    )
    assert reasons(answer) == ["not_found"] * 200


@pytest.mark.parametrize("text", ["\x00\u0301 \ud7ff", "\U0010ffff" * 20, "'; DROP TABLE evidence; --"])
def test_odd_characters_are_kept_as_they_are(program, text):
    record = ask(program, f"soil {text}")
    answer = write_back(program, record["id"], {"path": text, "quote": text}, notes=text)
    assert (answer["question"], answer["notes"]) == (f"soil {text}", text)
    assert answer["citations"][0]["quote"] == text


def test_half_a_character_is_refused(program):
    body = b'{"quotes": [{"path": "\\ud800", "quote": "\\udfff"}]}'
    assert (
        program.post("/verify", content=body, headers={"Content-Type": "application/json"}).status_code == 422
    )


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_record_that_is_not_there_is_named(program, method):
    response = program.request(method, "/v1/rx/none")
    assert response.status_code == 404
    assert "no evidence record 'none'" in response.json()["detail"]


def test_nothing_is_written_back_to_a_record_that_is_not_there(program):
    response = program.post("/v1/rx/deep", json={"id": "none", "notes": "n"})
    assert response.status_code == 404
    assert program.get("/v1/rx").json()["count"] == 0


# The command line


@pytest.fixture
def everindex(written, settings, monkeypatch):
    """Run a command on the vault: exit code and output."""
    monkeypatch.setenv("EMBEDDING_MODEL", str(settings.embedding_model))
    where = ["--vault", str(written), "--state", str(settings.state)]

    def run(*arguments, text=None):
        result = CliRunner().invoke(command, [*arguments, *where], input=text)
        return result.exit_code, result.output

    return run


GOOD = {"path": "Garden/Soil.md", "quote": SLEEPS}
BAD = {"path": "River.md", "quote": "The boat is moored where the river ends"}


@pytest.mark.parametrize(
    ("quotes", "code", "status"),
    [
        ([GOOD], 0, "all_verified"),
        ([GOOD, BAD], 1, "has_mismatch"),
        ([{"path": "Nowhere.md", "quote": SLEEPS}], 1, "unverifiable"),
        ([{"path": "River.md"}], 0, "no_quotes"),
    ],
)
def test_the_exit_code_says_whether_every_quote_is_there(everindex, tmp_path, quotes, code, status):
    forms = [json.dumps(quotes), json.dumps({"quotes": quotes}), "\n".join(map(json.dumps, quotes)) + "\n\n"]
    for number, text in enumerate(forms):
        file = tmp_path / f"quotes{number}"
        file.write_text(text)
        found, output = everindex("evidence", "verify", str(file), "--json")
        assert (found, json.loads(output)["citations_status"]) == (code, status)


def test_quotes_come_from_standard_input_and_are_shown_with_their_reasons(everindex):
    code, output = everindex("evidence", "verify", "-", text=json.dumps([GOOD, BAD]))
    assert code == 1
    assert output.splitlines() == [
        f"match         Garden/Soil.md  {SLEEPS}",
        "not_found     River.md  The boat is moored where the river ends",
        "has_mismatch",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not json", "neither JSON nor JSON lines"),
        ('[{"quote": "x"}]', "path"),
        ("[1]", "quote 1"),
        ('[{"path": "a", "qoute": "x"}]', "qoute"),
    ],
)
def test_a_file_that_is_not_understood_is_a_usage_error(everindex, text, said):
    code, output = everindex("evidence", "verify", "-", text=text)
    assert code == 2
    assert said in output


def test_a_file_that_is_not_there_is_a_usage_error(everindex):
    assert everindex("evidence", "verify", "nowhere.json")[0] == 2


def test_a_record_is_made_shown_listed_and_deleted(everindex, settings, written):
    code, output = everindex("evidence", "new", "soil winter", "-k", "2", "--json")
    assert code == 0
    record = json.loads(output)["id"]
    Records(View(Resources(settings))).write_back(
        WriteBack.model_validate({"id": record, "citations": [GOOD, BAD], "notes": "[bold]n"})
    )
    (written / "River.md").unlink()
    (written / "Garden/Soil.md").write_text("new")
    code, output = everindex("evidence", "show", record)
    assert code == 0
    assert f"{record}  soil winter" in output
    assert f"match         Garden/Soil.md  (changed since)  {SLEEPS}" in output
    assert "not_found     River.md  (gone since)" in output
    assert "[bold]n" in output
    assert json.loads(everindex("evidence", "show", record, "--json")[1])["id"] == record
    assert record in everindex("evidence", "list")[1]
    assert everindex("evidence", "delete", record)[0] == 0
    assert json.loads(everindex("evidence", "list", "--json")[1]) == {"records": [], "count": 0}


def test_what_the_prompt_for_deep_retrieval_has_an_agent_run_works(everindex):
    """Each command of the prompt is run as it stands, on a record, and the result that it asks for is kept."""
    record = json.loads(everindex("evidence", "new", "soil winter", "--json")[1])["id"]
    asked = GetPromptRequestParams(name="deep-retrieve", arguments={"record": record})
    (message,) = anyio.run(Prompts().get, None, asked).messages
    words = str(message.content.text)  # type: ignore[union-attr]
    commands = [shlex.split(one) for one in re.findall(r"`everindex ([^`]+)`", words)]
    assert [" ".join(one[:2]) for one in commands] == ["evidence show", f"deep {record}", "evidence write"]
    show, deep, write = commands
    assert json.loads(everindex(*show)[1])["question"] == "soil winter"
    (part,) = json.loads(everindex(*deep)[1])["domains"]
    assert {"nodes", "dropped"} <= part["deep"].keys()
    example = re.search(r"with (\{.*?\}) as its input", words.replace("\n", " "))[1]
    result = example.replace('"path": …, "quote": …', f'"path": "{GOOD["path"]}", "quote": "{GOOD["quote"]}"')
    code, output = everindex(*write, "--json", text=result.replace("…", '"Winter is for sleeping."'))
    assert code == 0, output
    kept = json.loads(everindex(*show)[1])
    assert (kept["citations_status"], kept["notes"]) == ("all_verified", "Winter is for sleeping.")
    assert f"{GOOD['path']}  {SLEEPS}" in everindex(*write, text=json.dumps({"citations": [GOOD]}))[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "not an object"),
        ("3", "not an object"),
        ('{"citation": []}', "citation: Extra"),
        ('{"id": "b"}', "of the record b"),
    ],
)
def test_a_result_that_is_not_understood_is_a_usage_error(everindex, text, said):
    code, output = everindex("evidence", "write", "0123456789ab", "-", text=text)
    assert (code, said in output) == (2, True), output
