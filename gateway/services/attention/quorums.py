"""Whether anything can be published: how many bookies are writable, and how many the ledgers need. Pure."""

from collections.abc import Iterable
from typing import Any, NamedTuple


class Need(NamedTuple):
    """What ``topics`` topics of ``namespaces`` namespaces have in force; none: what the next one would have."""

    ensemble: int
    ack_quorum: int
    topics: int = 0
    namespaces: int = 0


class Publishing(NamedTuple):
    """How publishing stands. ``stopped``: topics that cannot publish, ``held``: that cannot begin another ledger;
    ``need``: the hardest of those that are the worst off. ``away`` and ``full``: ids of bookies."""

    writable: int
    bookies: int
    need: Need
    stopped: int
    held: int
    topics: int
    namespaces: int
    """Of those that ``need`` is said of."""
    away: tuple[str, ...]
    full: tuple[str, ...]

    @property
    def is_stopped(self) -> bool:
        """Nothing is acknowledged, at least of some topics."""
        return self.writable < self.need.ack_quorum

    @property
    def is_stopped_everywhere(self) -> bool:
        return self.is_stopped and self.stopped == self.topics

    @property
    def is_held(self) -> bool:
        """Open ledgers go on, and no other can be made."""
        return not self.is_stopped and self.writable < self.need.ensemble

    @property
    def is_last(self) -> bool:
        """Publishing stops with the next bookie."""
        return not self.is_stopped and self.writable - 1 < self.need.ack_quorum


class Needs:
    """What brokers report (``REPLICATION``), by broker. ``session_ms``: the shortest of their sessions' time-outs."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, Any]] = {}

    def report(self, broker: str, answer: dict[str, Any]) -> None:
        """Replace what the broker reported before."""
        self._reports[broker] = answer

    @property
    def session_ms(self) -> int | None:
        found = [one["session_ms"] for one in self._reports.values() if one.get("session_ms")]
        return min(found, default=None)

    @property
    def all(self) -> list[Need]:
        """Each different need once; empty while no broker reported. A broker that is gone counts with its last report
        until another one has reported its topics, for they still need as many bookies."""
        sums: dict[tuple[int, int], list[int]] = {}
        for report in self._reports.values():
            for ensemble, _, ack, topics, namespaces in report["topics"]:
                counts = sums.setdefault((ensemble, ack), [0, 0])
                counts[0] += topics
                counts[1] = max(counts[1], namespaces)  # brokers share namespaces
        if not sums:
            sums = {
                (ensemble, ack): [0, 0]
                for ensemble, _, ack in (one["default"] for one in self._reports.values())
            }
        return [Need(*key, *counts) for key, counts in sums.items()]

    def forget(self, known: Iterable[str]) -> None:
        """Keep only reports of these brokers, unless none is left."""
        left = {broker: self._reports[broker] for broker in known if broker in self._reports}
        self._reports = left or self._reports


def publishing(needs: list[Need], bookies: list[dict[str, Any]]) -> Publishing | None:
    """By the rows of ``Bookies``; None while no broker reported or no bookie is known. A bookie that is late counts as
    it was before."""
    if not needs or not bookies:
        return None
    full = tuple(
        str(one["id"])
        for one in bookies
        if one["state"] == "read-only" or (one["state"] == "slow" and one.get("reason"))
    )
    away = tuple(str(one["id"]) for one in bookies if one["state"] == "down")
    writable = len(bookies) - len(full) - len(away)
    stopped = [need for need in needs if writable < need.ack_quorum]
    held = [need for need in needs if need.ack_quorum <= writable < need.ensemble]
    worst = stopped or held or needs
    return Publishing(
        writable,
        len(bookies),
        max(worst, key=lambda need: (need.ack_quorum, need.ensemble)),
        sum(need.topics for need in stopped),
        sum(need.topics for need in held),
        sum(need.topics for need in needs),
        sum(need.namespaces for need in worst),
        away,
        full,
    )
