"""Usage added up by topic, namespace, tenant and day. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from engine.base.names import TopicName, split_partition

GB = 1_000_000_000


class UsedAmounts(NamedTuple):
    """Amounts of a topic or an owner of topics.

    ``published``: stored bytes, of one copy, of what was published. ``stored``: bytes of all copies on the bookies.
    """

    messages: int = 0
    published: int = 0
    stored: int = 0

    def plus(self, other: "UsedAmounts") -> "UsedAmounts":
        return UsedAmounts(*(a + b for a, b in zip(self, other, strict=True)))


class Prices(NamedTuple):
    """Prices of a GB; ``stored`` for a month."""

    published: float = 0
    stored: float = 0

    def cost(self, usage: UsedAmounts) -> float | None:
        """Return what a usage costs; None without prices."""
        if not any(self):
            return None
        return (usage.published * self.published + usage.stored * self.stored) / GB


def whole_topic(name: str) -> str:
    """Return the topic of a partition; of a topic that is not partitioned its own name."""
    return split_partition(name)[0] or name


def namespace_of(topic: str) -> str:
    return str(TopicName.parse(topic).namespace)


def tenant_of(topic: str) -> str:
    return TopicName.parse(topic).tenant


def usage_by(
    named: Callable[[str], str],
    days: Mapping[tuple[str, int], UsedAmounts],
    stored: Mapping[str, int],
) -> list[tuple[str, UsedAmounts]]:
    """Return the usage by ``named(topic)``, the largest first.

    ``days``: by topic or partition and day. ``stored``: bytes of all copies by topic or partition.
    """
    sums: defaultdict[str, UsedAmounts] = defaultdict(UsedAmounts)
    parts: Iterable[tuple[str, UsedAmounts]] = [
        *((topic, usage) for (topic, _), usage in days.items()),
        *((topic, UsedAmounts(stored=size)) for topic, size in stored.items()),
    ]
    for topic, usage in parts:
        name = named(topic)
        sums[name] = sums[name].plus(usage)
    return sorted(sums.items(), key=lambda item: (-item[1].stored, -item[1].published, item[0]))


def usage_by_day(days: Mapping[tuple[str, int], UsedAmounts]) -> list[tuple[int, UsedAmounts]]:
    sums: defaultdict[int, UsedAmounts] = defaultdict(UsedAmounts)
    for (_, day), usage in days.items():
        sums[day] = sums[day].plus(usage)
    return sorted(sums.items())
