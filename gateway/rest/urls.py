"""The URL table of Pulsar's REST interface: every documented path, served by its resource or answered with 501."""

from collections import defaultdict
from typing import Any

from django.urls import URLPattern, URLResolver, include, path

from gateway.http import paths as _converters  # noqa: F401 - registers the path converters
from gateway.rest import (
    brokers,
    clusters,
    grants,
    namespaces,
    policies,
    schemas,
    subscriptions,
    tenants,
    topics,
    transactions,
)
from gateway.rest.base import AdminResource, UnbuiltResource
from gateway.rest.cluster import bookies, broker_stats, functions_workers, isolation, shares
from gateway.rest.functions import components, leader_calls, older_interface, packages
from gateway.rest.produce import views as produce
from gateway.rest.routes import NON_PERSISTENT, PERSISTENT, RestRoute, legacy, routes, shape

PREFIX_SEGMENTS = 3
"""Segments of the prefix, ``admin/v2/<resource>/``, by which routes are grouped: a request tries only its own group."""


def built_paths() -> dict[str, tuple[str, type[AdminResource], dict[str, Any]]]:
    """Return the template, resource and its arguments of each path that is built, by shape."""
    by_shape: dict[str, tuple[str, type[AdminResource], dict[str, Any]]] = {}
    for module in (
        clusters,
        isolation,
        tenants,
        namespaces,
        grants,
        policies,
        shares,
        schemas,
        topics,
        subscriptions,
        brokers,
        broker_stats,
        bookies,
        functions_workers,
        produce,
        transactions,
        components,
        older_interface,
        packages,
        leader_calls,
    ):
        for template, view in module.ROUTES:
            variants: list[tuple[str, dict[str, Any]]] = [(template, {})]
            if template.startswith(PERSISTENT):
                non_persistent = NON_PERSISTENT + template.removeprefix(PERSISTENT)
                variants.append((non_persistent, {"domain": "non-persistent"}))
            for variant, arguments in variants:
                by_shape[shape(variant)] = (variant, view, arguments)
                older = legacy(variant)
                if older is not None:
                    by_shape[shape(older)] = (older, view, arguments)
    return by_shape


def table() -> list[tuple[RestRoute, type[AdminResource], dict[str, Any]]]:
    """Return every route with its resource and arguments, in the order in which they must be tried."""
    remaining = built_paths()
    rows: list[tuple[RestRoute, type[AdminResource], dict[str, Any]]] = []
    for form, route in routes().items():
        template, view, arguments = remaining.pop(form, (route.template, UnbuiltResource, {}))
        rows.append((RestRoute(template, route.methods), view, arguments))
    assert not remaining, f"views for undocumented paths: {sorted(remaining)}"
    return rows


def patterns() -> list[URLPattern | URLResolver]:
    """Return the table as Django URL patterns."""
    groups: dict[str, list[URLPattern]] = defaultdict(list)
    ungrouped: list[URLPattern | URLResolver] = []
    for route, view, arguments in table():
        handler = view.as_view(route=route, **arguments)
        segments = route.django_route.split("/")
        if len(segments) <= PREFIX_SEGMENTS:
            ungrouped.append(path(route.django_route, handler))
        else:
            prefix = "/".join(segments[:PREFIX_SEGMENTS]) + "/"
            groups[prefix].append(path(route.django_route.removeprefix(prefix), handler))
    return [*ungrouped, *(path(prefix, include(group)) for prefix, group in groups.items())]


urlpatterns = patterns()
