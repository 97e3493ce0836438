"""The record of the last moves of bundles, ``/loadbalance/moves``: a leader's memory, which the next leader reads (L2).

A leader writes it by compare-and-set before it asks for any move. A broker that was replaced as the leader meanwhile
has read an older version, so its write fails and it moves nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from engine.base.errors import InvalidNameError
from engine.base.names import BundleName, NamespaceName
from engine.metadata.records import Document, RecordFormatError, decode_json, encode_json
from engine.ownership.load.planned import Recent, Transfer

MOVED = "moved"
"""Result of a move that was done."""
NOT_ASKED = "not asked for"
"""Beginning of the result of a move that was planned and that its owner was not asked for."""
MOVES_MAX = 500
"""Moves in the record, about 200 KB."""


class BundleMove(NamedTuple):
    """A move that a leader has asked for at ``at_ms``, epoch milliseconds. ``result``: empty while it is not known."""

    transfer: Transfer
    at_ms: int
    result: str = ""

    def document(self) -> Document:
        """Return the stored form, which the console and REST callers receive, too."""
        return {
            "bundle": str(self.transfer.bundle),
            "source": self.transfer.source,
            "destination": self.transfer.destination,
            "reason": self.transfer.reason,
            "atMs": self.at_ms,
            "result": self.result,
        }


@dataclass(frozen=True, slots=True)
class RecentMoves:
    """The last moves, oldest first, the id of the leader that asked for the newest, and when."""

    leader: str = ""
    cycle_ms: int | None = None
    moves: tuple[BundleMove, ...] = ()

    def recent(self, imbalances: Mapping[str, int]) -> Recent:
        """Return what a plan must know. ``imbalances``: see Recent."""
        moved: dict[BundleName, int] = {}
        homes: dict[BundleName, str] = {}
        fills: dict[str, dict[int, None]] = {}
        for move in self.moves:
            if move.result.startswith(NOT_ASKED):
                continue
            bundle, destination = move.transfer.bundle, move.transfer.destination
            moved[bundle] = max(move.at_ms, moved.get(bundle, 0))
            homes.pop(bundle, None)
            if move.result == MOVED:
                homes[bundle] = destination
            fills.setdefault(destination, {})[move.at_ms] = None
        times = {broker: tuple(cycles) for broker, cycles in fills.items()}
        return Recent(moved, homes, times, self.cycle_ms, imbalances)

    def plus(self, leader: str, transfers: Iterable[Transfer], now_ms: int) -> "RecentMoves":
        """Return the record with moves that ``leader`` is about to ask for."""
        added = tuple(BundleMove(transfer, now_ms) for transfer in transfers)
        return RecentMoves(leader, now_ms, (*self.moves, *added)[-MOVES_MAX:])

    def with_results(self, results: dict[BundleName, str]) -> "RecentMoves":
        """Return the record with the results of the newest moves."""
        moves = tuple(
            move._replace(result=results.get(move.transfer.bundle, move.result))
            if move.at_ms == self.cycle_ms
            else move
            for move in self.moves
        )
        return replace(self, moves=moves)

    def encode(self) -> bytes:
        moves = [move.document() for move in self.moves]
        return encode_json({"leader": self.leader, "cycleMs": self.cycle_ms, "moves": moves})

    @classmethod
    def decode(cls, value: bytes) -> "RecentMoves":
        """Decode a stored record. Raises RecordFormatError."""
        stored = decode_json(value, "recent moves")
        try:
            cycle_ms = stored.get("cycleMs")
            moves = tuple(_move(move) for move in stored.get("moves") or ())
            return cls(
                str(stored.get("leader") or ""), None if cycle_ms is None else int(cycle_ms), moves
            )
        except (KeyError, TypeError, AttributeError, ValueError, InvalidNameError) as error:
            raise RecordFormatError(f"recent moves cannot be read: {error!r}") from error


def _move(stored: Document) -> BundleMove:
    namespace, _, range_text = str(stored["bundle"]).rpartition("/")
    bundle = BundleName.parse(NamespaceName.parse(namespace), range_text)
    places = str(stored["source"]), str(stored["destination"])
    return BundleMove(
        Transfer(bundle, *places, str(stored["reason"])),
        int(stored["atMs"]),
        str(stored.get("result") or ""),
    )
