"""Copies of their entries that topics would keep if one of the bookies died now. Read from the metadata of all
ledgers, for all bookies at once."""

import heapq
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.ledger.quorum import write_set
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.repair.ledger_listing import children, ledgers
from engine.repair.ledger_owners import owner_of

WEAKEST_MAX = 100
"""Owners that are named for a bookie."""


class WeakOwner(NamedTuple):
    """A topic or other owner of ledgers on a bookie. ``copies``: of its entries with the fewest once the bookie is
    lost; ``size``: bytes of its closed ledgers there, of one copy."""

    owner: str
    ledgers: int
    size: int
    copies: int


@dataclass(slots=True)
class BookieShare:
    """Ledgers that name a bookie. ``size``: bytes that it holds of closed ledgers; ``owners``: number of topics and
    other owners by the copies that they keep without it; ``weakest``: those with the fewest."""

    ledgers: int = 0
    open: int = 0
    size: int = 0
    owners: dict[int, int] = field(default_factory=dict)
    weakest: list[WeakOwner] = field(default_factory=list)


class BlastRadius(NamedTuple):
    """The shares of all bookies that ledgers name, and the number of ledgers that were read."""

    bookies: dict[str, BookieShare]
    ledgers: int


class _Shares:
    """Sums over ledgers. ``serving``: bookies that are registered."""

    def __init__(self, serving: Collection[str]) -> None:
        self._serving = serving
        self._copies: dict[tuple[tuple[str, ...], int], dict[str, int]] = {}
        self._owners: dict[str, dict[str, WeakOwner]] = {}
        self.bookies: dict[str, BookieShare] = {}
        self.ledgers = 0

    def add(self, ledger_id: int, metadata: LedgerMetadata) -> None:
        self.ledgers += 1
        fewest: dict[str, int] = {}
        named: Counter[str] = Counter()
        for segment in metadata.segments:
            named.update(segment.bookies)
            if metadata.state is LedgerState.CLOSED and segment.first > metadata.last_entry:
                continue  # it has no entry
            for bookie, copies in self._without(segment.bookies, metadata.write_quorum).items():
                fewest[bookie] = min(copies, fewest.get(bookie, copies))
        copied = metadata.length * metadata.write_quorum // metadata.ensemble_size
        owner = owner_of(metadata.custom) or f"ledger {ledger_id}"
        for bookie, segments in named.items():
            share = self.bookies.setdefault(bookie, BookieShare())
            share.ledgers += 1
            share.open += metadata.state is not LedgerState.CLOSED
            share.size += copied * segments // len(metadata.segments)
            if bookie in fewest:
                owners = self._owners.setdefault(bookie, {})
                before = owners.get(owner, WeakOwner(owner, 0, 0, fewest[bookie]))
                owners[owner] = WeakOwner(
                    owner,
                    before.ledgers + 1,
                    before.size + metadata.length,
                    min(before.copies, fewest[bookie]),
                )

    def _without(self, ensemble: tuple[str, ...], write_quorum: int) -> dict[str, int]:
        """Return for each bookie of an ensemble the copies of its entries on the other bookies that serve, the
        fewest."""
        key = ensemble, write_quorum
        known = self._copies.get(key)
        if known is None:
            known = self._copies[key] = {}
            for entry in range(len(ensemble)):
                members = [ensemble[i] for i in write_set(entry, len(ensemble), write_quorum)]
                serving = sum(member in self._serving for member in members)
                for member in members:
                    copies = serving - (member in self._serving)
                    known[member] = min(copies, known.get(member, copies))
        return known

    def end(self) -> BlastRadius:
        for bookie, share in self.bookies.items():
            owners = self._owners.pop(bookie, {}).values()
            share.owners = dict(Counter(owner.copies for owner in owners))
            share.weakest = heapq.nsmallest(
                WEAKEST_MAX, owners, key=lambda weak: (weak.copies, -weak.size, weak.owner)
            )
        return BlastRadius(self.bookies, self.ledgers)


async def blast_radius(store: MetadataStore) -> BlastRadius:
    """Read all ledgers. Raises the store's errors."""
    serving = {*await children(store, paths.AVAILABLE), *await children(store, paths.READ_ONLY)}
    shares = _Shares(serving)
    async for batch in ledgers(store):
        for ledger_id, metadata in batch:
            shares.add(ledger_id, metadata)
    return shares.end()
