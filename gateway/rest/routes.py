"""Every path of Pulsar's REST interface (``routes.csv``), and which of them we serve.

One table drives routing, the 501 answers of what is not built, the 405 answers, and the tests that walk it. Paths of
equal shape (``{topic}`` here, ``{bundle}`` there) share one entry. The non-persistent tree inherits the persistent one,
the trees for names in four parts those for three.
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
"""Trees of which there is another for names in four parts."""
_OLDER = {
    "/admin/v2/brokers": "/admin/brokers",
    "/admin/v2/broker-stats": "/admin/broker-stats",
    "/admin/v2/clusters": "/admin/clusters",
    "/admin/v2/tenants": "/admin/properties",
    "/admin/v2/resource-quotas": "/admin/resource-quotas",
}
"""Trees that hold no namespaces' names, by their older paths: what they answer is the same."""
_LISTED = "/admin/v2/namespaces/{tenant}"


@dataclass(slots=True)
class Route:
    """One shape of path. ``template`` as documented, with ``{names}``; ``methods`` Pulsar answers on it."""

    template: str
    methods: set[str] = field(default_factory=set)

    @property
    def django_route(self) -> str:
        """The template in Django's syntax, each variable with its converter."""
        template = self.template[1:].replace(LEGACY_NAMESPACE, "<two:namespace>")
        return _VARIABLE.sub(lambda found: f"<{converter(found[1])}:{found[1]}>", template)

    @property
    def order(self) -> list[tuple[bool, str]]:
        """Sort key: at each segment a literal wins over a variable, as in Pulsar."""
        return [("{" in segment, segment) for segment in self.template.split("/")]


def converter(variable: str) -> str:
    """Name of the path converter for a template's variable."""
    if variable in _NUMBERS:
        return "number"
    return "twice" if variable in _TWICE else "seg"


def shape(template: str) -> str:
    """The template without its variables' names; a number is another shape than a name."""
    return _VARIABLE.sub(lambda found: "{number}" if found[1] in _NUMBERS else "{}", template)


def legacy(template: str) -> str | None:
    """The older path of a call: for names in four parts (``tenant/cluster/namespace/topic``) from that for names in
    three, of other calls that of the interface's first version; None when there is no such call."""
    for tree, old in _LEGACY.items():
        if template.startswith(f"{tree}{{tenant}}/{{namespace}}"):
            found = template.replace(tree, old, 1).replace("{namespace}", LEGACY_NAMESPACE, 1)
            if found == f"/admin/namespaces/{{tenant}}/{LEGACY_NAMESPACE}/topics":
                return found.replace("/topics", "/destinations")
            return found
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
def routes() -> dict[str, Route]:
    """All routes by shape, in the order in which they must be tried."""
    found: dict[str, Route] = {}
    for method, template in _documented():
        found.setdefault(shape(template), Route(template)).methods.add(method)
    return dict(sorted(found.items(), key=lambda item: item[1].order))
