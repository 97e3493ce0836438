"""A session that is ended while another request replaces its key has no other key afterwards."""

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gateway.people import accounts, sessions
from gateway.people.models import PersonSession
from tests.support.access.browser import PASSWORD, Browser
from tests.unit.gateway.people.conftest import AddPerson

CHANGES = [
    ("session/acting-role", {"role": "other"}),
    ("session/view-as", {"role": "app"}),
    ("session/password", {"current": PASSWORD, "new": "another-password-1"}),
]


@pytest.fixture
def ann(browser: Browser, add: AddPerson) -> Browser:
    """A superuser in a session."""
    add("ann", "root:full", "other:full")
    browser.sign_in("ann")
    return browser


def end_one() -> None:
    row = PersonSession.objects.get()
    sessions.end_sessions(row.user_id or 0, public_id=row.public_id)


@pytest.mark.parametrize("end", [lambda: accounts.sign_out_everywhere("ann"), end_one])
@pytest.mark.parametrize(("path", "body"), CHANGES)
def test_a_session_that_ended_meanwhile_has_no_new_key(
    path: str, body: Any, end: Callable[[], object], ann: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ended(session: sessions.SessionStore) -> None:
        await sync_to_async(end)()

    # The request has read its session by then.
    monkeypatch.setattr(sessions.SessionStore, "note_use", ended)
    answer = ann("POST", path, body)
    assert answer.status == 401
    assert not PersonSession.objects.exists()
    monkeypatch.undo()
    assert get_user_model().objects.get().check_password(PASSWORD), "nothing else was changed"


@pytest.mark.parametrize("change", ["end", "replace"])
def test_changes_of_the_sessions_of_a_person_wait_for_each_other(change: str, ann: Browser) -> None:
    with CaptureQueriesContext(connection) as queries:
        if change == "end":
            accounts.sign_out_everywhere("ann")
        else:
            row = PersonSession.objects.get()
            sessions.replace_key(sessions.SessionStore(row.session_key), {})
    places = [
        next(i for i, query in enumerate(queries) if text in query["sql"])
        for text in ('FROM "auth_user" WHERE "auth_user"."id"', "DELETE FROM")
    ]
    assert places == sorted(places)
    if connection.features.has_select_for_update:
        assert "FOR UPDATE" in queries[places[0]]["sql"]


def test_signing_out_ends_the_session_under_a_key_that_was_replaced_meanwhile(
    ann: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = sessions.end_sessions

    def replaced_before(user_id: int, **named: Any) -> int:
        row = PersonSession.objects.get()
        sessions.replace_key(sessions.SessionStore(row.session_key), {})
        return end(user_id, **named)

    monkeypatch.setattr("gateway.people.signing_in.end_sessions", replaced_before)
    assert ann("POST", "session/sign-out").status == 200
    assert not PersonSession.objects.exists()
