"""Hops between a console and the data that it shows: their states, the consequences and the next steps. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from engine.base.errors import NotReady
from engine.metadata.apart.routed import BOOKKEEPER, CONFIGURATION


class Kind(StrEnum):
    """Kind of a hop. Brokers, bookies and functions workers exist as registered; of each other kind there is one.

    A store that is apart from the metadata store has its key of ``engine.metadata.apart.routed.PREFIXES`` as its id.
    """

    STORE = "store"
    BROKER = "broker"
    BOOKIE = "bookie"
    FUNCTIONS = "functions"
    GATEWAY = "gateway"
    REDIS = "redis"
    SPARK = "spark"
    DATABASE = "database"


KINDS = tuple(Kind)


class HopState(StrEnum):
    """State of a hop. SLOW: it is late but answered a moment ago. UNKNOWN: it was not checked yet, or cannot be."""

    OK = "ok"
    SLOW = "slow"
    DOWN = "down"
    UNKNOWN = "unknown"


REST = "rest"
"""Id of the store of a cluster that is reached by its REST interface alone."""

BAD = frozenset((HopState.SLOW, HopState.DOWN))


NAMES = {
    Kind.STORE: "The metadata store",
    Kind.BROKER: "Broker {id}",
    Kind.BOOKIE: "Bookie {id}",
    Kind.FUNCTIONS: "Functions worker {id}",
    Kind.GATEWAY: "This gateway",
    Kind.REDIS: "Redis",
    Kind.SPARK: "The analysis worker",
    Kind.DATABASE: "The console's database",
}
STORES = {
    CONFIGURATION: "The configuration store",
    BOOKKEEPER: "BookKeeper's metadata store",
    REST: "The REST interface of the cluster",
}
"""Names of the stores that may be apart from the metadata store, by id."""
STORE_ADVICE = {
    CONFIGURATION: "Check that it is running and has a quorum. Until then topics are served with the policies that were"
    " read before; what needs tenants, policies, clusters or partitioned topics is refused.",
    BOOKKEEPER: "Check that it is running and has a quorum. Until then brokers write on to the ledgers that are open;"
    " no ledger is created or closed, and bookies lose their registrations.",
    REST: "Check its address, the token and the certificates that this console uses, and that a broker of the cluster"
    " answers. Until then figures are as last known, and nothing can be changed here; other clusters are not"
    " affected.",
}

ADVICE = {
    Kind.STORE: "Check that its server is running, or that its cluster has a quorum. Until then nothing can be created,"
    " moved or administered.",
    Kind.BROKER: "Check that its process is running and read the end of its log, then start it again.",
    Kind.BOOKIE: "Check that its process is running and its disk is healthy, then start it again. Do not delete its"
    " data: ledgers that are stored only there cannot be read until it is back.",
    Kind.FUNCTIONS: "Check that its process is running and read the end of its log, then start it again. Its instances"
    " move to other functions workers when its session ends; without another one they do not run, and messages wait in"
    " their topics.",
    Kind.GATEWAY: "It is overloaded: check the load of its machine, or run several gateways.",
    Kind.REDIS: "Check that Redis is running. Until then analyses are neither started nor updated live; messages are"
    " not affected.",
    Kind.SPARK: "Check that the Celery worker is running and read the end of its log, then start it again. Analyses are"
    " queued until then; messages are not affected.",
    Kind.DATABASE: "Check that its disk has free space and that no stopped process holds its lock. Until then nothing"
    " can be changed here, because changes are recorded first; messages are not affected.",
}
"""Next step of an operator about a hop that does not answer; ``Hops`` adds the present consequences."""


class HopError(NotReady):
    """A request cannot be answered because a hop does not answer."""

    def __init__(self, hop: "Hop") -> None:
        super().__init__(f"{hop.reason}. {hop.advice}")
        self.hop = hop.kind.value


@dataclass(slots=True)
class Hop:
    """A hop and its state.

    ``since``: when the hop began to answer, or stopped, ms since the epoch. ``reason`` and ``advice`` are empty while
    it answers. ``began``: it stopped at ``since``; otherwise it never answered this process, and may have stopped
    before.
    """

    kind: Kind
    id: str
    state: HopState
    since: int
    reason: str
    advice: str
    began: bool = False

    @property
    def is_metadata_store(self) -> bool:
        """True for the store that brokers have their sessions with."""
        return self.kind is Kind.STORE and self.id in ("", REST)

    def as_json(self) -> dict[str, Any]:
        """Return the hop in the form of the console's interface."""
        return {
            "hop": self.kind.value,
            "id": self.id,
            "state": self.state.value,
            "since": self.since,
            "reason": self.reason,
            "advice": self.advice,
        }


