"""A chain of endpoints over real HTTP to a fake server: what it sends, what it believes, and what it does then."""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack, closing

import numpy as np
import pytest

from pipelines.embedding.endpoints import EmbeddingEndpoint
from pipelines.embedding.remote import (
    BATCH,
    PROBES,
    RemoteEmbedder,
    ask_dimension,
    describe_remote,
)
from pipelines.errors import BadVectorError, ModelUnavailableError
from tests.fakes.embedding_api import (
    BROKEN,
    BUSY,
    DIMENSION,
    DROPPED,
    HANG,
    KEY,
    LONGER,
    MODEL,
    NAN,
    NO_JSON,
    NULL,
    ONE_LESS,
    OTHER_MODEL,
    TOO_LARGE,
    TRUNCATED,
    ZERO,
    Reply,
    fake_embedding,
    vector_of,
)

TEXTS = ["river clay", "frozen river", "a boat"]


class Ledger:
    """What the chain told, and an index that keeps its probes."""

    def __init__(self, probes=None):
        self.kept = probes
        self.uses = []
        self.problems = {}
        self.spendable = True

    def agreed(self, probes):
        if self.kept is None:
            self.kept = probes
        return self.kept

    def may_spend(self):
        return self.spendable

    def used(self, use):
        self.uses.append(use)

    def said(self, endpoint, problem):
        self.problems[endpoint] = problem


class Clock:
    """A clock that only waiting moves."""

    def __init__(self):
        self.now = 1000.0
        self.waits = []

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def stack():
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def chain(stack, clock, ledger):
    """Return a function that makes a chain of fakes."""

    def make(*fakes, dimension=DIMENSION, name=MODEL, **given):
        found = []
        for number, fake in enumerate(fakes):
            one = {"url": f"{fake.url}/v1", "key": fake.key, "model": fake.model, **given}
            found.append(EmbeddingEndpoint(name=f"e{number}", **one))
        made = RemoteEmbedder(describe_remote(name, dimension), found, ledger, clock=clock, wait=clock.wait)
        return stack.enter_context(closing(made))

    return make


@pytest.fixture
def server(stack):
    return stack.enter_context(fake_embedding())


@pytest.fixture
def second(stack):
    return stack.enter_context(fake_embedding())


@pytest.fixture
def quick(monkeypatch):
    """A server that hangs costs little time."""
    for name in ("DOCUMENT_SECONDS", "QUESTION_SECONDS", "_PROBE_SECONDS"):
        monkeypatch.setattr(f"pipelines.embedding.remote.{name}", 0.3)


def expected(texts=TEXTS):
    return np.array([vector_of(text) for text in texts], np.float32)


def same(found, texts=TEXTS):
    return found.shape == (len(texts), DIMENSION) and np.allclose(found, expected(texts), atol=1e-5)


# What is sent


def test_texts_come_back_as_unit_vectors_in_their_order(chain, server):
    assert same(chain(server).encode_documents(TEXTS))


def test_the_same_by_ollamas_protocol(chain, server):
    assert same(chain(server, url=server.url, kind="ollama").encode_documents(TEXTS))


def test_vectors_are_made_as_long_as_one(chain, server):
    server.by_default = lambda _: Reply(spoil=lambda rows: [[30 * n for n in row] for row in rows])
    assert same(chain(server).encode_documents(TEXTS))


def test_every_batch_has_at_most_64_texts_and_a_probe(chain, server):
    texts = [f"note {n}" for n in range(BATCH + 2)]
    assert same(chain(server).encode_documents(texts), texts)
    admission, *batches = [request["input"] for request in server.requests]
    assert admission == list(PROBES)
    assert [len(batch) for batch in batches] == [BATCH + 1, 3]
    assert all(batch[0] in PROBES for batch in batches)


def test_no_text_needs_no_request_but_the_first(chain, server):
    assert chain(server).encode_documents([]).shape == (0, DIMENSION)
    assert server.requests == []


