"""The work on a change set, in a worker: its objects are previewed, or changed as previewed, some at a time.

Each object is judged by the role of the set's owner when it is previewed and again when it is changed, and each change
has an entry in the audit log, committed before it.
"""

import asyncio
import json
import logging
from itertools import groupby

from django.db import close_old_connections

from admin_ui.audit.audit_writer import AuditWriter, NotRecordedError
from admin_ui.audit.changed import GIVEN_CHARS_MAX, changes_text
from admin_ui.changes import services
from admin_ui.changes.change_kinds import KINDS, ChangeKind, DefinedTarget, Doing, Target
from admin_ui.changes.definition_files import Defined
from admin_ui.confirming import Json
from admin_ui.models import AuditEntry, ChangeItem, ChangeSet, ChangeState, ItemState
from engine.auth.identity import Identity
from engine.base.errors import MagnetarError, NotFound, Refusal
from engine.metadata import account
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import Clusters
from gateway.http.auth.access import authorize_needs
from gateway.http.errors import describe
from gateway.services.clock import now_ms

log = logging.getLogger(__name__)

AT_ONCE = 16
ITEM_S = 20.0
"""Longest time for one object; less than the lease of a set."""
UNKNOWN = "It is not known whether it was changed: look at the object. "
NOT_RECORDED = "The audit log cannot be written, so it was not changed"

unfinished = services.unclaimed


def perform(clusters: Clusters, set_id: str) -> None:
    """Do all work on a set that can be done now. Blocks; not to be called on the clusters' loop."""
    claimed = services.claim(set_id=set_id)
    if claimed is None:
        return
    try:
        cluster = clusters.named(claimed.cluster)
    except NotFound as error:
        cluster, missing = None, str(error)
    else:
        missing = ""
    while items := services.next_items(claimed, AT_ONCE):
        if cluster is None:
            for item in items:
                _refuse(claimed, item, missing)
        else:
            work = _on_all(clusters, cluster, claimed, items)
            asyncio.run_coroutine_threadsafe(work, cluster.link.loop).result()
        if not services.store(claimed, items):
            log.warning("late outcomes of a change set dropped id=%s", claimed.id)
            return
    services.end(claimed)
    close_old_connections()


async def _on_all(
    clusters: Clusters, cluster: Cluster, claimed: ChangeSet, items: list[ChangeItem]
) -> None:
    """Work on the objects at once; on defined ones level by level, because they are below each other."""
    for _, group in groupby(items, key=lambda item: _level(claimed, item)):
        await asyncio.gather(*(_on_one(clusters, cluster, claimed, item) for item in group))


def _level(claimed: ChangeSet, item: ChangeItem) -> int:
    is_file = KINDS[claimed.kind].of == "definitions"
    return Defined(item.topic, item.subscription).level if is_file else 0


async def _on_one(
    clusters: Clusters, cluster: Cluster, claimed: ChangeSet, item: ChangeItem
) -> None:
    """Preview or change one object; its outcome is set in ``item``."""
    kind = KINDS[claimed.kind]
    is_preview = claimed.state == ChangeState.PLANNING
    try:
        target = kind.target(item.topic, item.subscription, item.content)
        async with asyncio.timeout(ITEM_S):
            engine = await cluster.link.engine()
            await authorize_needs(target.needs, Identity(claimed.role or None), cluster)
    except (MagnetarError, TimeoutError, OSError) as error:
        _refuse(claimed, item, describe(error)[1])
        return
    doing = Doing(
        cluster, engine._replace(principal=claimed.role), claimed.created_by, claimed.arguments
    )
    if is_preview:
        await _preview(kind, doing, target, claimed, item)
        return
    entry = _entry(claimed, item, kind, target)
    writer = clusters.part(AuditWriter)
    try:
        await writer.begin(entry)
    except NotRecordedError:
        _refuse(claimed, item, NOT_RECORDED)
        return
    with account.opened() as accounted:
        status = await _change(kind, doing, target, item)
    await writer.end(entry, status, changes_text(accounted))


async def _preview(
    kind: ChangeKind, doing: Doing, target: Target, claimed: ChangeSet, item: ChangeItem
) -> None:
    try:
        async with asyncio.timeout(ITEM_S):
            content, effect = await kind.plan(doing, target)
    except Exception as error:
        _refuse(claimed, item, _reason(error, item))
        return
    item.content, item.effect = content, effect
    item.state = ItemState.PLANNED if content is not None else ItemState.REFUSED
    item.reason = "" if content is not None else services.NOTHING


async def _change(kind: ChangeKind, doing: Doing, target: Target, item: ChangeItem) -> int:
    """Make the planned change and return the status that the same change of one object would answer."""
    try:
        async with asyncio.timeout(ITEM_S):
            item.result = await kind.apply(doing, target, item.content)
    except Exception as error:
        status, reason = describe(error, changing=True)
        refused = isinstance(error, Refusal) and not error.retriable
        item.state = ItemState.FAILED if refused else ItemState.UNKNOWN
        item.reason = reason if refused else UNKNOWN + _reason(error, item)
        return status
    item.state, item.reason = ItemState.DONE, ""
    return 200


def _refuse(claimed: ChangeSet, item: ChangeItem, reason: str) -> None:
    """Set that nothing was done to the object."""
    is_preview = claimed.state == ChangeState.PLANNING
    item.state = ItemState.REFUSED if is_preview else ItemState.FAILED
    item.reason = reason


def _reason(error: Exception, item: ChangeItem) -> str:
    status, reason = describe(error)
    if status == 500:
        log.error("an object of a change set failed topic=%s", item.topic, exc_info=error)
    return reason


def _entry(claimed: ChangeSet, item: ChangeItem, kind: ChangeKind, target: Target) -> AuditEntry:
    """Return the audit entry of one change. All of a set have its id as their request id."""
    tenant, namespace, topic = target.place
    given: Json = {"subscription": item.subscription} if item.subscription else {}
    if isinstance(target, DefinedTarget):
        given["wanted"] = target.wanted
    return AuditEntry(
        at_ms=now_ms(),
        actor=claimed.created_by[:255],
        address=claimed.address,
        method="POST",
        target=f"/api/v1/clusters/{claimed.cluster}/changes/{claimed.id}"[:4096],
        request_id=claimed.id,
        given=json.dumps({**given, **claimed.arguments}, ensure_ascii=False)[:GIVEN_CHARS_MAX],
        role=claimed.role[:255],
        operation=kind.operation,
        cluster=claimed.cluster,
        tenant=tenant[:255],
        namespace=namespace[:512],
        topic=topic[:512],
    )
