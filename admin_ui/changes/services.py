"""The states of change sets, which only the database decides: all changes are made by compare-and-set
(J10)."""

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from admin_ui.confirming import Json
from admin_ui.models import ChangeItem, ChangeSet, ChangeState, ItemState
from engine.base.errors import Conflict, NotFound
from gateway.services.clock import now_ms

OBJECTS_MAX = 10_000
SETS_PER_ROLE_MAX, SETS_MAX = 200, 1_000
"""Numbers of sets that are kept of a role, and of all; of more, the oldest that have ended are removed."""
LEASE_MS = 30_000
SENT_PATIENCE_MS = 20_000
"""Time after which a worker is requested again for a set that none has claimed."""
OPEN = (ChangeState.PLANNING, ChangeState.RUNNING)
"""States in which a worker has something to do."""
ENDED = (ChangeState.FINISHED, ChangeState.CANCELLED, ChangeState.STOPPED, ChangeState.PLANNED)
AGAIN = (ItemState.REFUSED, ItemState.FAILED, ItemState.UNKNOWN)
"""States of objects that a retry previews again."""
LOST = "The worker was lost while it was changed: look at the object, or preview it again"
NOTHING = "Nothing is to be changed"


def create(*, targets: Iterable[tuple[str, str, Json | None]], **fields: Any) -> ChangeSet:
    """Create a set that is to be previewed. ``targets``: names of topics and subscriptions, and what the preview of one
    needs."""
    made = ChangeSet(id=secrets.token_hex(8), created_at=now_ms(), **fields)
    with transaction.atomic():
        made.save(force_insert=True)
        ChangeItem.objects.bulk_create(
            (
                ChangeItem(change_set=made, topic=topic, subscription=subscription, content=content)
                for topic, subscription, content in targets
            ),
            batch_size=500,
        )
        # Of the role itself first: one that makes many must not remove the previews of others.
        _remove_old(ChangeSet.objects.filter(role=made.role), SETS_PER_ROLE_MAX)
        _remove_old(ChangeSet.objects.all(), SETS_MAX)
    return made


def _remove_old(sets: QuerySet[ChangeSet], kept: int) -> None:
    """Remove some of the oldest beyond ``kept`` that have ended."""
    ids = sets.order_by("-created_at", "-id").values_list("id", flat=True)
    old = list(ids[kept : kept + 10])
    ChangeSet.objects.filter(id__in=old, state__in=ENDED).delete()


def get(*, set_id: str) -> ChangeSet:
    """Return a set. Raises NotFound."""
    known = ChangeSet.objects.filter(id=set_id).first()
    if known is None:
        raise no_set(set_id)
    return known


def no_set(set_id: str) -> NotFound:
    """Return the error of a set that does not exist, or not for the caller."""
    return NotFound(f"there is no change set {set_id!r}")


def counts(set_ids: Sequence[str]) -> dict[str, Counter[str]]:
    """Return the numbers of objects by state, of each set."""
    from django.db.models import Count

    rows = ChangeItem.objects.filter(change_set__in=set_ids).order_by()
    numbers: dict[str, Counter[str]] = {set_id: Counter() for set_id in set_ids}
    for set_id, state, count in rows.values_list("change_set", "state").annotate(Count("id")):
        numbers[set_id][state] = count
    return numbers


def totals(known: ChangeSet) -> Json:
    """Return the sums of the previewed effects, and the numbers of objects that they do not have: of what a
    confirmation would do, and of a set that runs or is over of what is planned or done."""
    rows = ChangeItem.objects.filter(change_set=known).exclude(effect=None)
    if known.state in (ChangeState.PLANNED, ChangeState.STOPPED):
        rows = rows.filter(state=ItemState.PLANNED)
    not_made = (ItemState.REFUSED, ItemState.WAITING, ItemState.FAILED)
    effects = rows.exclude(state__in=not_made)
    sums = {"messages": 0, "entries": 0, "bytes": 0, "clients": 0, "again": 0}
    unknown = dict.fromkeys(sums, 0)
    is_exact = True
    for effect in effects.values_list("effect", flat=True).iterator():
        is_exact = is_exact and effect["exact"]
        for name in sums:
            value = effect.get(name, 0)
            if value is None:
                unknown[name] += 1
            else:
                sums[name] += value
    return {**sums, "unknown": unknown, "exact": is_exact}


# --- called for owners ------------------------------------------------------------------------------------------------


def confirm(*, set_id: str, digest: str) -> ChangeSet:
    """Let exactly what was previewed be made; a stopped set is continued. Raises NotFound, Conflict."""
    known = get(set_id=set_id)
    if known.state not in (ChangeState.PLANNED, ChangeState.STOPPED):
        raise Conflict(f"The change set is {known.state}: only a previewed one is confirmed")
    if not digest or digest != known.digest:
        raise Conflict("The preview is not this one any more: look at it again")
    now = now_ms()
    changed = ChangeSet.objects.filter(id=set_id, state=known.state, digest=digest).update(
        state=ChangeState.RUNNING, stop_requested=False, confirmed_at=now, ended_at=None, **_sent()
    )
    if not changed:
        raise Conflict("The change set was changed meanwhile: look at it again")
    return get(set_id=set_id)


def stop(*, set_id: str) -> ChangeSet:
    """Stop a set that runs after the objects that are being changed, or cancel one that is not confirmed. One that has
    ended stays as it is. Raises NotFound."""
    unconfirmed = Q(state=ChangeState.PLANNING) | Q(state=ChangeState.PLANNED, confirmed_at=None)
    rows = ChangeSet.objects.filter(id=set_id)
    if not rows.filter(unconfirmed).update(state=ChangeState.CANCELLED, ended_at=now_ms()):
        held = rows.filter(state=ChangeState.RUNNING)
        if _is_left(set_id):
            held.filter(lease_until_ms=0).update(state=ChangeState.STOPPED, ended_at=now_ms())
        held.update(stop_requested=True)
    return get(set_id=set_id)