def test_a_key_is_sent_to_its_endpoint_and_shown_nowhere(chain, stack, caplog, ledger):
    caplog.set_level(logging.DEBUG)
    server = stack.enter_context(fake_embedding(key=KEY))
    embedder = chain(server)
    embedder.encode_documents(TEXTS)
    assert set(server.keys) == {KEY}
    server.by_default = lambda _: Reply(status=403)
    with pytest.raises(ModelUnavailableError) as caught:
        embedder.encode_documents(TEXTS)
    said = f"{caught.value}{embedder.info}{embedder._links}{ledger.problems}{caplog.text}"
    assert KEY not in said
    assert not any(text in said for text in TEXTS)


def test_what_is_no_unicode_is_replaced(chain, server):
    chain(server).encode_documents(["a \ud800 b"])
    assert server.texts[-1] == "a ? b"


@pytest.mark.parametrize(
    ("name", "question", "passage"),
    [
        ("intfloat/multilingual-e5-small", "query: soil", "passage: soil"),
        ("nomic-embed-text:latest", "search_query: soil", "search_document: soil"),
        ("text-embedding-3-small", "soil", "soil"),
        ("the5th-model", "soil", "soil"),
    ],
)
def test_questions_and_passages_have_the_prefixes_of_the_models_family(
    chain, server, name, question, passage
):
    embedder = chain(server, name=name)
    embedder.encode_query("soil")
    embedder.encode_documents(["soil"])
    assert [request["input"][-1] for request in server.requests[1:]] == [question, passage]


def test_the_same_question_is_asked_once(chain, server):
    embedder = chain(server)
    first = embedder.encode_query("soil")
    asked = len(server.requests)
    assert embedder.encode_query("soil") is first
    assert len(server.requests) == asked
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0


def test_a_dimension_is_asked_of_the_first_endpoint_that_answers(server, second):
    endpoints = [EmbeddingEndpoint("e0", f"{one.url}/v1", MODEL) for one in (server, second)]
    server.replies.append(BROKEN)
    assert ask_dimension(MODEL, endpoints) == DIMENSION
    server.replies.append(BROKEN)
    second.replies.append(BROKEN)
    with pytest.raises(ModelUnavailableError, match=r"HTTP 500.*give `dimension`"):
        ask_dimension(MODEL, endpoints)


# Which endpoint is believed


def test_the_first_endpoint_that_answers_defines_the_probes_of_a_new_index(chain, server, ledger):
    chain(server).connect()
    assert np.allclose(ledger.kept, expected(PROBES), atol=1e-5)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (OTHER_MODEL, "another model; correct it"),
        (LONGER, "vectors of 17 numbers, and the index has 16"),
        (NAN, "zero or not finite"),
        (NULL, "zero or not finite"),
        (ZERO, "zero or not finite"),
        (ONE_LESS, "vectors for"),
        (NO_JSON, "cannot be read"),
        (Reply(body=b'{"data": [1, 2, 3]}'), "cannot be read"),
        (Reply(spoil=lambda rows: [[row, row] for row in rows]), "a vector per token"),
        (Reply(body=b"[" * 100_000), "cannot be read"),
        (TOO_LARGE, "an answer of more than"),
        (DROPPED, "no answer"),
        (TRUNCATED, "no answer"),
        (BROKEN, "HTTP 500"),
        (BUSY, "HTTP 429"),
        (Reply(status=401), "HTTP 401; check its key"),
        (Reply(status=404), "HTTP 404; check its url and model"),
    ],
)
@pytest.mark.parametrize("when", ["at once", "midway"])
def test_a_fault_closes_the_endpoint_and_the_next_one_embeds(
    chain, server, second, ledger, fault, reason, when
):
    ledger.kept = expected(PROBES)
    embedder = chain(server, second)
    if when == "midway":
        assert same(embedder.encode_documents(TEXTS))
        assert embedder.device == "e0"
    server.by_default = lambda _: fault
    assert same(embedder.encode_documents(["soil", *TEXTS]), ["soil", *TEXTS])
    assert embedder.device == "e1"
    assert reason in ledger.problems["e0"]
    assert "it is tried again at" in ledger.problems["e0"]
    assert ledger.problems["e1"] is None


def test_a_redirection_is_not_followed(chain, server, second):
    server.by_default = lambda _: Reply(status=307, headers={"location": f"{second.url}/v1/embeddings"})
    with pytest.raises(ModelUnavailableError, match="HTTP 307; correct its url"):
        chain(server).encode_documents(TEXTS)
    assert second.requests == []


