"""Which proposer gets a note, what leaves the machine, and what a day may cost; over a fake of Anthropic's API."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pipelines.model import Privacy, Suggestion
from pipelines.tagging.claude import HaikuProposer
from pipelines.tagging.propose import Budget, ProposalContext, begin, due, fit_local, propose
from tests.fakes.anthropic_api import KEY, Answer, fake_anthropic
from tests.pipelines.conftest import MAX_BYTES

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TAGGED = "---\ntags: [Soil]\n---\nThe garden soil in winter again."
GOOD = Answer([("soil", 0.9), ("compost", 0.4), ("made-up", 1.0)])


@pytest.fixture
def api():
    with fake_anthropic() as running:
        running.by_default = lambda _: GOOD
        yield running


@pytest.fixture
def context(tagging, api):
    begin(tagging.house.cache, tagging.proposals, "vault")
    house = tagging.house
    with closing(HaikuProposer(KEY, base_url=api.url, timeout_s=0.5)) as haiku:
        yield ProposalContext(
            domain=tagging.domain,
            taxonomy=tagging.context().vocabulary.taxonomy,
            cache=house.cache,
            proposals=tagging.proposals,
            root=house.root,
            max_bytes=MAX_BYTES,
            local=lambda: learn(tagging),
            haiku=haiku,
            budget=Budget(100, 1.0),
        )


def learn(tagging):
    encode = tagging.house.embedder._embedder.encode_documents
    return fit_local(
        tagging.house.cache, tagging.context().vocabulary.taxonomy, lambda texts: list(encode(texts))
    )


def work(context, now=NOW) -> dict[str, int]:
    return propose(
        context, due(context.cache, context.proposals, "vault", now.timestamp(), ("_taxonomy.md",)), now
    )


def test_a_new_note_gets_what_is_proposed_and_in_the_vocabulary(tagging, context, api):
    tagging.note("a.md")
    assert work(context) == {"proposed": 1}
    assert tagging.states("a.md") == {"soil": "waiting", "compost": "waiting"}
    (one, _) = tagging.proposals.of_state(None, "waiting")
    assert (one.group, one.confidence, one.proposer) == ("Garden", 0.9, "claude-haiku-5-5")
    assert work(context) == {}
    assert len(api.requests) == 1


def test_a_tag_that_the_note_has_is_not_proposed(tagging, context):
    tagging.note("a.md", "---\ntags: [SOIL]\n---\nThe garden soil. #compost")
    assert work(context) == {"nothing": 1}
    assert tagging.states("a.md") == {}


@pytest.mark.parametrize(
    "fault",
    [
        Answer(status=429, headers={"retry-after": "90"}),
        Answer(status=529),
        Answer(status=500),
        Answer(how="hang"),
        Answer(how="truncated"),
        Answer(content="{not json"),
    ],
    ids=["429", "529", "500", "hang", "truncated", "malformed"],
)
def test_a_failure_waits_and_is_tried_again(tagging, context, api, fault):
    api.answers.append(fault)
    tagging.note("a.md")
    assert work(context) == {"failed": 1}
    assert tagging.states("a.md") == {}
    wait = 90 if fault.status == 429 else 30
    assert work(context, NOW + timedelta(seconds=wait - 1)) == {}
    assert work(context, NOW + timedelta(seconds=wait)) == {"proposed": 1}
    assert "soil" in tagging.states("a.md")


def test_pauses_grow(tagging, context, api):
    api.by_default = lambda _: Answer(status=529)
    tagging.note("a.md")
    at, pauses = NOW, []
    for _ in range(10):
        work(context, at)
        next_attempt = tagging.proposals.looked_at("vault")["a.md"].next_attempt
        pauses.append(next_attempt - at.timestamp())
        at = datetime.fromtimestamp(next_attempt, UTC)
    assert pauses[:4] == [30, 60, 120, 240]
    assert pauses[-1] == 3600


SECRETS = {
    "marked.md": "---\nprivate: true\n---\nSECRET-marked soil.",
    "unreadable.md": "---\nprivate: [\n---\nSECRET-unreadable soil.",
    "tagged.md": "SECRET-tagged soil. #journal/today",
    "diary/note.md": "SECRET-folder soil.",
}


def test_no_private_note_is_on_the_wire(tagging, context, api):
    context = replace(
        context, domain=replace(context.domain, privacy=Privacy(tags=("journal",), folders=("diary",)))
    )
    for path, text in SECRETS.items():
        tagging.note(path, text)
    tagging.note("open.md", "An open garden.")
    work(context)
    assert len(api.requests) == 1
    assert b"SECRET" not in b"".join(api.bodies)
    assert b"open garden" in b"".join(api.bodies)


def test_a_domain_without_llm_sends_nothing(tagging, context, api):
    tagging.note("a.md")
    work(replace(context, domain=replace(context.domain, privacy=Privacy(llm=False))))
    assert api.requests == []


@pytest.mark.parametrize("budget", [Budget(1, 1.0), Budget(100, 1e-9)])
def test_the_days_budget_is_kept_and_the_rest_waits_for_tomorrow(tagging, context, api, budget):
    context = replace(context, budget=budget)
    tagging.note("a.md")
    tagging.note("b.md")
    assert work(context) == {"proposed": 1, "failed": 1}
    assert work(context, NOW.replace(hour=23)) == {}
    assert work(context, NOW + timedelta(hours=12)) == {"proposed": 1}
    assert len(api.requests) == 2
    assert tagging.proposals.spending.of_day("2026-11-21")[0] == 1
    assert tagging.proposals.spending.of_day("2026-11-21")[1] > 0


def test_a_request_that_fails_counts_against_the_budget(tagging, context, api):
    api.answers.append(Answer(status=500))
    tagging.note("a.md")
    work(context)
    assert tagging.proposals.spending.of_day("2026-11-21")[0] == 1


def test_what_was_proposed_for_a_text_that_is_gone_waits_no_longer(tagging, context, api):
    tagging.note("a.md", "The garden soil is dark, and worms live in it.")
    work(context)
    waiting = {one.tag: one.id for one in tagging.proposals.of_state("vault", "waiting")}
    tagging.proposals.decide([waiting["compost"]], "accepted", NOW.isoformat())
    tagging.proposals.want("vault", "a.md", "typed", "", "accepted", NOW.isoformat())
    api.by_default = lambda _: Answer([])
    tagging.note("a.md", "Minutes of the council: taxes are to be raised by the king.")
    tagging.propose("a.md", "agents")  # for the text of the former note: the hash is another one
    new = context.cache.ledger.settled()["a.md"]
    tagging.proposals.add(
        "vault", "a.md", [(Suggestion("own", 1.0), "")], proposer="agent", note_hash=new, at=NOW.isoformat()
    )
    assert work(context) == {"nothing": 1}
    assert tagging.states("a.md") == {"compost": "waiting", "typed": "accepted", "own": "waiting"}


def test_what_was_proposed_for_a_text_that_changed_a_little_waits_on(tagging, context, api):
    tagging.note("a.md", "The garden soil is dark, and worms live in it.")
    work(context)
    api.by_default = lambda _: Answer([])
    tagging.note("a.md", "The garden soil is dark, and worms live in it. So do beetles.")
    assert work(context) == {}
    assert tagging.states("a.md") == {"soil": "waiting", "compost": "waiting"}


def test_what_the_operator_rejected_is_not_proposed_again(tagging, context):
    tagging.note("a.md")
    work(context)
    tagging.proposals.decide(
        [one.id for one in tagging.proposals.of_state(None, "waiting")], "rejected", "now"
    )
    tagging.proposals.ask("vault", ["a.md"])
    work(context)
    assert tagging.states("a.md") == {"soil": "rejected", "compost": "rejected"}
    assert tagging.proposals.without("vault") == {"a.md": "you rejected what fits: soil, compost"}


@pytest.mark.parametrize(
    ("text", "suggested", "why"),
    [
        ("The garden.", [], "no tag of the vocabulary surely fits it"),
        ("The garden.", [("made-up", 1.0)], "no tag of the vocabulary surely fits it"),
        (TAGGED, [("soil", 0.9)], "it already has the tags that fit: soil"),
        (TAGGED, [], "it already has soil, and no other tag of the vocabulary surely fits it"),
        ("The garden.", [("soil", 0.9)], None),
    ],
)
def test_where_nothing_is_proposed_the_reason_is_kept(tagging, context, api, text, suggested, why):
    api.by_default = lambda _: Answer(suggested)
    tagging.note("a.md", text)
    work(context)
    assert tagging.proposals.without("vault") == ({"a.md": why} if why else {})


def test_without_a_key_the_local_proposer_learns_from_the_vault(tagging, context):
    house = tagging.house
    for n in range(30):
        house.save(f"g{n}.md", f"---\ntags: [soil]\n---\nThe garden soil in winter {n}.")
        house.save(f"b{n}.md", f"---\ntags: [bread]\n---\nFlour and yeast, bread {n}.")
    house.drain()
    begin(house.cache, tagging.proposals, "vault")
    context = replace(context, haiku=None)
    tagging.note("new.md", "The garden soil in winter again.")
    assert work(context) == {"proposed": 1}
    assert tagging.states("new.md") == {"soil": "waiting"}
    tagging.note("tagged.md", TAGGED)
    assert work(context) == {"nothing": 1}
    why = "it already has soil, and no other tag of the vocabulary surely fits it"
    assert tagging.proposals.without("vault") == {"tagged.md": why}


def test_a_note_that_changed_since_it_was_indexed_is_left_for_later(tagging, context, api):
    tagging.note("a.md")
    tagging.house.write("a.md", "Something that is not indexed yet.")
    assert work(context) == {}
    assert api.requests == []
