"""Stored copies of ledgers in tiered storage, in Pulsar's layout: the field offloadContext of a ledger. Pure."""

import base64
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from google.protobuf.message import DecodeError

from engine.managed.errors import StoredRecordError
from engine.managed.positions import LedgerSpan
from engine.offload.bucket import NO_BUCKET, Bucket, recorded_bucket
from engine.wire import mledger_pb2 as pb


@dataclass(frozen=True, slots=True)
class Offload:
    """The copy of a ledger in tiered storage.

    ``attempt``: id of the last attempt, None without any. ``complete``: the attempt's objects are all there.
    ``deleted_from_bookies``: the bookies have no copy. ``completed_ms``: wall time, 0 while not complete. ``bucket``:
    its driver is empty when unknown. ``streamed``: the ledger lies in objects of several ledgers, which an offloader
    of another implementation wrote and which are not read here; they count as no copy.
    """

    attempt: uuid.UUID | None = None
    complete: bool = False
    deleted_from_bookies: bool = False
    completed_ms: int = 0
    bucket: Bucket = NO_BUCKET
    streamed: bool = False

    @property
    def is_unreadable(self) -> bool:
        """True when the bookies have no copy, and the only ones are in objects that are not read here (U1)."""
        return self.deleted_from_bookies and self.streamed


class WithExtra(Protocol):
    """A ledger of a topic's list with the stored fields that ``LedgerSpan.extra`` describes."""

    @property
    def extra(self) -> bytes: ...


class DoomedObjects(NamedTuple):
    """Objects of a ledger's ``attempt`` that no list names any more, and that may not be deleted yet."""

    ledger_id: int
    attempt: uuid.UUID
    bucket: Bucket


PARSED_MAX = 8192
"""Stored copies that are kept parsed, because statistics ask for them each time."""
NO_OFFLOAD = Offload()


def offload_of(ledger: WithExtra) -> Offload:
    """Return what is stored of a ledger's copy in tiered storage."""
    return _offload_in(ledger.extra) if ledger.extra else NO_OFFLOAD


@lru_cache(maxsize=PARSED_MAX)
def _offload_in(extra: bytes) -> Offload:
    info = pb.ManagedLedgerInfo.LedgerInfo()
    info.MergeFromString(extra)
    return _offload(info.offloadContext) if info.HasField("offloadContext") else NO_OFFLOAD


def _offload(context: pb.OffloadContext) -> Offload:
    attempt = None
    if context.HasField("uidMsb"):
        attempt = uuid.UUID(bytes=struct.pack(">qq", context.uidMsb, context.uidLsb))
    driver = context.driverMetadata
    bucket = recorded_bucket(driver.name, {pair.key: pair.value for pair in driver.properties})
    return Offload(
        attempt,
        # Without an attempt there is no object that could be read, whatever else is recorded.
        context.complete and attempt is not None,
        context.bookkeeperDeleted,
        context.timestamp,
        bucket,
        attempt is None and bool(context.offloadSegment),
    )


def with_offload(extra: bytes, offload: Offload) -> bytes:
    """Return a ledger's ``extra`` fields with ``offload`` in place of the copy that they describe."""
    info = pb.ManagedLedgerInfo.LedgerInfo()
    info.MergeFromString(extra)
    _put_offload(info.offloadContext, offload)
    return info.SerializePartialToString()


def _put_offload(context: pb.OffloadContext, offload: Offload) -> None:
    attempt = offload.attempt
    assert attempt is not None, "a copy has the id of its attempt"
    context.uidMsb, context.uidLsb = struct.unpack(">qq", attempt.bytes)
    context.complete = offload.complete
    context.bookkeeperDeleted = offload.deleted_from_bookies
    if offload.completed_ms:
        context.timestamp = offload.completed_ms
    else:
        context.ClearField("timestamp")
    context.driverMetadata.Clear()
    context.driverMetadata.name = offload.bucket.driver
    for key, value in offload.bucket.properties.items():
        context.driverMetadata.properties.add(key=key, value=value)


def doomed_objects_of(ledgers: Sequence[LedgerSpan]) -> list[DoomedObjects]:
    """Return the objects that ledgers which leave the list may have in tiered storage."""
    doomed = []
    for ledger in ledgers:
        offload = offload_of(ledger)
        if offload.attempt is not None:
            doomed.append(DoomedObjects(ledger.ledger_id, offload.attempt, offload.bucket))
    return doomed


def doomed_text(doomed: Sequence[DoomedObjects]) -> str:
    """Encode objects as the text of a property."""
    parts = []
    for objects in doomed:
        context = pb.OffloadContext()
        _put_offload(context, Offload(objects.attempt, bucket=objects.bucket))
        parts.append(
            f"{objects.ledger_id}:{base64.b64encode(context.SerializeToString()).decode()}"
        )
    return " ".join(parts)


def doomed_from(text: str) -> list[DoomedObjects]:
    """Decode ``doomed_text``. Raises StoredRecordError."""
    doomed = []
    for part in text.split():
        ledger_id, _, encoded = part.partition(":")
        try:
            context = pb.OffloadContext.FromString(base64.b64decode(encoded, validate=True))
            offload = _offload(context)
            if offload.attempt is not None:
                doomed.append(DoomedObjects(int(ledger_id), offload.attempt, offload.bucket))
        except (ValueError, DecodeError) as error:
            raise StoredRecordError(f"objects to be deleted: {part[:100]!r}: {error}") from error
    return doomed