@pytest.mark.usefixtures("quick")
def test_an_endpoint_that_hangs_is_left(chain, server, second, ledger):
    server.by_default = lambda _: HANG
    assert same(chain(server, second).encode_documents(TEXTS))
    assert "no answer within" in ledger.problems["e0"]


def test_an_endpoint_that_dies_midway_is_left(chain, server, second):
    embedder = chain(server, second)
    embedder.encode_documents(TEXTS)
    server.die()
    assert same(embedder.encode_documents(["soil"]), ["soil"])


def test_without_an_endpoint_that_can_be_used_the_error_names_each(chain, server, second):
    server.by_default = second.by_default = lambda _: BROKEN
    with pytest.raises(ModelUnavailableError, match=r"e0: HTTP 500, again at .*e1: HTTP 500, again at"):
        chain(server, second).connect()


# Patience


def test_a_passing_failure_is_tried_again_after_5_and_15_seconds(chain, server, clock):
    embedder = chain(server)
    embedder.connect()
    server.replies.extend([DROPPED, DROPPED])
    assert same(embedder.encode_documents(TEXTS))
    assert clock.waits == [5, 15]


def test_a_server_that_asks_to_wait_is_waited_for(chain, server, clock):
    embedder = chain(server)
    embedder.connect()
    server.replies.append(BUSY)
    assert same(embedder.encode_documents(TEXTS))
    assert clock.waits == [7]


def test_a_server_that_asks_to_wait_long_is_closed_for_as_long(chain, server, clock):
    embedder = chain(server)
    embedder.connect()
    server.replies.append(Reply(status=429, headers={"retry-after": "120"}))
    with pytest.raises(ModelUnavailableError):
        embedder.encode_documents(TEXTS)
    assert clock.waits == []
    clock.now += 119
    with pytest.raises(ModelUnavailableError):
        embedder.encode_documents(TEXTS)
    clock.now += 2
    assert same(embedder.encode_documents(TEXTS))


def test_what_cannot_pass_is_not_tried_again_at_once(chain, server, clock):
    embedder = chain(server)
    embedder.connect()
    server.replies.append(Reply(status=401))
    with pytest.raises(ModelUnavailableError):
        embedder.encode_documents(TEXTS)
    assert clock.waits == []


def test_an_endpoint_that_keeps_failing_is_closed_for_30_seconds_doubling_to_10_minutes(chain, server, clock):
    server.by_default = lambda _: BROKEN
    embedder = chain(server)
    closed = []
    for _ in range(7):
        with pytest.raises(ModelUnavailableError):
            embedder.connect()
        asked, began = len(server.requests), clock.now
        while len(server.requests) == asked:
            clock.now += 1
            with pytest.raises(ModelUnavailableError):
                embedder.connect()
        closed.append(clock.now - began)
        clock.now = embedder._links[0].closed_until
    assert closed[0] == 30
    assert closed == sorted(closed)
    assert max(closed) == 600


def test_the_first_endpoint_is_used_again_when_it_works_again(chain, server, second, clock, ledger):
    embedder = chain(server, second)
    embedder.connect()
    server.replies.append(NO_JSON)
    embedder.encode_documents(TEXTS)
    assert embedder.device == "e1"
    clock.now += 31
    embedder.connect()
    assert embedder.device == "e0"
    assert ledger.problems == {"e0": None, "e1": None}


def test_an_endpoint_that_embeds_between_two_failures_is_not_closed_for_longer(chain, server, clock):
    embedder = chain(server)
    for _ in range(3):
        embedder.connect()
        embedder.encode_documents(TEXTS)
        server.replies.append(NO_JSON)
        with pytest.raises(ModelUnavailableError):
            embedder.encode_documents(TEXTS)
        assert embedder._links[0].closed_until == clock.now + 30
        clock.now += 31


# A text's fault or the server's


def test_a_text_that_is_too_long_for_the_server_is_embedded_by_its_beginning(chain, server):
    server.by_default = lambda texts: Reply(status=400) if max(map(len, texts)) > 2_000 else Reply()
    long = "river " * 1_000
    texts = [*TEXTS, long, "soil"]
    assert same(chain(server).encode_documents(texts), [*TEXTS, long[:1500], "soil"])


