"""Every path of Pulsar's REST interface (``routes.csv``), and which of them we serve.

One table drives routing, the 501 answers of what is not built, the 405 answers, and the tests that walk it. Paths of
equal shape (``{topic}`` here, ``{bundle}`` there) share one entry. The non-persistent tree inherits the persistent one.
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


@dataclass(slots=True)
class Route:
    """One shape of path. ``template`` as documented, with ``{names}``; ``methods`` Pulsar answers on it."""

    template: str
    methods: set[str] = field(default_factory=set)

    @property
    def django_route(self) -> str:
        """The template in Django's syntax, each variable with its converter."""
        return _VARIABLE.sub(lambda found: f"<{converter(found[1])}:{found[1]}>", self.template[1:])

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


def _documented() -> Iterator[tuple[str, str]]:
    with TABLE.open(newline="") as file:
        for row in csv.DictReader(file):
            yield row["method"], row["path"]
            if row["path"].startswith(PERSISTENT):
                yield row["method"], NON_PERSISTENT + row["path"].removeprefix(PERSISTENT)


@cache
def routes() -> dict[str, Route]:
    """All routes by shape, in the order in which they must be tried."""
    found: dict[str, Route] = {}
    for method, template in _documented():
        found.setdefault(shape(template), Route(template)).methods.add(method)
    return dict(sorted(found.items(), key=lambda item: item[1].order))
