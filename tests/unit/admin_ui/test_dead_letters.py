"""The list of topics of dead letters: who may not consume from one sees the topic, and nothing of its messages."""

from typing import Any

import pytest
from django.test import RequestFactory

from admin_ui.copies import letters, letters_api
from admin_ui.copies.letters_api import DeadLetterTopicsView
from engine.auth.actions import Action
from engine.auth.identity import Identity
from engine.base.errors import Forbidden
from engine.base.names import TopicName

ROW: Any = {
    **{"name": "persistent://t/n/orders-s-DLQ", "known": "live", "backlog_messages": 3},
    **{"msg_rate_in": 0.0, "storage_bytes": 10},
}
SEEN = {"entries": 3, "oldest_at": 7, "origin": "persistent://t/n/orders", "subscription": "s"}


@pytest.mark.parametrize("may_consume", [True, False])
async def test_the_origin_is_shown_to_who_may_consume(
    may_consume: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    async def authorize(needs: Any, *_: object) -> None:
        ((action, name),) = needs
        assert (action, str(name)) == (Action.CONSUME, ROW["name"])
        if not may_consume:
            raise Forbidden("role r lacks consume")

    async def oldest(_: object, name: TopicName) -> dict[str, Any]:
        read.append(str(name))
        return SEEN

    async def allowed(*_: object) -> None:
        """Hide no payload."""

    monkeypatch.setattr(letters_api, "authorize_needs", authorize)
    monkeypatch.setattr(letters_api, "check_payloads", allowed)
    monkeypatch.setattr(letters_api, "clusters_for", lambda _: None)
    monkeypatch.setattr(letters, "oldest", oldest)
    view: Any = DeadLetterTopicsView()
    view.request, view.cluster, view.identity = RequestFactory().get("/"), None, Identity("r")
    view.level = None
    (shown,) = await view._shown(None, [ROW])
    assert (shown["name"], shown["backlog"]) == (ROW["name"], 3)
    if may_consume:
        assert {name: shown[name] for name in SEEN} == SEEN
    else:
        assert read == []
        assert (shown["origin"], shown["oldest_at"]) == (None, None)
        assert shown["problem"] == "role r lacks consume"
