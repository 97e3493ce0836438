"""The hops between a console and what it shows: which of them answer, since when they do or do not, what that means and
what to do about it. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from engine.base.errors import NotReady


class Kind(StrEnum):
    """What a hop is. An instance has as many brokers and bookies as are registered, and one of each other."""

    STORE = "store"
    BROKER = "broker"
    BOOKIE = "bookie"
    GATEWAY = "gateway"
    REDIS = "redis"
    SPARK = "spark"
    DATABASE = "database"


KINDS = tuple(Kind)


class HopState(StrEnum):
    """SLOW: it answered a moment ago and is late now. UNKNOWN: it was not asked yet."""

    OK = "ok"
    SLOW = "slow"
    DOWN = "down"
    UNKNOWN = "unknown"


BAD = frozenset((HopState.SLOW, HopState.DOWN))


NAMES = {
    Kind.STORE: "The metadata store",
    Kind.BROKER: "Broker {id}",
    Kind.BOOKIE: "Bookie {id}",
    Kind.GATEWAY: "This gateway",
    Kind.REDIS: "Redis",
    Kind.SPARK: "The analysis worker",
    Kind.DATABASE: "The console's database",
}

ADVICE = {
    Kind.STORE: "See that ZooKeeper runs and has a quorum. Until then nothing can be created, moved or administered.",
    Kind.BROKER: "See that its process runs and read the end of its log; start it again.",
    Kind.BOOKIE: "See that its process runs and its disk is well; start it again. Do not delete its data: ledgers that"
    " only it holds cannot be read until it is back.",
    Kind.GATEWAY: "It has more to do than it can: look at the load of its machine, or run several gateways.",
    Kind.REDIS: "See that Redis runs. Until then analyses are neither started nor followed live; messages are not"
    " affected.",
    Kind.SPARK: "See that the Celery worker runs and read the end of its log; start it again. Analyses wait until then;"
    " messages are not affected.",
    Kind.DATABASE: "See that its disk has room and that no stopped process holds its lock. Until then nothing can be"
    " changed here, since changes are recorded first; messages are not affected.",
}
"""What an operator does next about a hop that does not answer; ``Hops`` adds what it means just now."""


class HopError(NotReady):
    """Something cannot be told because a hop does not answer."""

    def __init__(self, hop: "Hop") -> None:
        super().__init__(f"{hop.reason}. {hop.advice}")
        self.hop = hop.kind.value


@dataclass(slots=True)
class Hop:
    """``since``: when it began to answer, or ceased to, ms. ``reason`` and ``advice`` are empty while it answers.
    ``began``: it ceased at ``since``; else it never answered this process, and may have ceased before."""

    kind: Kind
    id: str
    state: HopState
    since: int
    reason: str
    advice: str
    began: bool = False

    def told(self) -> dict[str, Any]:
        """As of the contract."""
        return {
            "hop": self.kind.value,
            "id": self.id,
            "state": self.state.value,
            "since": self.since,
            "reason": self.reason,
            "advice": self.advice,
        }


class Hops:
    """``now``: ms since the epoch; ``changed`` is called when a hop ceases or begins to answer."""

    def __init__(self, now: Callable[[], int], changed: Callable[[], None] = lambda: None) -> None:
        self.version = 0
        """Grows when ``bad`` are others, or one of them is in another state."""
        self.session_ms: int | None = None
        """How long brokers serve without the metadata store, their session's time-out; None: not known."""
        self._now = now
        self._changed = changed
        self._hops: dict[tuple[Kind, str], Hop] = {}

    def expect(self, kind: Kind, id: str = "") -> Hop:
        """The hop, which from now on belongs to the instance: unknown until it is asked."""
        hop = self._hops.get((kind, id))
        if hop is None:
            hop = Hop(kind, id, HopState.UNKNOWN, self._now(), f"{_name(kind, id)} is asked", "")
            self._hops[kind, id] = hop
        return hop

    def answered(self, kind: Kind, id: str = "") -> None:
        """It is well."""
        hop = self.expect(kind, id)
        if hop.state is not HopState.OK:
            self.version += hop.state in BAD
            hop.state, hop.since = HopState.OK, self._now()
            hop.reason = hop.advice = ""
            self._changed()

    def failed(self, kind: Kind, id: str = "", why: str = "does not answer", *, slow: bool) -> None:
        """It is late, or there is no hope that it answers; ``why`` goes on after its name."""
        hop = self.expect(kind, id)
        before = hop.state
        hop.state = HopState.SLOW if slow else HopState.DOWN
        hop.reason = f"{_name(kind, id)} {why}"
        hop.advice = self._advice(hop)
        self.version += before is not hop.state
        if before not in BAD:
            hop.since, hop.began = self._now(), before is HopState.OK
            self._changed()

    def unknown(self, kind: Kind, id: str = "", why: str = "cannot be asked") -> None:
        """Whether it is well cannot be found out: what it is asked through does not answer, and that one is named."""
        hop = self.expect(kind, id)
        before = hop.state
        hop.state = HopState.UNKNOWN
        hop.reason, hop.advice = f"{_name(kind, id)} {why}", ""
        if before in BAD:
            self.version += 1
            hop.since = self._now()
            self._changed()

    def forget(self, kind: Kind, id: str) -> None:
        """It does not belong to the instance any more."""
        hop = self._hops.pop((kind, id), None)
        if hop is not None and hop.state in BAD:
            self.version += 1
            self._changed()

    def of(self, kind: Kind) -> list[Hop]:
        """All of this kind, by id."""
        return [hop for hop in self.all if hop.kind is kind]

    @property
    def all(self) -> list[Hop]:
        """In the order of ``Kind``, then by id."""
        for hop in self._hops.values():
            hop.advice = self._advice(hop) if hop.state in BAD else ""
        return sorted(self._hops.values(), key=_place)

    @property
    def bad(self) -> list[Hop]:
        """Those that do not answer, as ``all``; one that was not asked yet is not among them."""
        found = [hop for hop in self._hops.values() if hop.state in BAD]
        for hop in found:
            advice = self._advice(hop)
            if advice != hop.advice:  # what it means changed with the time, or with another hop
                hop.advice, self.version = advice, self.version + 1
        return sorted(found, key=_place) if len(found) > 1 else found

    def _advice(self, hop: Hop) -> str:
        """What to do, and what it means now: that depends on the time and on other hops."""
        if hop.kind is Kind.STORE:
            return f"{ADVICE[hop.kind]} {self._without_store(self._now() - hop.since)}"
        if hop.kind is Kind.BROKER:
            others = (one.state for one in self._hops.values() if one.kind is Kind.BROKER)
            return f"{ADVICE[hop.kind]} " + (
                "Its topics go to other brokers when clients ask for them; their last figures are shown meanwhile."
                if HopState.OK in others
                else "No other broker is there to take its topics: they are not served until one is back."
            )
        return ADVICE[hop.kind]

    def _without_store(self, away_ms: int) -> str:
        if self.session_ms is None:
            return "Brokers serve their topics for as long as their sessions last."
        seconds = f"{self.session_ms / 1000:g} s"
        if away_ms < self.session_ms:
            return f"Brokers serve their topics for {seconds} without it, until their sessions end."
        return (
            f"Brokers lose their sessions after {seconds} without it and close their topics: clients are disconnected"
            " until it is back."
        )


def _place(hop: Hop) -> tuple[int, str]:
    return KINDS.index(hop.kind), hop.id


def _name(kind: Kind, id: str) -> str:
    return NAMES[kind].format(id=id)
