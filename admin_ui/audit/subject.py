"""The subject of a recorded call: what it does, and the cluster, tenant, namespace and topic that it is about."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import ResolverMatch
from rest_framework.exceptions import APIException

from admin_ui.calls import ClusterView, ConsoleView
from admin_ui.rights import parts_of
from engine.auth.resource_names import Resource
from engine.base.errors import MagnetarError
from engine.base.names import split_partition
from gateway.clusters.registry import clusters_for
from gateway.http.auth.access import needs_of, rights_of
from gateway.http.view import RestView, view_of

TENANT_CHARS_MAX = 255
TOPIC_CHARS_MAX = 512
"""Longest name of a namespace or topic that is stored; an index of PostgreSQL has at most 2,704 bytes for a value."""


class CallSubject(NamedTuple):
    """The names that a call is about; what it is not about, or is about several of, is empty."""

    cluster: str = ""
    tenant: str = ""
    namespace: str = ""
    topic: str = ""


def operation_of(request: HttpRequest) -> str:
    """Return the id of a call of the console, or method and path of one of REST; empty for an unknown path."""
    view = view_of(request)
    if view is None:
        return ""
    if issubclass(view, ConsoleView):
        call = view.calls.get((request.method or "").lower())
        return call.operation if call is not None else ""
    route = _arguments(request).get("route")
    return f"{request.method} {route.template}" if route is not None else ""


def subject_of(request: HttpRequest) -> CallSubject:
    """Return the subject of a call: what its rights are judged on, else what its path names."""
    view, match = view_of(request), request.resolver_match
    if view is None or match is None:
        return CallSubject()
    cluster = _cluster_of(request, view, match)
    places: list[dict[str, str]] = []
    # A name that is not valid, or a body that is not read, is no subject; the view refuses it.
    with suppress(MagnetarError, KeyError, APIException):
        asked = view(**_arguments(request))
        asked.setup(request, *match.args, **match.kwargs)
        places = [parts_of(place) for place in _resources(view, request, asked)]
    named = _common(places)
    if not named["tenant"]:
        named |= _in_path(match)
    return _subject(cluster, named)


def subject_of_socket(cluster: str, resources: Iterable[Resource]) -> CallSubject:
    """Return the subject of a socket that was judged on these resources."""
    return _subject(cluster, _common([parts_of(place) for place in resources]))


def _common(places: list[dict[str, str]]) -> dict[str, str]:
    return {key: _same(place[key] for place in places) for key in ("tenant", "namespace", "topic")}


def _subject(cluster: str, named: dict[str, str]) -> CallSubject:
    return CallSubject(
        cluster[:TENANT_CHARS_MAX],
        named["tenant"][:TENANT_CHARS_MAX],
        _full(named)[:TOPIC_CHARS_MAX],
        _whole(named["topic"])[:TOPIC_CHARS_MAX],
    )


def _resources(view: type[RestView], request: HttpRequest, asked: RestView) -> list[Resource]:
    rights = rights_of(view, request.method or "")
    return [resource for _, resource in needs_of(rights, asked)]


def _arguments(request: HttpRequest) -> dict[str, Any]:
    """Return the arguments that the route gives to the view."""
    match = request.resolver_match
    return getattr(match.func, "view_initkwargs", {}) if match is not None else {}


def _cluster_of(request: HttpRequest, view: type[RestView], match: ResolverMatch) -> str:
    key = "cluster" if issubclass(view, ClusterView) else "served_cluster"
    named = match.kwargs.get(key)
    return str(named) if named else clusters_for(request).default.name


def _same(values: Iterable[str]) -> str:
    """Return the value that all have in common; empty where they differ."""
    present = {value for value in values if value}
    return present.pop() if len(present) == 1 else ""


def _in_path(match: ResolverMatch) -> dict[str, str]:
    """Return the tenant and namespace that a path of superusers names."""
    tenant = match.kwargs.get("tenant", "")
    return {"tenant": tenant, "namespace": match.kwargs.get("namespace", "") if tenant else ""}


def _full(named: dict[str, str]) -> str:
    return f"{named['tenant']}/{named['namespace']}" if named["namespace"] else ""


def _whole(topic: str) -> str:
    """Return the topic of which a name may be a partition."""
    return split_partition(topic)[0] or topic