@pytest.mark.usefixtures("quick")
def test_a_slow_server_gets_smaller_batches(chain, server):
    texts = [f"note {n}" for n in range(8)]
    server.by_default = lambda texts: HANG if len(texts) > 3 else Reply()
    embedder = chain(server)
    assert same(embedder.encode_documents(texts), texts)
    asked = len(server.requests)
    assert same(embedder.encode_documents(texts), texts)
    assert [len(request["input"]) - 1 for request in server.requests[asked:]] == [2, 2, 2, 2]


def test_a_text_that_no_endpoint_embeds_is_a_bad_one_while_a_probe_is_embedded(chain, server, second):
    def picky(texts):
        return Reply(status=500) if "poison" in texts else Reply()

    server.by_default = second.by_default = picky
    embedder = chain(server, second)
    with pytest.raises(BadVectorError, match="one of this note"):
        embedder.encode_documents(["poison"])
    assert same(embedder.encode_documents(TEXTS))
    second.by_default = lambda _: Reply()
    assert same(embedder.encode_documents(["poison"]), ["poison"])


def _spoil_poison(texts):
    at = texts.index("poison") if "poison" in texts else None
    return Reply(spoil=lambda rows: [[0.0] * len(row) if i == at else row for i, row in enumerate(rows)])


def test_a_zero_vector_for_one_text_alone_is_the_texts_fault(chain, server):
    server.by_default = _spoil_poison
    embedder = chain(server)
    with pytest.raises(BadVectorError):
        embedder.encode_documents([*TEXTS, "poison"])
    assert same(embedder.encode_documents(TEXTS))
    assert not embedder.is_broken


def test_a_zero_vector_that_does_not_come_again_is_nobodys_fault(chain, server):
    embedder = chain(server)
    embedder.connect()
    server.replies.append(Reply(spoil=lambda rows: [*rows[:-1], [0.0] * len(rows[-1])]))
    assert same(embedder.encode_documents(TEXTS))


def test_several_bad_vectors_are_the_servers_fault(chain, server):
    embedder = chain(server)
    embedder.connect()
    server.by_default = lambda _: Reply(spoil=lambda rows: rows[:1] + [[0.0] * len(row) for row in rows[1:]])
    with pytest.raises(ModelUnavailableError, match="3 of 3 vectors"):
        embedder.encode_documents(TEXTS)


# Questions


@pytest.mark.usefixtures("quick")
def test_a_question_has_two_seconds_and_closes_nothing_that_is_slow_once(chain, server):
    embedder = chain(server)
    embedder.connect()
    server.replies.append(HANG)
    with pytest.raises(ModelUnavailableError, match="within"):
        embedder.encode_query("soil")
    assert np.allclose(embedder.encode_query("soil"), vector_of("soil"), atol=1e-5)


@pytest.mark.usefixtures("quick")
def test_an_endpoint_that_is_slow_for_three_questions_is_closed(chain, server):
    embedder = chain(server)
    embedder.connect()
    server.by_default = lambda _: HANG
    for _ in range(3):
        with pytest.raises(ModelUnavailableError):
            embedder.encode_query("soil")
        embedder._questions.submit(int).result()
        for thread in embedder._questions._threads:
            thread.join(0.1)
    assert embedder.is_broken


def test_a_question_is_answered_by_the_next_endpoint_at_once(chain, server, second, clock):
    embedder = chain(server, second)
    embedder.connect()
    server.replies.append(BROKEN)
    assert np.allclose(embedder.encode_query("soil"), vector_of("soil"), atol=1e-5)
    assert clock.waits == []


def test_a_question_takes_no_time_for_closed_endpoints_while_one_is_open(chain, server, second, clock):
    embedder = chain(server, second)
    embedder.connect()
    server.replies.append(BROKEN)
    embedder.encode_query("soil")
    clock.now += 1000
    asked = len(server.requests)
    embedder.encode_query("boat")
    assert len(server.requests) == asked


