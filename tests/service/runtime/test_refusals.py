"""A service's refusal becomes the error that the use case would have raised here."""

from __future__ import annotations

import pytest

from pipelines.errors import (
    FilterError,
    NotComparableError,
    NoteNotFoundError,
    NotFoundError,
    ServiceError,
    WorkerTimeoutError,
)
from service.runtime.refusals import refusal

KNOWN = {"path": "a.md", "state": "parked", "reason": "it is too large"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, NotFoundError), (409, NotComparableError), (422, FilterError), (504, WorkerTimeoutError)],
)
def test_a_status_of_a_use_case_becomes_its_error_with_the_same_words(status, kind):
    error = refusal("http://here", status, "there is no domain 'nope'")
    assert type(error) is kind
    assert str(error) == "there is no domain 'nope'"


def test_any_other_status_names_the_address_and_what_it_answered():
    error = refusal("http://here", 503, "busy")
    assert type(error) is ServiceError
    assert str(error) == "the service at http://here answered 503: busy"


@pytest.mark.parametrize(("reason", "said"), [("it is too large", ": it is too large"), (None, "")])
def test_an_unknown_note_is_reported_with_its_state(reason, said):
    known = KNOWN | {"reason": reason}
    error = refusal("http://here", 404, known)
    assert isinstance(error, NoteNotFoundError)
    assert str(error) == f"a.md is parked{said}"
    assert error.why == known


def test_half_a_state_is_no_note():
    assert type(refusal("http://here", 404, {"path": "a.md"})) is NotFoundError
