"""Change or removal of a bookie's rack: the preview, and the change that its token confirms."""

from collections.abc import Mapping
from typing import Any

from admin_ui import confirming
from admin_ui.confirming import Json
from engine.base.errors import NotFound
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.records import BookieRacks
from engine.tenancy.resources.racks import (
    RackPlacement,
    all_bookies,
    get_racks,
    placement_of,
    replace_rack,
)
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

KIND = "rack-change"
Groups = Mapping[str, Any]


async def preview(engine: Engine, bookie: str, user: str, rack: str | None, group: str) -> Json:
    """Return what setting ``rack`` would do (None: removing it), with the token that confirms exactly that. Raises
    NotFound for a bookie that was never registered."""
    groups = await _stored(engine)
    before = placement_of(groups, bookie)
    bookies = await all_bookies(engine.store)
    if bookie not in bookies and before is None:
        raise NotFound(f"There is no bookie {bookie}")
    after = None
    if rack is not None:
        facts = before.facts if before is not None else {}
        after = RackPlacement(group, {**facts, "rack": rack})
    racks = {**_racks(groups), bookie: _racks(_only(bookie, after)).get(bookie)}
    racks_of_bookies = [racks.get(known_bookie) for known_bookie in bookies]
    content = _about(bookie, user) | {"before": before, "after": after}
    return {
        "token": confirming.sign(engine.served, KIND, content) if after != before else None,
        "at": now_ms(),
        "before": _shown(before),
        "after": _shown(after),
        "bookies": len(racks_of_bookies),
        "without_rack": racks_of_bookies.count(None),
        "racks": len({name for name in racks_of_bookies if name is not None}),
    }


async def apply(engine: Engine, bookie: str, user: str, token: str) -> Json:
    """Store what was previewed. Raises Conflict when the rack has changed since; nothing is changed then."""
    content = confirming.read(engine.served, KIND, token, _about(bookie, user))
    before, after = (_from_signed(content[name]) for name in ("before", "after"))
    await replace_rack(engine.store, bookie, after, expected=before)
    return {"at": now_ms(), "before": _shown(before), "after": _shown(after)}


def _from_signed(signed: Any) -> RackPlacement | None:
    return None if signed is None else RackPlacement(*signed)


async def _stored(engine: Engine) -> Groups:
    """Return the racks as they are stored now: other tools change them, too."""
    return await get_racks(fresh(engine.store, paths.BOOKIE_RACKS))


def _only(bookie: str, placement: RackPlacement | None) -> Groups:
    return {} if placement is None else {placement.group: {bookie: placement.facts}}


def _racks(groups: Groups) -> dict[str, str]:
    """Return the racks by bookie, as placement reads them."""
    return BookieRacks(dict(groups)).racks


def _shown(placement: RackPlacement | None) -> Json | None:
    if placement is None:
        return None
    facts = placement.facts
    return {
        "group": placement.group,
        "rack": str(facts.get("rack") or ""),
        "hostname": str(facts.get("hostname") or ""),
    }


def _about(bookie: str, user: str) -> Json:
    return {"bookie": bookie, "user": user}