def test_another_models_vector_answers_no_question(chain, server):
    embedder = chain(server)
    embedder.connect()
    server.by_default = lambda _: OTHER_MODEL
    with pytest.raises(ModelUnavailableError, match="another model"):
        embedder.encode_query("soil")
    assert embedder.is_broken


# Private texts


def private_chain(stack, ledger, clock, server, second):
    endpoints = [
        EmbeddingEndpoint("cloud", f"{server.url}/v1", MODEL),
        EmbeddingEndpoint("here", f"{second.url}/v1", MODEL, local=True),
    ]
    made = RemoteEmbedder(describe_remote(MODEL, DIMENSION), endpoints, ledger, clock=clock, wait=clock.wait)
    return stack.enter_context(closing(made))


def test_private_texts_and_sentences_go_to_local_endpoints_alone(stack, ledger, clock, server, second):
    embedder = private_chain(stack, ledger, clock, server, second)
    assert same(embedder.encode_documents(TEXTS, private=True))
    assert same(embedder.encode_queries(["a sentence"]), ["a sentence"])
    assert not {*TEXTS, "a sentence"} & set(server.texts)
    second.by_default = lambda _: NO_JSON
    with pytest.raises(ModelUnavailableError):
        embedder.encode_documents(TEXTS, private=True)
    assert not set(TEXTS) & set(server.texts)
    assert not embedder.has_local
    assert same(embedder.encode_documents(TEXTS))


def test_without_a_local_endpoint_private_texts_go_nowhere(chain, server):
    embedder = chain(server)
    with pytest.raises(ModelUnavailableError, match="is marked `local: true`"):
        embedder.encode_documents(TEXTS, private=True)
    assert not set(TEXTS) & set(server.texts)


# Money


def test_a_request_is_counted_with_its_cost(chain, server, ledger):
    embedder = chain(server, usd_per_million_tokens=2.0)
    embedder.encode_documents(TEXTS)
    admission, batch = ledger.uses
    assert (admission.texts, batch.texts, batch.failures) == (0, 3, 0)
    tokens = sum(len(text.split()) for text in server.requests[1]["input"])
    assert batch.tokens == tokens
    assert batch.dollars == pytest.approx(2.0 * tokens / 1e6)
    server.by_default = lambda _: NO_JSON
    with pytest.raises(ModelUnavailableError):
        embedder.encode_documents(TEXTS)
    assert (ledger.uses[-1].failures, ledger.uses[-1].texts) == (1, 0)


@pytest.mark.parametrize(
    "usage", [None, {}, {"total_tokens": -5}, {"total_tokens": "many"}, {"total_tokens": True}]
)
def test_tokens_that_a_server_does_not_count_are_estimated(chain, server, ledger, usage):
    def as_told(rows):
        return rows

    embedder = chain(server, usd_per_million_tokens=2.0)
    embedder.connect()
    texts = [PROBES[0], "x" * 400]
    data = [{"index": i, "embedding": vector_of(text).tolist()} for i, text in enumerate(texts)]
    server.replies.append(Reply(body=json.dumps({"data": data, "usage": usage}).encode(), spoil=as_told))
    embedder.encode_documents(texts[1:])
    assert 100 <= ledger.uses[-1].tokens <= 120


def test_at_the_days_limit_only_what_is_free_embeds(stack, ledger, clock, server, second):
    endpoints = [
        EmbeddingEndpoint("paid", f"{server.url}/v1", MODEL, usd_per_million_tokens=1.0),
        EmbeddingEndpoint("free", f"{second.url}/v1", MODEL),
    ]
    embedder = RemoteEmbedder(
        describe_remote(MODEL, DIMENSION), endpoints, ledger, clock=clock, wait=clock.wait
    )
    stack.enter_context(closing(embedder))
    embedder.connect()
    ledger.spendable = False
    assert same(embedder.encode_documents(TEXTS))
    assert not set(TEXTS) & set(server.texts)
    assert "the day's limit is reached (the setting `usd_a_day`)" in ledger.problems["paid"]
    assert "again at 00:00:0" in ledger.problems["paid"]


def test_tokens_are_estimated_by_characters(chain, server):
    assert chain(server).count_tokens(["", "abcd", "abcde"]) == [1, 1, 2]
