"""Refusals: each kind has a code of its own by which it is made again."""

import pytest

from engine.base import errors
from engine.base.errors import (
    AlreadyExists,
    Conflict,
    Failed,
    InvalidField,
    Refusal,
    UnusableField,
    refusal,
)

WITH_FIELDS = (Refusal, InvalidField, UnusableField)
"""The base, and kinds that the RPC makes again as their base."""
KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, Refusal) and kind not in WITH_FIELDS
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_made_again_from_its_code(kind: type[Refusal]) -> None:
    again = refusal(kind.code, "why")
    assert type(again) is kind
    assert (again.reason, str(again)) == ("why", "why")


def test_only_what_may_pass_by_itself_is_worth_a_retry() -> None:
    assert [kind.code for kind in KINDS if kind.retriable] == ["not_ready", "not_served"]


def test_an_unknown_code_becomes_a_failure_that_names_it() -> None:
    error = refusal("tomorrows", "why")
    assert type(error) is Failed
    assert error.reason == "refused as 'tomorrows': why"


def test_a_field_travels_as_an_invalid_request() -> None:
    assert type(refusal(InvalidField.code, "nth: missing")) is errors.InvalidRequest
    assert InvalidField("nth", "missing").reason == "nth: missing"
    assert issubclass(AlreadyExists, Conflict)
