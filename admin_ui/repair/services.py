"""Changes of repair: the preview of each, and exactly that done."""

from collections.abc import Collection
from typing import Any, NamedTuple

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.repair import selectors
from engine.base.clock import SystemClock
from engine.base.errors import Conflict, InvalidField, NotFound
from engine.metadata import paths
from engine.metadata.store import NoNodeError
from engine.repair.blast_radius import BookieShare
from engine.repair.decommissions import (
    Decommission,
    decommissions,
    read_decommission,
    request_decommission,
    withdraw_decommission,
)
from engine.tenancy.nodes import children
from gateway.clusters.cluster import Cluster
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine
from gateway.services.health.repair_watch import records_of, stored_delay_s

SWITCH, DELAY, AUDIT = "repair-switch", "lost-bookie-delay", "repair-audit"
DECOMMISSION, WITHDRAW = "bookie-decommission", "bookie-decommission-withdraw"


async def preview_switch(cluster: Cluster, engine: Engine, on: bool | None, user: str) -> Json:
    """Return whether auto-recovery would change. Raises InvalidField without ``on``."""
    if on is None:
        raise InvalidField("on", "is required: true or false")
    _, state = await selectors.state_now(cluster, engine)
    content = {"user": user, "on": on}
    return {
        "token": None if state.enabled == on else confirming.sign(engine.cluster, SWITCH, content),
        "at": now_ms(),
        "on": on,
        "ledgers": state.marked.ledgers,
    }


async def switch(cluster: Cluster, engine: Engine, user: str, token: str) -> Json:
    """Turn auto-recovery on or off as previewed. Raises Conflict when it was changed meanwhile."""
    content = confirming.read(engine.cluster, SWITCH, token, {"user": user})
    on = bool(content["on"])
    records = records_of(engine.store)
    if await records.enabled() == on:
        raise Conflict(f"Auto-recovery was turned {'on' if on else 'off'} meanwhile")
    await records.enable(on)
    await cluster.collector.repair.read(engine.store)
    return {"at": now_ms(), "on": on}


async def preview_delay(cluster: Cluster, engine: Engine, seconds: int | None, user: str) -> Json:
    """Return when the ledgers of bookies that are away would be marked. Raises InvalidField without ``seconds``."""
    if seconds is None:
        raise InvalidField("seconds", "is required: time that a lost bookie is waited for")
    bookies, state = await selectors.state_now(cluster, engine)
    content = {"user": user, "seconds": seconds, "before": state.delay_s}
    same = state.delay_s == seconds
    return {
        "token": None if same else confirming.sign(engine.cluster, DELAY, content),
        "at": now_ms(),
        "seconds": seconds,
        "before_s": state.delay_s,
        "lost": selectors.lost(bookies, state, seconds),
    }


async def set_delay(cluster: Cluster, engine: Engine, user: str, token: str) -> Json:
    """Store the previewed delay. Raises Conflict when it was changed meanwhile."""
    content = confirming.read(engine.cluster, DELAY, token, {"user": user})
    records = records_of(engine.store)
    if await stored_delay_s(records) != content["before"]:
        raise Conflict("The delay was changed meanwhile: request a new preview")
    await records.set_delay(content["seconds"])
    await cluster.collector.repair.read(engine.store)
    return {"at": now_ms(), "seconds": content["seconds"]}


async def preview_audit(cluster: Cluster, engine: Engine, user: str) -> Json:
    """Return the bookies whose ledgers an audit would mark."""
    bookies, state = await selectors.state_now(cluster, engine)
    problem = ""
    if not state.enabled:
        problem = "Auto-recovery is turned off"
    elif state.auditor is None or state.delay_s is None:
        problem = "No process is the auditor"
    content = {"user": user}
    return {
        "token": None if problem else confirming.sign(engine.cluster, AUDIT, content),
        "at": now_ms(),
        "problem": problem,
        "lost": selectors.lost(bookies, state, None),
    }


async def audit(cluster: Cluster, engine: Engine, user: str, token: str) -> Json:
    """Ask the auditor for an audit. Raises Conflict before one has run."""
    confirming.read(engine.cluster, AUDIT, token, {"user": user})
    try:
        await records_of(engine.store).trigger_audit()
    except NoNodeError:
        raise Conflict("No auditor has run yet") from None
    return {"at": now_ms()}


async def preview_decommission(cluster: Cluster, engine: Engine, bookie: str, user: str) -> Json:
    """Return what is copied when the bookie is taken out, and whether there is room. Raises NotFound for a bookie
    that has no cookie."""
    plan = await _plan(cluster, engine, bookie)
    rate = cluster.collector.repair.bytes_per_s
    about = _about(bookie, user) | {"drain": plan.drain}
    return {
        "token": None if plan.problem else confirming.sign(engine.cluster, DECOMMISSION, about),
        "at": now_ms(),
        "bookie": bookie,
        "state": plan.state,
        "problem": plan.problem,
        "drain": plan.drain,
        "ledgers": plan.share.ledgers,
        "open": plan.share.open,
        "size": plan.share.size,
        "stored": plan.stored,
        "free": plan.free,
        "others": plan.others,
        "ensemble": plan.ensemble,
        "seconds": plan.needed / rate if rate else None,
        "counts": selectors.counts(plan.share),
    }


