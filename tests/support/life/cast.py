"""The scripted life of an instance: its topics, their users and their backlogs. Pure.

Sixteen topics with a story each, one more with a schema (``described``), and two hundred small ones with one to six
messages in flight, some of which have names that are hard to show, to quote or to put into an address.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

CLUSTER = "standalone"
NAMESPACES = {
    "shop": ("orders", "returns"),
    "billing": ("ledger", "mail"),
    "logistics": ("fleet",),
    "telemetry": ("sensors", "clicks"),
    "archive": ("2025-q4",),
}
"""Tenant → its namespaces."""

UNACKED_MAX = 3_000
"""Messages that a consumer of this instance may hold unacknowledged."""

SMALL = 200
IN_FLIGHT_MAX = 6
PARTITIONS = 4


class Role(Enum):
    """The behaviour of a subscription's consumers."""

    HEALTHY = "acknowledges everything at once"
    SLOW = "acknowledges fewer than arrive"
    STUCK = "receives everything and acknowledges nothing"
    NO_PERMITS = "is connected and never asks for messages"
    ORPHANED = "nobody"
    NACKING = "gives everything back"
    HOT_KEY = "one of two is slow and has nearly all keys' messages"
    DELAYED = "waits for messages that are due tomorrow"
    EXCLUSIVE = "acknowledges everything; a second one is refused"
    BLOCKED = "holds as many messages unacknowledged as it may"
    SMALL = "acknowledges what came before the last one to six messages"
    AT_REST = "nobody, and its topic is loaded by no broker"


KEPT = frozenset(
    {
        *(Role.STUCK, Role.NO_PERMITS, Role.ORPHANED, Role.NACKING),
        *(Role.DELAYED, Role.BLOCKED, Role.AT_REST),
    }
)
"""Roles that never acknowledge: the backlog is exactly what was published."""


@dataclass(frozen=True, slots=True)
class Story:
    """A topic and its one subscription. ``waiting``: messages published before the life begins."""

    topic: str
    subscription: str
    role: Role | None
    waiting: int = 0
    per_s: float = 0.0
    partitions: int = 0

    @property
    def path(self) -> str:
        """The path below ``/admin/v2`` and ``/c/<cluster>/t``, without the domain; not quoted."""
        return self.topic.partition("://")[2]


STORIES: Sequence[Story] = (
    Story("persistent://shop/orders/checkout", "fulfilment", Role.HEALTHY, per_s=20),
    Story("persistent://shop/orders/invoices", "archiver", Role.ORPHANED, waiting=12_000, per_s=5),
    Story("persistent://shop/orders/exclusive", "one-only", Role.EXCLUSIVE, per_s=1),
    Story(
        "persistent://shop/orders/parts", "packing", Role.HEALTHY, per_s=4, partitions=PARTITIONS
    ),
    Story(
        "persistent://shop/returns/parts-unread",
        "nobody-yet",
        Role.ORPHANED,
        waiting=400,
        partitions=PARTITIONS,
    ),
    Story("persistent://billing/ledger/payments", "settlement", Role.STUCK, waiting=2_800),
    Story("persistent://billing/ledger/refunds", "reports", Role.NO_PERMITS, waiting=1_500),
    Story("persistent://billing/mail/statements", "mailer", Role.BLOCKED, waiting=5_000),
    Story("persistent://logistics/fleet/positions", "map", Role.SLOW, waiting=800, per_s=12),
    Story("persistent://logistics/fleet/alarms", "pager", Role.NACKING, waiting=30),
    Story("persistent://telemetry/sensors/readings", "rollup", Role.HOT_KEY, per_s=6),
    Story("persistent://telemetry/sensors/reminders", "due", Role.DELAYED, waiting=150),
    Story("persistent://telemetry/sensors/kept", "", None, waiting=50),
    Story("non-persistent://telemetry/sensors/ticks", "screen", Role.HEALTHY, per_s=5),
    Story("non-persistent://telemetry/sensors/unheard", "", None, per_s=1),
    Story("persistent://archive/2025-q4/at-rest", "auditor", Role.AT_REST, waiting=500),
)

HOSTILE = (
    "100%",
    "%2F%00%zz",
    "a+b c",
    'it\'s "quoted" `here`',
    "<script>alert(1)",
    "<img src=x onerror=alert(1)>",
    "?q=1&sort=-backlog#end",
    "заказы-Москва",
    "注文-東京",
    "طلبات",
    "\N{ROCKET}\N{FIRE}-launch",
    "very-long-" + "0123456789" * 19,
    "null",
    "-1",
    "{{constructor}}",
)
"""Local names of small topics that are hard to show, to quote and to route by."""

_HOMES = [f"{tenant}/{namespace}" for tenant, ours in NAMESPACES.items() for namespace in ours]


def small_topics() -> list[Story]:
    """Return the two hundred small topics, hostile names first. Their subscriptions have the same hostile names."""
    plain = [f"noise-{number:03}" for number in range(SMALL - len(HOSTILE))]
    return [
        Story(
            f"persistent://{_HOMES[i % len(_HOMES)]}/{local}",
            local if local in HOSTILE else "reader",
            Role.SMALL,
            per_s=0.1,
        )
        for i, local in enumerate([*HOSTILE, *plain])
    ]
