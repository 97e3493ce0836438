"""Unexpected failures: the caller receives no details, the log has all of them, under one id."""

import logging
from pathlib import Path
from typing import Any

import pytest

from engine.base import errors
from engine.base.errors import InvalidField, Refusal, UnusableField
from engine.metadata.store import StoreUnavailableError
from gateway.http.errors import describe
from gateway.http.view import RestView
from gateway.jobs import services
from tests.support.admin.gateway_client import Gateway

STATUSES = {
    "InvalidRequest": 400,
    "Forbidden": 403,
    "NotFound": 404,
    "Unsupported": 405,
    "NotAcceptable": 406,
    "Conflict": 409,
    "AlreadyExists": 409,
    "PreconditionFailed": 412,
    "Unprocessable": 422,
    "Failed": 500,
    "NotBuilt": 501,
    "NotReady": 503,
    "NotServed": 503,
}


def test_every_kind_of_refusal_has_its_status_and_keeps_its_reason() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    statuses = {
        kind.__name__: describe(kind("why"))
        for kind in kinds
        if issubclass(kind, Refusal) and kind is not Refusal and not issubclass(kind, InvalidField)
    }
    assert statuses == {name: (status, "why") for name, status in STATUSES.items()}
    assert describe(InvalidField("count", "missing")) == (400, "count: missing")
    assert describe(UnusableField("count", "too many")) == (422, "count: too many")


@pytest.mark.django_db
def test_a_run_that_does_not_exist_is_refused_as_the_rest() -> None:
    with pytest.raises(Refusal) as refused:
        services.get(run_id="nope")
    assert describe(refused.value) == (404, "there is no run 'nope'")


def test_a_failure_outside_the_rest_views_is_logged_with_its_trace(
    call: Gateway, settings: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "index.html").mkdir()
    settings.FRONT_END_DIR = tmp_path
    log = logging.getLogger("gateway.http.errors")
    log.addHandler(caplog.handler)  # the application's own set-up of logging replaces pytest's
    try:
        answer = call("GET", "/")
    finally:
        log.removeHandler(caplog.handler)
    assert answer.status == 500
    assert answer.json["reason"] == "An unexpected error occurred in the gateway"
    record = next(item for item in caplog.records if item.name == "gateway.http.errors")
    assert answer.json["request_id"] in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is IsADirectoryError


@pytest.mark.parametrize("error", [TimeoutError(), StoreUnavailableError("x"), ConnectionError()])
def test_a_change_without_an_answer_is_reported_as_of_unknown_outcome(
    call: Gateway, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Advise a repeat only for calls that read, by method or declaration: skipping five messages twice skips ten."""

    async def fail(self: RestView, work: Any) -> Any:
        raise error

    monkeypatch.setattr(RestView, "work", fail)
    topic = "/admin/v2/persistent/public/default/t"
    position = {"ledgerId": 1, "entryId": 1}
    skipped = call("POST", f"{topic}/subscription/s/skip/5")
    assert skipped.status == 503
    assert skipped.json["reason"].endswith(
        "the change may have been made: look before repeating it"
    )
    for method, path, body in (
        ("GET", f"{topic}/subscriptions", None),
        ("PUT", f"{topic}/backlogSize", position),
    ):
        answer = call(method, path, body)
        assert answer.status == 503
        assert answer.json["reason"].endswith("; try again")