def retry(*, set_id: str) -> ChangeSet:
    """Preview again what was refused, what failed, and what is not known to be done. It is then to be confirmed again.
    Raises NotFound, and Conflict where nothing of this kind is left."""
    known = get(set_id=set_id)
    rows = ChangeSet.objects.filter(
        id=set_id, state__in=(ChangeState.PLANNED, ChangeState.STOPPED, ChangeState.FINISHED)
    )
    with transaction.atomic():
        if not rows.update(state=ChangeState.PLANNING, stop_requested=False, digest="", **_sent()):
            raise Conflict(
                f"The change set is {known.state}: what failed is retried when it is over"
            )
        again = ChangeItem.objects.filter(change_set=set_id, state__in=AGAIN)
        if not again.update(state=ItemState.WAITING, effect=None, reason=""):
            raise Conflict("Nothing failed and nothing was refused")
    return get(set_id=set_id)


def _sent() -> dict[str, Any]:
    return {"lease_until_ms": 0, "sent_at_ms": now_ms()}


# --- called by workers ------------------------------------------------------------------------------------------------


def unclaimed() -> list[str]:
    """Return the sets that a worker is to be requested for: those whose worker was lost, and those whose request was.
    Each is returned once in SENT_PATIENCE_MS, to one caller."""
    now = now_ms()
    lost = Q(lease_until_ms__gt=0, lease_until_ms__lt=now)
    unsent = Q(lease_until_ms=0, sent_at_ms__lt=now - SENT_PATIENCE_MS)
    idle = ChangeSet.objects.filter(lost | unsent, state__in=OPEN)
    return [
        row.id
        for row in idle
        if ChangeSet.objects.filter(
            id=row.id, sent_at_ms=row.sent_at_ms, lease_until_ms=row.lease_until_ms
        ).update(lease_until_ms=0, sent_at_ms=now)
    ]


def claim(*, set_id: str) -> ChangeSet | None:
    """Claim a set for this worker; None when there is nothing to do, or another worker has it.

    Objects that a lost worker was changing are not changed again by themselves.
    """
    now = now_ms()
    rows = ChangeSet.objects.filter(id=set_id, state__in=OPEN, lease_until_ms__lt=now)
    with transaction.atomic():
        if not rows.update(attempt=F("attempt") + 1, lease_until_ms=now + LEASE_MS):
            return None
        ChangeItem.objects.filter(change_set=set_id, state=ItemState.APPLYING).update(
            state=ItemState.UNKNOWN, reason=LOST
        )
        return get(set_id=set_id)


def _held(claimed: ChangeSet) -> QuerySet[ChangeSet]:
    """Return the query of the set's row, empty when another worker has it or its state changed."""
    return ChangeSet.objects.filter(
        id=claimed.id, attempt=claimed.attempt, state=claimed.state, lease_until_ms__gt=0
    )


def next_items(claimed: ChangeSet, count: int) -> list[ChangeItem]:
    """Renew the lease and return the next objects to preview, or to change, which are then marked so; none when the
    worker has nothing more to do on this set."""
    state = ItemState.WAITING if claimed.state == ChangeState.PLANNING else ItemState.PLANNED
    with transaction.atomic():
        held = _held(claimed).filter(stop_requested=False)
        if not held.update(lease_until_ms=now_ms() + LEASE_MS):
            return []
        items = list(ChangeItem.objects.filter(change_set=claimed.id, state=state)[:count])
        if claimed.state == ChangeState.RUNNING:
            keys = [item.pk for item in items]
            ChangeItem.objects.filter(pk__in=keys).update(state=ItemState.APPLYING)
        return items


def store(claimed: ChangeSet, items: Sequence[ChangeItem]) -> bool:
    """Store what became of objects; return False, without a change, when another worker has the set by now."""
    with transaction.atomic():
        if not _held(claimed).update(lease_until_ms=now_ms() + LEASE_MS):
            return False
        ChangeItem.objects.bulk_update(
            items, ("state", "content", "effect", "result", "reason"), batch_size=100
        )
    return True


def end(claimed: ChangeSet) -> None:
    """End the work on a set whose objects are all previewed or changed, or which was stopped."""
    now = now_ms()
    free: Mapping[str, Any] = {"lease_until_ms": 0}
    with transaction.atomic():
        if claimed.state == ChangeState.PLANNING:
            _held(claimed).update(
                **free, state=ChangeState.PLANNED, planned_at=now, digest=_digest(claimed.id)
            )
            return
        stopped = _held(claimed).filter(stop_requested=True)
        # A set that was stopped during its last object has nothing left to continue with.
        if not _is_left(claimed.id) or not stopped.update(
            **free, state=ChangeState.STOPPED, ended_at=now
        ):
            _held(claimed).update(**free, state=ChangeState.FINISHED, ended_at=now)


def _is_left(set_id: str) -> bool:
    """Return whether an object is planned and not changed."""
    return ChangeItem.objects.filter(change_set=set_id, state=ItemState.PLANNED).exists()


def _digest(set_id: str) -> str:
    """Return the hash of the exact list that is planned, with what is to be done to each object."""
    digest = hashlib.sha256()
    planned = ChangeItem.objects.filter(change_set=set_id, state=ItemState.PLANNED)
    for row in planned.values_list("topic", "subscription", "content").iterator():
        digest.update(json.dumps(row, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()
