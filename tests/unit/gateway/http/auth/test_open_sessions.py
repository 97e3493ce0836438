"""An open live feed ends with the session that it was opened with."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from admin_ui import live
from gateway.http.auth.open_socket import CLOSE_EXPIRED
from gateway.people import held_people
from gateway.people.held_people import Credential, HeldPeople
from gateway.people.models import Person, PersonSession
from gateway.people.sessions import SessionStore
from tests.support.access.callers import by_token
from tests.support.access.sessions import session
from tests.support.net.socket_pair import SocketPair
from tests.unit.gateway.http.conftest import Client


async def sign_out() -> None:
    await PersonSession.objects.all().adelete()


def users() -> Any:
    return get_user_model().objects.filter(username="ann")


async def deactivate() -> None:
    await users().aupdate(is_active=False)


async def take_superuser() -> None:
    await users().aupdate(is_superuser=False)


async def set_roles(role: str, level: str) -> None:
    user = await users().aget()
    await Person.objects.acreate(user=user, roles=[{"role": role, "level": level}])


async def change_role() -> None:
    await set_roles("billing", "full")


async def lower_level() -> None:
    await set_roles("root", "read")


async def change_password() -> None:
    user = await users().aget()
    user.set_password("another")
    await user.asave()


async def replace_key() -> None:
    store = SessionStore((await PersonSession.objects.aget()).pk)
    await store.acycle_key()


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "end",
    [
        *(sign_out, deactivate, take_superuser),
        *(change_role, lower_level, change_password, replace_key),
    ],
)
async def test_a_live_feed_ends_with_its_session(
    end: Callable[[], Awaitable[None]], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.IDENTITY = by_token(super_user_roles="root")
    monkeypatch.setattr(held_people, "CHECK_S", 0.01)
    monkeypatch.setattr(live, "BEATS", [])
    reads = asyncio.Queue[object]()
    read = HeldPeople._read

    def counted(held: HeldPeople, credentials: tuple[Credential, ...]) -> Any:
        loop.call_soon_threadsafe(reads.put_nowait, credentials)
        return read(held, credentials)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(HeldPeople, "_read", counted)
    page = {"Cookie": await session(superuser=True), "Origin": "http://127.0.0.1:8080"}
    pair = await SocketPair(Client.application, "/api/v1/live", page).opened()
    for _ in range(3):
        await reads.get()
    assert not pair.ended.is_set()
    await end()
    await pair.ended.wait()
    assert pair.client.close_code == CLOSE_EXPIRED
    await pair.hang_up()
