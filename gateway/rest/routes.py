"""The table of all paths of Pulsar's REST interface, read from ``routes.csv``.

It determines routing, answers 501 (documented, but not built) and 405, and is enumerated by tests. Paths of equal shape
(``{topic}`` in one, ``{bundle}`` in the other) share one entry. The non-persistent tree is derived from the persistent
one, and the trees for names in four parts from those for names in three.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("routes.csv")
_VARIABLE = re.compile(r"\{(\w+)\}")
_NUMBERS = {
    "timestamp", "numMessages", "expireTimeInSeconds", "messagePosition", "ledgerId", "entryId", "mostSigBits",
    "leastSigBits", "coordinatorId", "partition", "timeout", "segmentId", "segmentId1", "segmentId2",
}  # fmt: skip
_TWICE = {"subName", "subscription"}
PERSISTENT = "/admin/v2/persistent/"
NON_PERSISTENT = "/admin/v2/non-persistent/"
LEGACY_NAMESPACE = "{cluster}/{namespace}"
_LEGACY = {
    PERSISTENT: "/admin/persistent/",
    NON_PERSISTENT: "/admin/non-persistent/",
    "/admin/v2/namespaces/": "/admin/namespaces/",
    "/admin/v2/schemas/": "/admin/schemas/",
    "/admin/v2/resource-quotas/": "/admin/resource-quotas/",
}
"""Trees for names in three parts, and those for names in four parts."""
_OLDER = {
    "/admin/v2/brokers": "/admin/brokers",
    "/admin/v2/broker-stats": "/admin/broker-stats",
    "/admin/v2/clusters": "/admin/clusters",
    "/admin/v2/tenants": "/admin/properties",
    "/admin/v2/resource-quotas": "/admin/resource-quotas",
}
"""Trees without names of namespaces, and their older paths, which have the same answers."""
_LISTED = "/admin/v2/namespaces/{tenant}"


@dataclass(slots=True)
class RestRoute:
    """A shape of paths."""

    template: str
    """The documented path, with ``{names}``."""
    methods: set[str] = field(default_factory=set)
    """The methods that Pulsar documents for it."""

    @property
    def django_route(self) -> str:
        """The template in Django's syntax, each variable with its converter."""
        template = self.template[1:].replace(LEGACY_NAMESPACE, "<two:namespace>")
        return _VARIABLE.sub(lambda match: f"<{converter(match[1])}:{match[1]}>", template)

    @property
    def order(self) -> list[tuple[bool, str]]:
        """A sort key by which a literal segment precedes a variable, as in Pulsar."""
        return [("{" in segment, segment) for segment in self.template.split("/")]


def converter(variable: str) -> str:
    """Return the name of the path converter for a template's variable."""
    if variable in _NUMBERS:
        return "number"
    return "twice" if variable in _TWICE else "seg"


def shape(template: str) -> str:
    """Return the template without the names of its variables; a number differs in shape from a name."""
    return _VARIABLE.sub(lambda match: "{number}" if match[1] in _NUMBERS else "{}", template)


def legacy(template: str) -> str | None:
    """Return the older path of a call; None when there is none.

    It is the path for names in four parts (``tenant/cluster/namespace/topic``) of a path for names in three, and the
    path in the interface's first version of any other.
    """
    for tree, old in _LEGACY.items():
        if template.startswith(f"{tree}{{tenant}}/{{namespace}}"):
            older = template.replace(tree, old, 1).replace("{namespace}", LEGACY_NAMESPACE, 1)
            if older == f"/admin/namespaces/{{tenant}}/{LEGACY_NAMESPACE}/topics":
                return older.replace("/topics", "/destinations")
            return older
    if template == _LISTED:
        return template.replace("/v2/", "/", 1)
    for tree, old in _OLDER.items():
        below = template.removeprefix(tree)
        if below != template and (not below or below.startswith("/")):
            return None if "{namespace}" in below else old + below
    return None


def _documented() -> Iterator[tuple[str, str]]:
    with TABLE.open(newline="") as file:
        for row in csv.DictReader(file):
            paths = [row["path"]]
            if row["path"].startswith(PERSISTENT):
                paths.append(NON_PERSISTENT + row["path"].removeprefix(PERSISTENT))
            for path in paths:
                yield row["method"], path
                old = legacy(path)
                if old is not None:
                    yield row["method"], old


@cache
def routes() -> dict[str, RestRoute]:
    """Return all routes by shape, in the order in which they must be tried."""
    by_shape: dict[str, RestRoute] = {}
    for method, template in _documented():
        by_shape.setdefault(shape(template), RestRoute(template)).methods.add(method)
    return dict(sorted(by_shape.items(), key=lambda item: item[1].order))
