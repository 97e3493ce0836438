"""Permission matrix: each REST call, console call, live channel and WebSocket endpoint for each kind of caller.

What is expected comes from tables of needs, by what a need means for each caller; what is allowed comes from the rights
that the doors declare and the shipped judge over stored policies. A door without a row fails.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import RequestFactory

from admin_ui.live import CHANNELS
from engine.auth.identity import Identity
from engine.auth.judge import Judge, Verdict
from engine.auth.rights import Right, all_of
from gateway.http.auth.access import declared_rights, needs_of
from gateway.http.view import RestView
from gateway.ws.rights import RIGHTS, Opening
from tests.support.access.callers import PROXY, SUPERUSER
from tests.support.access.matrix import (
    ADMINS,
    CALLERS,
    CLUSTER,
    MAY,
    STRANGER,
    stored_judge,
)
from tests.unit.access import test_console_rights as console
from tests.unit.access import test_rest_rights as rest
from tests.unit.access.test_http_doors import console_routes

WORDS: dict[str, str] = {
    "public": "public",
    "authenticated": "authenticated only",
    "superuser": "superuser",
    "superuser of cluster": "superuser",
    "tenant admin of tenant": "tenant admin",
    "tenant admin of namespace": "tenant admin",
    "tenant admin of topic": "tenant admin",
    "lookup of topic": "produce or consume",
    "lookup of namespace": "produce or consume (namespace)",
    "produce of topic": "produce",
    "consume of topic": "consume",
    "consume of subscription": "consume",
    "consume of namespace": "consume (namespace)",
    **{f"{name} of namespace": name for name in ("packages", "functions", "sources", "sinks")},
}
"""Needs by the words of the console's table."""
PLACE = {"cluster": CLUSTER, "domain": "persistent", "tenant": "t", "namespace": "n", "topic": "p"}
OPENINGS = {
    "producer": Opening(("persistent://t/n/p",)),
    "reader": Opening(("persistent://t/n/p", "persistent://t/n/q")),
    "consumer": Opening(("persistent://t/n/p",), subscription="s"),
    "consumer of a pattern": Opening(("persistent://t/n/p.*",), is_pattern=True, subscription="s"),
    "consumer with dead letters": Opening(
        ("persistent://t/n/p",), subscription="s", dead_letters="persistent://t/n/dlq"
    ),
    "consumer with a stranger's dead letters": Opening(
        ("persistent://t/n/p",), subscription="s", dead_letters="persistent://o/n/dlq"
    ),
}
OPENED_BY: dict[str, set[str]] = {
    "producer": MAY["produce"],
    "reader": MAY["consume"],
    "consumer": MAY["consume"],
    "consumer of a pattern": MAY["consume (namespace)"],
    "consumer with dead letters": ADMINS,
    "consumer with a stranger's dead letters": {SUPERUSER},
}


class Matrix:
    """The shipped judge over these policies, with the callers."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def allowed(self, rights: tuple[Right[Any], ...], call: Any) -> set[str]:
        """Return the callers that may make a call."""
        needs = list(needs_of(rights, call))
        return {caller for caller in CALLERS if await self._may(Identity(caller or None), needs)}

    async def _may(self, identity: Identity, needs: list[Any]) -> bool:
        for action, resource in needs:
            judgement = self._judge.judge(identity, action, resource)
            verdict = judgement if isinstance(judgement, Verdict) else await judgement
            if not verdict.allowed:
                return False
        return True

    async def proxied(self, role: str, original: str, rights: Any, call: Any) -> bool:
        return await self._may(Identity(role, original), list(needs_of(rights, call)))


@pytest.fixture
async def matrix() -> Matrix:
    return Matrix(await stored_judge())


def rest_rows() -> Iterator[tuple[rest.Row, str]]:
    """Yield each call of REST that is built, with its need; an older form has that of the newer path."""
    asked = rest.needs_of_apache()
    by_view: dict[tuple[str, Any], str] = {}
    rows = [row for row in rest.all_rows() if rest.built(row)]
    for row in rows:
        method, path, view = row
        need = (
            rest.NOT_LISTED.get((method, path))
            or rest.DIFFERENCES.get((method, path), ("",))[0]
            or asked.get((method, rest.shape(path)), "")
        )
        if path.startswith(rest.OLDER):
            assert need, f"{method} {path} has no row"
            by_view.setdefault((method, view), need)
    for row in rows:
        method, path, view = row
        need = by_view.get((method, view), "tenant admin")
        if path.startswith(rest.OLDER):
            need = (
                rest.NOT_LISTED.get((method, path))
                or rest.DIFFERENCES.get((method, path), ("",))[0]
                or asked[method, rest.shape(path)]
            )
        yield row, need


async def test_each_call_of_rest_is_open_to_those_who_have_apaches_need(matrix: Matrix) -> None:
    wrong, checked = [], 0
    for row, need in rest_rows():
        method, path, view = row
        allowed = await matrix.allowed(rest.rights_of(row), rest.call_of(path, view))
        checked += 1
        if allowed != MAY[need]:
            wrong.append((method, path, need, allowed ^ MAY[need]))
    assert wrong == []
    assert checked > 900


def words_of(text: str) -> set[str]:
    """Return the callers that have all needs of a row of the console's table."""
    return set.intersection(*(MAY[WORDS[words]] for words in text.split(", ")))


