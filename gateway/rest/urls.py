"""The admin REST's URL table: every documented path, served by its view or answered 501."""

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
    switched_off,
    tenants,
    topics,
)
from gateway.rest.base import AdminView, UnbuiltView
from gateway.rest.cluster import bookies, broker_stats, isolation, shares
from gateway.rest.produce import views as produce
from gateway.rest.routes import NON_PERSISTENT, PERSISTENT, Route, legacy, routes, shape

PREFIX_SEGMENTS = 3
"""Routes are grouped by ``admin/v2/<resource>/``, so that a request tries its own group only."""


def built() -> dict[str, tuple[str, type[AdminView], dict[str, Any]]]:
    """Template, view and view arguments by shape."""
    found: dict[str, tuple[str, type[AdminView], dict[str, Any]]] = {}
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
        produce,
        switched_off,
    ):
        for template, view in module.ROUTES:
            made: list[tuple[str, dict[str, Any]]] = [(template, {})]
            if template.startswith(PERSISTENT):
                other = NON_PERSISTENT + template.removeprefix(PERSISTENT)
                made.append((other, {"domain": "non-persistent"}))
            for one, arguments in made:
                found[shape(one)] = (one, view, arguments)
                old = legacy(one)
                if old is not None:
                    found[shape(old)] = (old, view, arguments)
    return found


def table() -> list[tuple[Route, type[AdminView], dict[str, Any]]]:
    """Every route with its view, in the order in which they must be tried."""
    ours = built()
    rows: list[tuple[Route, type[AdminView], dict[str, Any]]] = []
    for form, route in routes().items():
        template, view, arguments = ours.pop(form, (route.template, UnbuiltView, {}))
        rows.append((Route(template, route.methods), view, arguments))
    assert not ours, f"views for undocumented paths: {sorted(ours)}"
    return rows


def patterns() -> list[URLPattern | URLResolver]:
    """The table as Django URL patterns."""
    groups: dict[str, list[URLPattern]] = defaultdict(list)
    alone: list[URLPattern | URLResolver] = []
    for route, view, arguments in table():
        handler = view.as_view(route=route, **arguments)
        segments = route.django_route.split("/")
        if len(segments) <= PREFIX_SEGMENTS:
            alone.append(path(route.django_route, handler))
        else:
            prefix = "/".join(segments[:PREFIX_SEGMENTS]) + "/"
            groups[prefix].append(path(route.django_route.removeprefix(prefix), handler))
    return [*alone, *(path(prefix, include(group)) for prefix, group in groups.items())]


urlpatterns = patterns()
