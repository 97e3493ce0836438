"""The socket of a live tail: who may open it, what it sends, and when it ends."""

import json
from typing import Any

import pytest

from engine.base.names import TopicName
from engine.tenancy import topics as metadata
from gateway.http.auth import access
from gateway.services.engine_link import EngineLink
from tests.support.access.judges import REASON, DenyAll
from tests.support.admin.gateway_client import Gateway, cluster, engine, gateway
from tests.support.net.socket_pair import SocketPair

__all__ = ["cluster", "engine", "gateway"]

TAIL = "/api/v1/tail?topic=persistent://public/default/t"


async def refusal(gateway: Gateway, path: str) -> tuple[int, str]:
    pair = await SocketPair(gateway.application, path).opened()
    assert pair.response is not None
    refused = pair.response.status_code, (pair.response.body or b"").decode()
    await pair.hang_up()
    return refused


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        ("/api/v1/tail", 412, ""),
        ("/api/v1/tail?topic=non-persistent://public/default/t", 405, "keeps no messages"),
        (f"{TAIL}&rate=0", 400, "rate"),
        (f"{TAIL}&path=$.a[", 400, "path"),
        (f"{TAIL}&cluster=moon", 404, "moon"),
    ],
)
async def test_a_wrong_address_is_refused(
    path: str, status: int, word: str, gateway: Gateway
) -> None:
    refused = await refusal(gateway, path)
    assert (refused[0], word in refused[1]) == (status, True)


async def test_a_caller_who_may_not_consume_is_refused_before_anything_is_read(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = DenyAll()
    monkeypatch.setattr(access, "judge_of", lambda cluster: judge)
    status, text = await refusal(gateway, TAIL)
    assert (status, REASON in text) == (403, True)
    assert [f"{action.value} on {place}" for _, action, place in judge.asked] == [
        "consume on persistent://public/default/t"
    ]


async def test_commands_pause_and_resume_and_others_are_refused(
    gateway: Gateway, engine: EngineLink
) -> None:
    name = TopicName.parse("persistent://public/default/t")
    await engine.arun(lambda it: metadata.create_partitioned(it.store, name, 2))
    pair = await SocketPair(gateway.application, TAIL).opened()

    async def following(op: str) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = json.loads(await pair.receive())
            if message["op"] == op:
                return message

    pair.send('{"op":"pause"}')
    while not (await following("rows"))["paused"]:
        pass
    pair.send('{"op":"resume"}')
    while (await following("rows"))["paused"]:
        pass
    pair.send('{"op":"skip"}')
    assert "must be" in (await following("error"))["reason"]
    await pair.hang_up()