async def test_each_call_of_the_console_is_open_to_those_who_have_its_need(matrix: Matrix) -> None:
    wrong, checked = [], 0
    for pattern, view in console_routes():
        for method, rights in declared_rights(view).items():
            path = console.named(pattern)
            expected = words_of(console.CALLS[f"{method} {path}"])
            allowed = await matrix.allowed(rights, console_call(view, pattern))
            checked += 1
            if f"{method} {path}" in DEPENDS:
                expected = DEPENDS[f"{method} {path}"]
            if allowed != expected:
                wrong.append((method, path, allowed, expected))
    assert wrong == []
    assert checked == len(console.CALLS)


DEPENDS = {
    "GET history": MAY["produce or consume"],
    "GET access": MAY["tenant admin"],
    "GET marks": MAY["produce or consume"],
    "POST runs": MAY["consume"],
    "POST schedules": MAY["consume"],
    "POST analyses/<str:analysis>/estimate": MAY["consume"],
    "GET grants": MAY["tenant admin"],
    "POST grants": MAY["tenant admin"],
    "POST NAMESPACE/policies/<seg:policy>": MAY["tenant admin"],
}
"""Calls whose rights depend on what the call asks for: here one topic's history, and a policy of the namespace's own
administrators."""


def console_call(view: type[RestView], pattern: str) -> RestView:
    """Return a view of the console set up for a request about ``t/n`` and its topic ``p``."""
    names = {
        "analysis": "topic-profile",
        "component": "function",
        "subscription": "s",
        "policy": "retention",
        "broker": "b",
        "bundle": "0x0_0x1",
        **PLACE,
    }
    kwargs = {name: names.get(name, "1") for name in re.findall(r"<\w+:(\w+)>", pattern)}
    analysed = {"analysis": "topic-profile", "parameters": {"topic": "persistent://t/n/p"}}
    body = json.dumps({"cluster": CLUSTER, **PLACE, **analysed}).encode()
    query = "/?topic=persistent://t/n/p"
    request = RequestFactory().generic("POST", query, body, content_type="application/json")
    made = view()
    made.setup(request, **kwargs)
    return made


@pytest.mark.parametrize("name", CHANNELS)
async def test_each_channel_is_open_to_those_who_have_its_need(name: str, matrix: Matrix) -> None:
    channel = CHANNELS[name]
    params = {key: PLACE.get(key, "1") for key in channel.required}
    allowed = await matrix.allowed(all_of(channel.rights), params)
    assert allowed == words_of(console.CHANNELS_TABLE[name])


@pytest.mark.parametrize("name", OPENINGS)
async def test_each_endpoint_opens_for_those_who_have_its_need(name: str, matrix: Matrix) -> None:
    rights = RIGHTS[name.partition(" ")[0]]
    assert await matrix.allowed(rights, OPENINGS[name]) == OPENED_BY[name]


async def test_a_proxy_and_its_client_both_need_the_right_by_http(matrix: Matrix) -> None:
    """Apache's HTTP judges some calls by the proxy's rights alone."""
    for row, need in rest_rows():
        if need in ("public", "authenticated only"):
            continue
        rights, call = rest.rights_of(row), rest.call_of(*row[1:])
        assert not await matrix.proxied(PROXY, STRANGER, rights, call), row
        assert not await matrix.proxied(STRANGER, SUPERUSER, rights, call), row
        assert await matrix.proxied(PROXY, SUPERUSER, rights, call), row