class Hops:
    """States of all hops. ``now``: ms since the epoch; ``changed`` is called when a hop starts or stops answering."""

    def __init__(self, now: Callable[[], int], changed: Callable[[], None] = lambda: None) -> None:
        self.version = 0
        """Version of ``bad``; grows when its members, their states or their advice change."""
        self.session_ms: int | None = None
        """Session timeout of the brokers, for which they serve without the metadata store; None: unknown."""
        self._now = now
        self._changed = changed
        self._hops: dict[tuple[Kind, str], Hop] = {}

    def expect(self, kind: Kind, id: str = "") -> Hop:
        """Return the hop; a new one is added in the state UNKNOWN."""
        hop = self._hops.get((kind, id))
        if hop is None:
            hop = Hop(
                kind, id, HopState.UNKNOWN, self._now(), f"{_name(kind, id)} is being checked", ""
            )
            self._hops[kind, id] = hop
        return hop

    def answered(self, kind: Kind, id: str = "") -> None:
        """Record that the hop is well."""
        hop = self.expect(kind, id)
        if hop.state is not HopState.OK:
            self.version += hop.state in BAD
            hop.state, hop.since = HopState.OK, self._now()
            hop.reason = hop.advice = ""
            self._changed()

    def failed(self, kind: Kind, id: str = "", why: str = "does not answer", *, slow: bool) -> None:
        """Record that the hop is late (``slow``) or down; ``why`` continues after its name."""
        hop = self.expect(kind, id)
        before = hop.state
        hop.state = HopState.SLOW if slow else HopState.DOWN
        hop.reason = f"{_name(kind, id)} {why}"
        hop.advice = self._advice(hop)
        self.version += before is not hop.state
        if before not in BAD:
            hop.since, hop.began = self._now(), before is HopState.OK
            self._changed()

    def unknown(self, kind: Kind, id: str = "", why: str = "cannot be checked") -> None:
        """Record that the hop cannot be checked because another hop, named in ``why``, does not answer."""
        hop = self.expect(kind, id)
        before = hop.state
        hop.state = HopState.UNKNOWN
        hop.reason, hop.advice = f"{_name(kind, id)} {why}", ""
        if before in BAD:
            self.version += 1
            hop.since = self._now()
            self._changed()

    def forget(self, kind: Kind, id: str) -> None:
        """Remove a hop that no longer belongs to the instance."""
        hop = self._hops.pop((kind, id), None)
        if hop is not None and hop.state in BAD:
            self.version += 1
            self._changed()

    def of(self, kind: Kind) -> list[Hop]:
        """Return the hops of this kind, by id."""
        return [hop for hop in self.all if hop.kind is kind]

    @property
    def all(self) -> list[Hop]:
        """Hops in the order of ``Kind``, then by id."""
        for hop in self._hops.values():
            hop.advice = self._advice(hop) if hop.state in BAD else ""
        return sorted(self._hops.values(), key=_place)

    @property
    def bad(self) -> list[Hop]:
        """Hops that are late or down, in the order of ``all``; unknown ones are not among them."""
        hops = [hop for hop in self._hops.values() if hop.state in BAD]
        for hop in hops:
            advice = self._advice(hop)
            if advice != hop.advice:  # consequences change with time and with other hops
                hop.advice, self.version = advice, self.version + 1
        return sorted(hops, key=_place) if len(hops) > 1 else hops

    def _advice(self, hop: Hop) -> str:
        """Return the next step and the present consequences, which depend on time and on other hops."""
        if hop.kind is Kind.STORE and hop.id:
            return STORE_ADVICE[hop.id]
        if hop.kind is Kind.STORE:
            return f"{ADVICE[hop.kind]} {self._without_store(self._now() - hop.since)}"
        if hop.kind is Kind.BROKER:
            others = (other.state for other in self._hops.values() if other.kind is Kind.BROKER)
            return f"{ADVICE[hop.kind]} " + (
                "Its topics move to other brokers when clients look them up; until then figures are as last known."
                if HopState.OK in others
                else "No other broker can serve its topics: they are not served until one is back."
            )
        return ADVICE[hop.kind]

    def _without_store(self, away_ms: int) -> str:
        if self.session_ms is None:
            return "Brokers serve their topics until their sessions expire."
        seconds = f"{self.session_ms / 1000:g} s"
        if away_ms < self.session_ms:
            return (
                f"Brokers serve their topics for {seconds} without it, until their sessions expire."
            )
        return (
            f"Brokers lose their sessions after {seconds} without it and close their topics: clients are disconnected"
            " until it is back."
        )


def _place(hop: Hop) -> tuple[int, str]:
    return KINDS.index(hop.kind), hop.id


def _name(kind: Kind, id: str) -> str:
    return STORES[id] if kind is Kind.STORE and id else NAMES[kind].format(id=id)
