"""Every credential that derives from another ends with it: new calls and open sockets, whatever made the change.

The changes here are those of another gateway or a command: nothing in this process announces them.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from django.contrib.auth import get_user_model

from admin_ui import live
from engine.base.clock import SystemClock
from engine.tenancy.access.revoked_tokens import revoke_token
from gateway.access.models import IssuedToken
from gateway.http.auth.open_socket import CLOSE_EXPIRED
from gateway.people import held_people
from gateway.people.accounts import create_person
from gateway.people.acting import ActingRole
from gateway.people.models import Person, PersonSession
from gateway.sign_in import ProviderSettings
from tests.support.access.browser import Browser
from tests.support.access.callers import KEY, by_token
from tests.support.admin.gateway_client import Gateway
from tests.support.net.socket_pair import SocketPair
from tests.unit.gateway.people.conftest import AddPerson

CORP = ProviderSettings(name="corp", title="Corp")


class Shown(NamedTuple):
    """A credential of ``ann`` as a caller shows it."""

    headers: dict[str, str]
    token_id: str = "other"


def of_session(browser: Browser) -> Shown:
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    return Shown({"cookie": cookies, "origin": "http://127.0.0.1:8080"})


def of_token(browser: Browser, path: str, **body: Any) -> Shown:
    answer = browser("POST", path, {"name": "x", "level": "full", "expires_in_s": 600, **body})
    assert answer.status == 201, answer.body
    token_id = answer.json["row"]["token_id"]
    return Shown({"authorization": f"Bearer {answer.json['token']}"}, token_id)


def view(browser: Browser) -> Shown:
    assert browser("POST", "session/view-as", {"role": "app"}).status == 200
    return of_session(browser)


KINDS: dict[str, Callable[[Browser], Shown]] = {
    "session": of_session,
    "view as a role": view,
    "personal token": lambda browser: of_token(browser, "session/tokens"),
    "token of a role": lambda browser: of_token(browser, "tokens", role="root"),
}
Cause = Callable[[Shown, Gateway, Any], Awaitable[None]]


def people() -> Any:
    return Person.objects.filter(user__username="ann")


def users() -> Any:
    return get_user_model().objects.filter(username="ann")


async def disabled(*_: Any) -> None:
    await users().aupdate(is_active=False)


async def deleted(*_: Any) -> None:
    await people().adelete()
    await users().adelete()


async def another_role(*_: Any) -> None:
    await people().aupdate(roles=[{"role": "other", "level": "full"}])


async def lower_level(*_: Any) -> None:
    await people().aupdate(roles=[{"role": "root", "level": "read"}])


async def another_password(*_: Any) -> None:
    user = await users().aget()
    user.set_password("another-password-1")
    await users().aupdate(password=user.password)


async def sessions_ended(*_: Any) -> None:
    await PersonSession.objects.all().adelete()


async def session_over(*_: Any) -> None:
    await PersonSession.objects.aupdate(expire_date="2020-01-01T00:00:00Z")


async def provider_removed(shown: Shown, gateway: Gateway, settings: Any) -> None:
    settings.SIGN_IN = replace(settings.SIGN_IN, providers=())


async def token_revoked(shown: Shown, gateway: Gateway, settings: Any) -> None:
    clock = SystemClock()
    await gateway.clusters.default.link.arun(
        lambda link: revoke_token(link.store, shown.token_id, expires_at=None, clock=clock)
    )


OF_THE_PERSON: list[Cause] = [disabled, deleted, another_role, lower_level, provider_removed]
OF_THE_SESSION: list[Cause] = [another_password, sessions_ended, session_over]
ENDS: dict[str, list[Cause]] = {
    "session": [*OF_THE_PERSON, *OF_THE_SESSION],
    "view as a role": [*OF_THE_PERSON, *OF_THE_SESSION],
    "personal token": [*OF_THE_PERSON, token_revoked],
    "token of a role": [token_revoked],
}


@pytest.fixture
def ann(door: Gateway, add: AddPerson, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Browser:
    """A superuser, a person of a provider, who is signed in."""
    settings.IDENTITY = by_token(super_user_roles="root")
    settings.SIGN_IN = replace(settings.SIGN_IN, providers=(CORP,))
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, token_signing_key=base64.b64encode(KEY).decode()
    )
    monkeypatch.setattr(held_people, "HELD_S", 0.0)
    monkeypatch.setattr(held_people, "CHECK_S", 0.01)
    monkeypatch.setattr(live, "BEATS", [])
    add("ann", "root:full", provider="corp", subject="1")
    browser = Browser(door)
    browser.sign_in("ann")
    return browser


async def known_as(gateway: Gateway, shown: Shown) -> Any:
    """Return who the gateway takes a caller for; None for a stranger."""
    answer = await gateway.read("/api/v1/session", shown.headers)
    return answer.json["person"] if answer.status == 200 else None


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shown(ann: Browser, kind: str) -> Shown:
    return KINDS[kind](ann)


@pytest.mark.parametrize("cause", [*OF_THE_PERSON, *OF_THE_SESSION, token_revoked])
async def test_a_derived_credential_ends_with_what_it_derives_from(
    cause: Cause, kind: str, shown: Shown, door: Gateway, settings: Any
) -> None:
    before = await known_as(door, shown)
    assert before is not None
    pair = await SocketPair(door.application, "/api/v1/live", shown.headers).opened()
    assert pair.response is not None
    assert pair.response.status_code == 101
    await cause(shown, door, settings)
    if cause in ENDS[kind]:
        await pair.ended.wait()
        assert pair.client.close_code == CLOSE_EXPIRED
        assert await known_as(door, shown) != before
    else:
        assert await known_as(door, shown) == before
        # A watch of an unknown person ends after the two checks that would have ended the socket.
        checked = asyncio.Event()
        held = door.clusters.part(held_people.HeldPeople)
        held.watch(held_people.Credential(person="x"), lambda known: False, checked.set)
        await checked.wait()
        assert not pair.ended.is_set()
    await pair.hang_up()


def test_an_end_is_noticed_within_a_second() -> None:
    assert 2 * held_people.CHECK_S < 1.0
    assert held_people.HELD_S < 1.0


def test_a_token_of_a_deleted_person_is_none_of_a_later_person_of_that_name(
    ann: Browser, door: Gateway, add: AddPerson
) -> None:
    add("root", "root:full")
    shown = of_token(ann, "session/tokens")
    admin = Browser(door)
    admin.sign_in("root")
    assert admin("DELETE", "people/ann").status == 204
    assert IssuedToken.objects.get().revoked_by == "root", "the list shows that it ended"
    create_person("ann", "", [ActingRole("root")])
    assert door("GET", "/api/v1/session", headers=shown.headers).status == 401
