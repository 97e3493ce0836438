"""The operations of the console whose path a place fills, and whether the caller may make them."""

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from django.http import QueryDict
from django.urls import URLPattern, URLResolver, get_resolver

from admin_ui.calls import Call, ConsoleView
from admin_ui.rights import parts_of
from engine.auth.identity import Identity
from engine.auth.resource_names import Resource
from engine.base.errors import InvalidField
from engine.base.names import PERSISTENT, split_topic
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import Clusters
from gateway.http.auth.access import AccessRefusedError, authorize, needs_of, rights_of
from gateway.http.auth.levels import LevelRefusedError, check_level
from gateway.http.auth.payloads import PayloadsHiddenError, check_payloads, reveals
from gateway.sign_in import AccessLevel

OF_PLACES = frozenset({"tenant", "namespace", "domain", "topic", "subscription"})
"""Variables of paths that name a place. The rights of a call depend on no other variable, policy excepted."""
POLICY = "policy"


class ConsoleOperation(NamedTuple):
    """A call of the console: its id, its view and method, and the variables of its path."""

    name: str
    view: type[ConsoleView]
    method: str
    variables: frozenset[str]


@cache
def operations() -> tuple[ConsoleOperation, ...]:
    """Return all calls of the console."""
    return tuple(
        ConsoleOperation(call.operation, view, method.upper(), variables)
        for view, variables in _views(get_resolver().url_patterns)
        for method, call in _calls(view).items()
    )


def _calls(view: type[ConsoleView]) -> dict[str, Call]:
    return view.calls


def _views(patterns: list[Any]) -> Iterator[tuple[type[ConsoleView], frozenset[str]]]:
    for item in patterns:
        if isinstance(item, URLResolver):
            yield from _views(item.url_patterns)
        elif isinstance(item, URLPattern):
            view = getattr(item.callback, "view_class", None)
            if isinstance(view, type) and issubclass(view, ConsoleView):
                yield view, frozenset(item.pattern.converters)


class Asked:
    """The part of a view that the rights of a call read, for a call about a place that is not made. ``asked_place``
    stands for what a body would name otherwise than by the names of paths."""

    def __init__(
        self, cluster: str, place: Resource, variables: frozenset[str], policy: str
    ) -> None:
        self.asked_place = place
        names = names_of(place)
        self.kwargs = {key: names.get(key, "1") for key in variables}
        self.kwargs |= {"cluster": cluster} | ({POLICY: policy} if POLICY in variables else {})
        query = QueryDict(mutable=True)
        query.update({key: value for key, value in parts_of(place).items() if value})
        # A call that creates something names it in its body: here a topic of the namespace.
        body = json.dumps({"domain": PERSISTENT, "topic": "any", **names}).encode()
        self.request: Any = SimpleNamespace(GET=query, META={}, body=body)


def names_of(place: Resource) -> dict[str, str]:
    """Return the variables of paths that a place fills."""
    parts = parts_of(place)
    names = {key: value for key in OF_PLACES if (value := parts.get(key))}
    if parts["topic"]:
        names["domain"], _, _, names["topic"] = split_topic(parts["topic"])
    return names


class AskingCaller(NamedTuple):
    """A caller whose operations are judged. ``clusters``: those of the process, for the payload rules."""

    identity: Identity
    level: AccessLevel
    clusters: Clusters


async def may(
    cluster: Cluster, caller: AskingCaller, place: Resource, policy: str = ""
) -> dict[str, dict[str, Any]]:
    """Return, for each operation whose path the place fills, whether the caller may make it, and if not why.

    ``policy``: the policy of operations about one. Raises the errors of the judge.
    """
    names = names_of(place).keys()
    answers = {}
    for operation in operations():
        if operation.variables & OF_PLACES <= names:
            asked = Asked(cluster.name, place, operation.variables, policy)
            # A call whose body names a place needs at least a namespace here.
            with suppress(InvalidField):
                why = await _refusal(operation, asked, cluster, caller)
                answers[operation.name] = {"allowed": not why, "why": why}
    return answers


async def _refusal(
    operation: ConsoleOperation, asked: Asked, cluster: Cluster, caller: AskingCaller
) -> str:
    """Return why the caller may not make a call; empty if it may."""
    view, method, (identity, level, clusters) = operation.view, operation.method, caller
    rights = rights_of(view, method)
    try:
        await authorize(rights, asked, identity, cluster)
        check_level(view, method, level)
        if reveals(view, method):
            places = [place for _, place in needs_of(rights, asked)]
            await check_payloads(clusters, identity, level, places)
    except (AccessRefusedError, LevelRefusedError, PayloadsHiddenError) as error:
        return str(error)
    return ""
