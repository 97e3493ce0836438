"""The record of the brokers that operators drain, ``/loadbalance/draining``.

A mark is an operator's decision, so only an operator ends it: it outlives the broker's session and its restarts. A
broker that is restarted while it is drained, by a crash or for the maintenance that it is drained for, would receive
bundles again otherwise. A mark takes no broker away from a bundle: a bundle that no other broker may serve is placed on
a drained one, so the mark of a broker that never returns does no harm (L10). Apache's brokers do not read the record.
"""

import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from engine.base.errors import Conflict
from engine.metadata import paths
from engine.metadata.cached import derived
from engine.metadata.records import decode_json, encode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.metadata.update import update

log = logging.getLogger(__name__)

MARKS_MAX = 1_000
"""Brokers that are marked at a time."""
BY_MAX = 200
"""Characters of the name of the operator who drains a broker."""
REASON = "it is being drained"


class DrainMark(NamedTuple):
    """Time at which a broker was marked, epoch milliseconds, and the operator; empty when that is not known."""

    at_ms: int
    by: str = ""


def _decode(value: bytes, path: str) -> Mapping[str, DrainMark]:
    """Return the stored marks; none of an unreadable record, because bundles must find owners without it."""
    try:
        return {
            str(broker): DrainMark(int(mark["atMs"]), str(mark.get("by") or ""))
            for broker, mark in (decode_json(value, path).get("brokers") or {}).items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        log.warning("marks of drained brokers cannot be read: %r", error)
        return {}


def _encode(marks: Mapping[str, DrainMark]) -> bytes:
    return encode_json(
        {"brokers": {name: {"atMs": mark.at_ms, "by": mark.by} for name, mark in marks.items()}}
    )


async def drain_marks(store: MetadataStore) -> Mapping[str, DrainMark]:
    """Return the marks by id of broker, also of brokers that are not registered. Raises the store's errors."""
    try:
        return await derived(store, paths.LOADBALANCE_DRAINING, _decode)
    except NoNodeError:
        return {}


def obstacle(broker_id: str, marks: Collection[str], registered: Collection[str]) -> str:
    """Return why no broker would be left for the bundles of this one; empty when another is left."""
    if set(registered) - {*marks, broker_id}:
        return ""
    drained = ", ".join(sorted(set(registered) & {*marks} - {broker_id}))
    reason = f"all others are drained: {drained}" if drained else "it is the only broker"
    return f"{broker_id} cannot be drained: {reason}, so its bundles have no place"


async def mark_draining(
    store: MetadataStore, broker_id: str, mark: DrainMark, registered: Collection[str]
) -> DrainMark:
    """Mark a broker as being drained and return its mark, the earlier one where it has one.

    Raises Conflict when no other of the ``registered`` brokers would be left without a mark, or too many are marked,
    and the store's errors, after which the broker may be marked. Two operators cannot drain the last two brokers: the
    mark is written only beside the marks that were checked.
    """

    def change(value: bytes) -> bytes | None:
        marks = dict(_decode(value, paths.LOADBALANCE_DRAINING))
        if broker_id in marks:
            return None
        if problem := obstacle(broker_id, marks, registered):
            raise Conflict(problem)
        if len(marks) >= MARKS_MAX:
            raise Conflict(f"{len(marks)} brokers are being drained, at most {MARKS_MAX} can be")
        marks[broker_id] = mark._replace(by=mark.by[:BY_MAX])
        return _encode(marks)

    path = paths.LOADBALANCE_DRAINING
    if not set(registered) - {broker_id}:
        change(b"")
    stored = await update(
        store, path, change, create=lambda: _encode({broker_id: mark._replace(by=mark.by[:BY_MAX])})
    )
    return _decode(stored, path)[broker_id]


async def end_draining(
    store: MetadataStore, broker_id: str, at_ms: int | None = None
) -> DrainMark | None:
    """Remove a broker's mark and return it; None when it had none, or not the one of ``at_ms``, where that is given.

    Raises the store's errors, after which it may be removed.
    """
    removed: DrainMark | None = None

    def change(value: bytes) -> bytes | None:
        nonlocal removed
        marks = dict(_decode(value, paths.LOADBALANCE_DRAINING))
        removed = marks.pop(broker_id, None)
        if removed is None or at_ms not in (None, removed.at_ms):
            removed = None
            return None
        return _encode(marks)

    try:
        await update(store, paths.LOADBALANCE_DRAINING, change)
    except NoNodeError:
        return None
    return removed
