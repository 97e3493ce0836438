"""A change is recorded before it is made: what cannot be recorded is not done."""

import asyncio
from typing import Any

import pytest
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from admin_ui.audit import recording
from admin_ui.models import AuditEntry


class Signed:
    is_authenticated = False

    def get_username(self) -> str:
        return ""


def change() -> HttpRequest:
    request = RequestFactory().put("/admin/v2/persistent/public/default/t")
    request.user = Signed()  # type: ignore[assignment]

    async def auser() -> Any:
        return Signed()

    request.auser = auser
    return request


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_cannot_be_recorded_is_not_done(
    asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def fails(*_: Any, **__: Any) -> None:
        raise DatabaseError("locked")

    async def afails(*_: Any, **__: Any) -> None:
        raise DatabaseError("locked")

    def handle(request: HttpRequest) -> HttpResponse:
        done.append(request.path)
        return HttpResponse()

    async def ahandle(request: HttpRequest) -> HttpResponse:
        return handle(request)

    monkeypatch.setattr(AuditEntry, "save", fails)
    monkeypatch.setattr(AuditEntry, "asave", afails)
    if asynchronous:
        answer = asyncio.run(recording.record_changes(ahandle)(change()))
    else:
        answer = recording.record_changes(handle)(change())
    assert answer.status_code == 503
    assert done == []