class _Plan(NamedTuple):
    """The effects of taking a bookie out. ``drain``: it serves, so that it can be read. ``stored``: bytes that it
    keeps, of open ledgers too, as it last reported; None where that is not known. ``free``: bytes on the other bookies
    that can be copied to; None where not all are known. ``ensemble``: bookies that new ledgers need, None if not
    reported. ``leaving``: other bookies that are to be taken out."""

    state: str
    drain: bool
    share: BookieShare
    stored: int | None
    others: int
    free: int | None
    ensemble: int | None
    leaving: Collection[str]
    hindrance: str

    @property
    def needed(self) -> int:
        """Bytes to copy, as far as they are known: metadata has no size of an open ledger, the bookie has."""
        return max(self.share.size, self.stored or 0)

    @property
    def problem(self) -> str:
        """The reason why the bookie cannot be taken out; empty when it can."""
        if self.hindrance:
            return self.hindrance
        unread = self.share.owners.get(0)
        if unread and not self.drain:
            return f"{unread:,} topics have messages that no other bookie has: start it again"
        if self.ensemble is not None and self.others < self.ensemble:
            return f"{self.others} bookies would be left, and new ledgers need {self.ensemble}"
        if self.free is not None and self.free < self.needed:
            return "The other bookies have too little room for what it holds"
        return ""


async def _plan(cluster: Cluster, engine: Engine, bookie: str) -> _Plan:
    """Return the plan for a bookie as things stand now. Raises NotFound for a bookie that has no cookie."""
    bookies, state = await selectors.state_now(cluster, engine)
    rows = {row["id"]: row for row in bookies}
    if bookie not in rows:
        raise NotFound(f"Bookie {bookie} is not known")
    _, read = await cluster.collector.repair.radius(engine.store)
    # One that is to be taken out as well may still be writable for a moment.
    leaving = state.decommissions.keys() - {bookie}
    others = [
        row for row in bookies if row["id"] not in (bookie, *leaving) and row["state"] == "writable"
    ]
    unknown = any(row["free_bytes"] is None for row in others)
    needs = cluster.collector.attention.needs.all
    hindrance = ""
    if bookie in state.decommissions:
        hindrance = "It is being decommissioned already"
    elif not state.enabled:
        hindrance = "Auto-recovery is turned off: its ledgers would not be copied"
    return _Plan(
        state=rows[bookie]["state"],
        drain=rows[bookie]["state"] != "down",
        share=read.bookies.get(bookie, BookieShare()),
        stored=rows[bookie]["stored_bytes"],
        others=len(others),
        free=None if unknown else sum(row["free_bytes"] for row in others),
        ensemble=max((need.ensemble for need in needs), default=None),
        leaving=leaving,
        hindrance=hindrance,
    )


async def decommission(
    cluster: Cluster, engine: Engine, bookie: str, user: str, token: str
) -> Json:
    """Ask the auditor to take the bookie out. Raises Conflict when it was asked already, the bookie was stopped or has
    returned meanwhile, or what the preview found is no longer so, such as room on the others."""
    content = confirming.read(engine.cluster, DECOMMISSION, token, _about(bookie, user))
    try:
        plan = await _plan(cluster, engine, bookie)
    except NotFound:
        raise Conflict(f"{bookie} was taken out meanwhile") from None
    if plan.problem:
        raise Conflict(f"{plan.problem}: request a new preview")
    if plan.drain != bool(content["drain"]):
        raise Conflict(f"{bookie} {'has registered' if plan.drain else 'was stopped'} meanwhile")
    if not await request_decommission(engine.store, SystemClock(), bookie, user, drain=plan.drain):
        raise Conflict(f"{bookie} is being decommissioned already")
    if other := await _requested_before(engine, bookie, plan.leaving):
        # Each of the two was planned with the room and the bookies of the other.
        await withdraw_decommission(engine.store, bookie)
        raise Conflict(f"{other} is taken out since this moment: request a new preview")
    await cluster.collector.repair.read(engine.store)
    return {"at": now_ms(), "bookie": bookie}


async def _requested_before(engine: Engine, bookie: str, known: Collection[str]) -> str | None:
    """Return a bookie that was not ``known`` to leave, and was requested to before ``bookie`` was; None without one."""
    own = await engine.store.exists(paths.decommission(bookie))
    for other in await children(engine.store, paths.DECOMMISSIONS):
        stat = await engine.store.exists(paths.decommission(other))
        if other not in known and own and stat and stat.creation < own.creation:
            return other
    return None


async def _requested(engine: Engine, bookie: str) -> Decommission:
    # Looked for in the list, since not every text that is given here can be part of a node's path.
    request = (await decommissions(engine.store)).get(bookie)
    if request is None:
        raise NotFound(f"Bookie {bookie} is not being decommissioned")
    return request


async def preview_withdraw(engine: Engine, bookie: str, user: str) -> Json:
    """Return the decommission that would be withdrawn. Raises NotFound without one."""
    request = await _requested(engine, bookie)
    content = _about(bookie, user) | {"since": request.at_ms}
    return {
        "token": confirming.sign(engine.cluster, WITHDRAW, content),
        "at": now_ms(),
        "decommission": selectors.decommission_row(bookie, request),
    }


async def withdraw(cluster: Cluster, engine: Engine, bookie: str, user: str, token: str) -> Json:
    """Withdraw the previewed decommission. Raises Conflict when it ended meanwhile."""
    content = confirming.read(engine.cluster, WITHDRAW, token, _about(bookie, user))
    request = await read_decommission(engine.store, bookie)
    if request is None or request.at_ms != content["since"]:
        raise Conflict(f"The decommission of {bookie} ended meanwhile")
    if not await withdraw_decommission(engine.store, bookie):
        raise Conflict(f"The decommission of {bookie} ended meanwhile")
    await cluster.collector.repair.read(engine.store)
    return {"at": now_ms(), "bookie": bookie}


def _about(bookie: str, user: str) -> dict[str, Any]:
    return {"bookie": bookie, "user": user}
