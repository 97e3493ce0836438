"""Writable bookies compared with the quorums in force: whether topics can be published to. Pure."""

from collections.abc import Iterable
from typing import Any, NamedTuple


class Need(NamedTuple):
    """Quorum sizes that ``topics`` topics of ``namespaces`` namespaces have in force.

    Without topics: the sizes that the next topic would have.
    """

    ensemble: int
    ack_quorum: int
    topics: int = 0
    namespaces: int = 0


class Publishing(NamedTuple):
    """State of publishing in the cluster.

    ``stopped`` topics cannot publish at all; ``held`` topics cannot open another ledger. ``need`` is the largest among
    those that are worst off; ``topics`` and ``namespaces`` count all topics and the namespaces of the worst off.
    ``down`` and ``full`` are ids of bookies.
    """

    writable: int
    bookies: int
    need: Need
    stopped: int
    held: int
    topics: int
    namespaces: int
    down: tuple[str, ...]
    full: tuple[str, ...]

    @property
    def is_stopped(self) -> bool:
        """True while publishes cannot be confirmed, to some topics at least."""
        return self.writable < self.need.ack_quorum

    @property
    def is_stopped_everywhere(self) -> bool:
        return self.is_stopped and self.stopped == self.topics

    @property
    def is_held(self) -> bool:
        """True while open ledgers accept entries and no new ledger can be opened."""
        return not self.is_stopped and self.writable < self.need.ensemble

    @property
    def is_last(self) -> bool:
        """True when the loss of one more bookie stops publishing."""
        return not self.is_stopped and self.writable - 1 < self.need.ack_quorum


class Needs:
    """Quorums in force as brokers report them (``REPLICATION``), by broker."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, Any]] = {}

    def report(self, broker: str, answer: dict[str, Any]) -> None:
        """Replace the broker's previous report."""
        self._reports[broker] = answer

    @property
    def session_ms(self) -> int | None:
        """The shortest session timeout of the brokers; None: unknown."""
        timeouts = (report.get("session_ms") for report in self._reports.values())
        return min((timeout for timeout in timeouts if timeout), default=None)

    @property
    def regions(self) -> tuple[int, str] | None:
        """The number of regions that must have an entry, and the names of those that are written to: of the broker that
        needs most, since its topics are held first. None: no broker has reported them."""
        reports = [report["regions"] for report in self._reports.values() if "regions" in report]
        return max(((least, names) for least, names in reports), default=None)

    @property
    def all(self) -> list[Need]:
        """All distinct needs; empty until a broker has reported.

        The last report of a broker that left counts until another broker has reported its topics: they need as many
        bookies as before.
        """
        sums: dict[tuple[int, int], list[int]] = {}
        for report in self._reports.values():
            for ensemble, _, ack, topics, namespaces in report["topics"]:
                counts = sums.setdefault((ensemble, ack), [0, 0])
                counts[0] += topics
                counts[1] = max(counts[1], namespaces)  # brokers share namespaces
        if not sums:
            sums = {
                (ensemble, ack): [0, 0]
                for ensemble, _, ack in (report["default"] for report in self._reports.values())
            }
        return [Need(*key, *counts) for key, counts in sums.items()]

    def forget(self, known: Iterable[str]) -> None:
        """Keep only the reports of the ``known`` brokers, or all reports when none of those brokers has one."""
        kept = {broker: self._reports[broker] for broker in known if broker in self._reports}
        self._reports = kept or self._reports


def publishing(needs: list[Need], bookies: list[dict[str, Any]]) -> Publishing | None:
    """Compare needs with the rows of ``Bookies``; None until a broker has reported and a bookie is known.

    A bookie that is late counts as it did before.
    """
    if not needs or not bookies:
        return None
    full = tuple(
        str(bookie["id"])
        for bookie in bookies
        if bookie["state"] == "read-only" or (bookie["state"] == "slow" and bookie.get("reason"))
    )
    down = tuple(str(bookie["id"]) for bookie in bookies if bookie["state"] == "down")
    writable = len(bookies) - len(full) - len(down)
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
        down,
        full,
    )
