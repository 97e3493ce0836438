"""Refusals of the data path's errors; an error of another kind has none."""

import pytest

from engine.base.errors import (
    Failed,
    MagnetarError,
    NotFound,
    NotReady,
    NotServed,
    PreconditionFailed,
    Refusal,
)
from engine.broker import errors
from engine.broker.administration.refusals import refusal_of


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (errors.TopicNotFound("Namespace not found"), NotFound, "Namespace not found"),
        (errors.ServiceNotReady("being unloaded"), NotReady, "being unloaded"),
        (errors.MetadataError("no such field"), Failed, "no such field"),
        (errors.NotServedHere("moved"), NotServed, "moved"),
        (
            errors.SubscriptionBusy("2 consumers"),
            PreconditionFailed,
            "Failed for Subscription Busy: 2 consumers",
        ),
    ],
)
def test_an_error_of_the_data_path_is_a_refusal_of_its_kind(
    error: MagnetarError, kind: type[Refusal], reason: str
) -> None:
    refusal = refusal_of(error)
    assert refusal is not None
    assert (type(refusal), refusal.reason) == (kind, reason)


def test_an_error_of_another_kind_is_no_refusal() -> None:
    assert refusal_of(MagnetarError("secret detail")) is None
