"""The check of a ledger: which members of its ensembles are away or lack entries that they should hold.

A bookie lacks an entry only where it says so. Silence, errors and damage prove nothing: what could not be asked is
``unknown``, and the ledger is looked at again (I42). A member that serves and holds its share keeps its place, whatever
the ledger's mark says (I51).
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from engine.ledger.access import LedgerAccess
from engine.ledger.digest import Digest, DigestType
from engine.ledger.errors import LedgerError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.ledger.quorum import holds, write_set
from engine.ledger.reading.last_confirmed import read_tail
from engine.ledger.reading.read_op import MISSING, RangeRead
from engine.wire import availability
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb
from engine.wire.bookie_commands import EOK

Ranges = list[tuple[int, int]]
"""Entries that a bookie holds: first and last of each run, in order, with gaps between the runs."""


@dataclass(slots=True)
class LedgerFindings:
    """The result of a check. ``lost``: by the first entry of a segment the positions that must be copied to; only
    segments whose end is settled (I34). ``open_lost``: the last segment of a ledger that is not closed has such a
    position. ``unknown``: a member did not answer. ``waited``: a member is away that is not counted as lost yet.
    ``sound``: members that proved to hold the last segment of such a ledger from its first entry on."""

    lost: dict[int, tuple[int, ...]] = field(default_factory=dict)
    open_lost: bool = False
    unknown: bool = False
    waited: bool = False
    sound: dict[str, None] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """True when every member is known to hold what it should."""
        return not (self.lost or self.open_lost or self.unknown or self.waited)

    @property
    def waits(self) -> bool:
        """True when nothing is to be done before a bookie that is away returns, or is counted as lost."""
        return self.waited and not (self.lost or self.open_lost or self.unknown)


def ends(metadata: LedgerMetadata) -> list[tuple[int, int]]:
    """Return first and last entry of each segment whose end is settled; the last is below the first for none."""
    firsts = [segment.first for segment in metadata.segments]
    stops = firsts[1:]
    if metadata.state is LedgerState.CLOSED:
        stops = [*stops, metadata.last_entry + 1]
    return [(first, stop - 1) for first, stop in zip(firsts, stops, strict=False)]


def held_from(position: int, entry: int, size: int, write_quorum: int) -> int:
    """Return the first entry from ``entry`` on that ``position`` holds."""
    gap = (position - entry) % size
    return entry if gap < write_quorum else entry + gap - write_quorum + 1


def lacks(
    ranges: Ranges, first: int, last: int, position: int, size: int, write_quorum: int
) -> bool:
    """Return whether ``ranges`` miss any of the entries ``first`` to ``last`` that ``position`` should hold."""
    at = first
    for low, high in [*ranges, (last + 1, last + 1)]:
        if high < at:
            continue
        stop = min(low, last + 1)
        if at < stop and held_from(position, at, size, write_quorum) < stop:
            return True
        at = high + 1
        if at > last:
            return False
    return False


def fewest_copies(ranges: Sequence[Ranges], first: int, last: int, write_quorum: int) -> int:
    """Return the copies of the entry with the fewest among ``first`` to ``last``, where the bookie at each position of
    the ensemble holds ``ranges``."""
    size = len(ranges)
    bounds = {first, last + 1}
    for held in ranges:
        bounds |= {
            bound for low, high in held for bound in (low, high + 1) if first < bound <= last
        }
    edges = sorted(bounds)
    fewest = write_quorum
    # Between two bounds the same bookies hold everything, so that only the position in the stripe matters.
    for low, below in pairwise(edges):
        has = [any(a <= low and low <= b for a, b in held) for held in ranges]
        for entry in range(low, min(below, low + size)):
            copies = sum(has[position] for position in write_set(entry, size, write_quorum))
            fewest = min(fewest, copies)
    return fewest


async def check(
    access: LedgerAccess,
    metadata: LedgerMetadata,
    lost: Collection[str],
    named: Collection[str] | None = None,
) -> LedgerFindings:
    """Check a ledger. Members in ``lost`` count as lost without being asked, and so do those that are not registered;
    with ``named`` only those of them in it: the others may return in time (I43).

    The registrations must be loaded. Cancel-safe.
    """
    findings = LedgerFindings()
    registered = access.bookies.registrations
    known = {*registered.writable, *registered.read_only}
    serving = {bookie for bookie in known if bookie not in lost}
    members = {bookie: None for segment in metadata.segments for bookie in segment.bookies}
    waited: set[str] = set()
    if named is not None:
        waited = {b for b in members if b not in known and b not in named and b not in lost}
    findings.waited = bool(waited)
    held = await holdings(access, metadata, [bookie for bookie in members if bookie in serving])
    size, write_quorum = metadata.ensemble_size, metadata.write_quorum
    settled = ends(metadata)
    for (first, last), segment in zip(settled, metadata.segments, strict=False):
        positions = []
        for position, bookie in enumerate(segment.bookies):
            if bookie in waited:
                continue
            if bookie not in serving:
                positions.append(position)
                continue
            ranges = held[bookie]
            if last < first:
                continue  # nothing is expected there
            if ranges is None:
                findings.unknown = True
            elif lacks(ranges, first, last, position, size, write_quorum):
                positions.append(position)
        if positions:
            findings.lost[segment.first] = tuple(positions)
    if len(settled) < len(metadata.segments):
        if any(b not in serving and b not in waited for b in metadata.segments[-1].bookies):
            findings.open_lost = True
        await _check_open_end(access, metadata, serving, held, findings)
    return findings


async def _check_open_end(
    access: LedgerAccess,
    metadata: LedgerMetadata,
    serving: Collection[str],
    held: Mapping[str, Ranges | None],
    findings: LedgerFindings,
) -> None:
    """Check the last segment of a ledger that is not closed.

    Only the first entry of each member counts: later ones may be on their way from the writer.
    """
    segment = metadata.segments[-1]
    digest = Digest(metadata.digest or DigestType.CRC32, access.password)
    try:
        confirmed = (await read_tail(access, metadata, digest)).confirmed
    except LedgerError:
        confirmed = -1  # without a view of its end nothing can be expected
    for position, bookie in enumerate(segment.bookies):
        ranges = held.get(bookie)
        if bookie not in serving:
            continue
        size, quorum = metadata.ensemble_size, metadata.write_quorum
        first = held_from(position, segment.first, size, quorum)
        if ranges is None:
            findings.unknown = True
        elif first <= confirmed:
            if lacks(ranges, first, first, position, size, quorum):
                findings.open_lost = True
            else:
                findings.sound[bookie] = None


async def holdings(
    access: LedgerAccess, metadata: LedgerMetadata, bookies: Collection[str]
) -> dict[str, Ranges | None]:
    """Return by bookie the entries of a ledger that it lists; None where it does not answer."""
    links = access.bookies.links
    listed: dict[str, Ranges | None] = dict.fromkeys(bookies)
    listed |= await _listed(access, [bookie for bookie in bookies if links.supports_lists(bookie)])
    for bookie, ranges in listed.items():
        if ranges is None:  # no V3, or no answer: ask for the entries at the ends of its segments
            listed[bookie] = await _sampled(access, metadata, bookie)
    return listed


async def _listed(access: LedgerAccess, bookies: Collection[str]) -> dict[str, Ranges | None]:
    result: dict[str, Ranges | None] = dict.fromkeys(bookies)
    waiting = dict.fromkeys(bookies)
    done = asyncio.Event()

    def answered(bookie: str, response: pb.Response | None) -> None:
        if response is not None and response.status in (pb.ENOLEDGER, pb.ENOENTRY):
            result[bookie] = []
        elif response is not None and response.status == pb.EOK:
            body = response.getListOfEntriesOfLedgerResponse
            try:
                result[bookie] = availability.decode(body.availabilityOfEntriesOfLedger)
            except availability.AvailabilityError:
                result[bookie] = None
        waiting.pop(bookie, None)
        if not waiting:
            done.set()

    def frame(number: int) -> bytes:
        return v3.entries_request(number, access.ledger_id)

    numbers = []
    for bookie in bookies:
        channel = access.bookies.links.v3(bookie)
        numbers.append((channel, channel.request(frame, partial(answered, bookie))))
    try:
        if waiting:
            async with asyncio.timeout(access.settings.read_entry_timeout_s):
                await done.wait()
    except TimeoutError:
        for bookie in waiting:
            access.bookies.links.mark_lists_unanswered(bookie)
    finally:
        for channel, number in numbers:
            channel.forget(number)
    return result


async def _sampled(access: LedgerAccess, metadata: LedgerMetadata, bookie: str) -> Ranges | None:
    """Return what a bookie shows to hold by the first and last entry that it should have of each segment; None when one
    of them is neither there nor denied."""
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    digest = Digest(metadata.digest or DigestType.CRC32, access.password)
    ranges: Ranges = []
    for (first, last), segment in zip(ends(metadata), metadata.segments, strict=False):
        if bookie not in segment.bookies or last < first:
            continue
        position = segment.bookies.index(bookie)
        low = held_from(position, first, size, quorum)
        high = next((e for e in range(last, first - 1, -1) if holds(position, e, size, quorum)), -1)
        if low > high:
            continue
        op = RangeRead(access.ledger_id, first, last + 1, digest)
        op.request(access.bookies.links.reading(bookie), sorted({low, high}))
        try:
            await asyncio.wait((op.done,), timeout=access.settings.read_entry_timeout_s)
            codes = [op.codes[low - first], op.codes[high - first]]
        finally:
            op.close()
        if codes == [EOK, EOK]:
            ranges.append((first, last))
        elif not all(code == EOK or code in MISSING for code in codes):
            return None
    return availability.merged(ranges)
