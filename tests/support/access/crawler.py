"""Every reading call of the gateway with every name of two tenants, as one person; derived from the routes."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, unquote, urlencode

from django.urls import URLPattern, URLResolver, get_resolver

from admin_ui.calls import ConsoleView
from admin_ui.feeds import Channel
from gateway.http.auth.access import rights_of
from gateway.http.view import RestView
from gateway.rest.base import AdminResource, UnbuiltResource
from gateway.rest.urls import table
from tests.support.access.two_tenants import TENANTS, TwoTenants, parameters, values
from tests.support.admin.gateway_client import Answer, Gateway

REPEATED = re.compile(r"/admin/(?!v\d)|/admin/v2/non-persistent/")
"""Trees of REST whose views are those of other trees."""
CANARY = re.compile(r"canary-t\d-[a-z0-9]+")
REFERENCE = re.compile(r'"((?:http:/)?/[^"]+)"')
LINK = re.compile(r"<([^>]+)>")
TARGET = re.compile(r"/\w[^\s{<\\]*")
"""Forms of links in bodies and in the header Link, and of what can be a target."""
ORIGIN = "http://127.0.0.1:8080"
VARIABLE = re.compile(r"<(?:(\w+):)?(\w+)>")


def canaries(text: str) -> set[str]:
    """Return the canary texts in a text, also where it is percent-encoded."""
    return set(CANARY.findall(text)) | set(CANARY.findall(unquote(text)))


def _routes() -> Iterator[tuple[str, type[RestView] | None]]:
    """Yield the pattern and view of each path that is read.

    Of REST, without the trees that repeat the same views, and of paths that the same method answers under the same
    rights for the same variables (those of policies) the first; all others that are no regular expressions.
    """
    crawled = set()
    for route, view, _ in table():
        is_read = "GET" in route.methods and hasattr(view, "get")
        if not is_read or issubclass(view, UnbuiltResource) or REPEATED.match(route.template):
            continue
        variables = frozenset(VARIABLE.findall(route.django_route))
        kind = view.get, rights_of(view, "GET"), variables
        if kind not in crawled:
            crawled.add(kind)
            yield f"/{route.django_route}", view
    for pattern, view in _walk(get_resolver().url_patterns, "/"):
        is_of_rest = view is not None and issubclass(view, AdminResource)
        if "^" not in pattern and not is_of_rest and (view is None or hasattr(view, "get")):
            yield pattern, view


def _walk(items: list[Any], prefix: str) -> Iterator[tuple[str, type[RestView] | None]]:
    for item in items:
        path = prefix + str(item.pattern)
        if isinstance(item, URLResolver):
            yield from _walk(item.url_patterns, path)
        elif isinstance(item, URLPattern):
            yield path, getattr(item.callback, "view_class", None)


def _queries(pattern: str, view: type[RestView] | None, tenant: int) -> Iterator[dict[str, str]]:
    """Yield queries of a call: none, each parameter that chooses something, the first words of each that has a list of
    them, and the parameters that name a place together."""
    yield {}
    known = parameters(tenant)
    if view is not None and issubclass(view, ConsoleView):
        declared = [item for item in view.calls["get"].parameters if item.place == "query"]
        names = [item.name for item in declared if item.name in known]
        yield from ({item.name: value} for item in declared for value in (item.enum or ())[:2])
    else:
        # REST declares no parameters: a list of a cluster may take a tenant.
        is_list = view is not None and view.for_viewer and "<seg:tenant>" not in pattern
        names = ["tenant"] if is_list else []
    yield from ({name: known[name]} for name in names)
    space = {"tenant": known["tenant"], "namespace": known["namespace"]}
    topic = {"topic": known["topic"], "subscription": known["subscription"]}
    full = {"namespace": f"{known['tenant']}/{known['namespace']}"}
    yield from (place for place in (space, topic, full) if place.keys() <= set(names))


def targets(instance: TwoTenants) -> list[str]:
    """Return the target of each reading call, with each name of both tenants."""
    made: dict[str, None] = {}
    for pattern, view in _routes():
        for tenant in TENANTS:
            path = _filled(pattern, values(tenant, instance.ids[tenant]))
            for query in _queries(pattern, view, tenant):
                made[f"{path}?{urlencode(query)}" if query else path] = None
    return list(made)


def _filled(pattern: str, names: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        kind, name = match.groups()
        return quote(names.get(name, "1" if kind == "number" else "x"), safe="")

    return VARIABLE.sub(value, pattern)


def subscriptions(channel: Channel, instance: TwoTenants) -> Iterator[dict[str, str]]:
    """Yield parameters of a channel: the required ones, and with them each other that chooses something."""
    for tenant in TENANTS:
        names = {**parameters(tenant), **values(tenant, instance.ids[tenant])}
        names["id"] = names["run_id"]
        required = {name: names[name] for name in channel.required}
        yield required
        for name in channel.optional:
            if name in names and name != "domain":
                yield {**required, name: names[name]}


def links(answer: Answer) -> set[str]:
    """Return the targets on this gateway that an answer refers to."""
    text = answer.body.decode("utf-8", "replace")
    refers = [answer.headers.get("location", ""), *LINK.findall(answer.headers.get("link", ""))]
    refers += REFERENCE.findall(text)
    return {
        target
        for target in (text.removeprefix(ORIGIN) for text in refers)
        if TARGET.fullmatch(target)
    }


class Crawl:
    """The answers of one person. ``cookies``: of its session."""

    def __init__(self, gateway: Gateway, cookies: dict[str, str]) -> None:
        self._gateway = gateway
        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        self.headers = {"cookie": cookie, "origin": ORIGIN}
        self.shown: dict[str, set[str]] = {}
        """Canary texts of each answer that its request did not name, by target."""
        self.statuses: dict[str, int] = {}

    async def visit(self, starts: list[str]) -> None:
        """Make these calls, and those that answers refer to."""
        waiting = starts[::-1]
        while waiting:
            target = waiting.pop()
            if target in self.statuses:
                continue
            answer = await self._gateway.read(target, self.headers)
            self.statuses[target] = answer.status
            text = json.dumps(answer.headers) + answer.body.decode("utf-8", "replace")
            self.note(target, text)
            waiting += links(answer) - self.statuses.keys()

    def note(self, request: str, text: str) -> None:
        """Note the canary texts of an answer or a push besides those that its request names."""
        unnamed = canaries(text) - canaries(request)
        if unnamed:
            self.shown.setdefault(request, set()).update(unnamed)

    def shown_of(self, tenant: int) -> dict[str, set[str]]:
        """Return the requests whose answers had texts of a tenant, with these."""
        of_tenant = {
            request: {text for text in texts if text.startswith(f"canary-t{tenant}-")}
            for request, texts in self.shown.items()
        }
        return {request: texts for request, texts in of_tenant.items() if texts}
