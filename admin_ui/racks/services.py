"""A bookie's rack told or taken back: what that would mean, and exactly that done."""

from collections.abc import Mapping
from typing import Any

from admin_ui import confirming
from admin_ui.confirming import Json
from engine.base.errors import NotFound
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.records import BookieRacks
from engine.tenancy.resources.racks import Told, all_bookies, get_racks, replace_rack, told_of
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine

KIND = "rack-change"
Groups = Mapping[str, Any]


async def preview(engine: Engine, bookie: str, user: str, rack: str | None, group: str) -> Json:
    """What telling ``rack`` (None: nothing any more) would do, with the token that confirms just that. NotFound for a
    bookie that never was."""
    groups = await _stored(engine)
    before = told_of(groups, bookie)
    bookies = await all_bookies(engine.store)
    if bookie not in bookies and before is None:
        raise NotFound(f"There is no bookie {bookie}")
    after = None
    if rack is not None:
        kept = before.facts if before is not None else {}
        after = Told(group, {**kept, "rack": rack})
    racks = {**_racks(groups), bookie: _racks(_only(bookie, after)).get(bookie)}
    known = [racks.get(one) for one in bookies]
    told = _about(bookie, user) | {"before": before, "after": after}
    return {
        "token": confirming.sign(KIND, told) if after != before else None,
        "at": now_ms(),
        "before": _shown(before),
        "after": _shown(after),
        "bookies": len(known),
        "without_rack": known.count(None),
        "racks": len({one for one in known if one is not None}),
    }


async def apply(engine: Engine, bookie: str, user: str, token: str) -> Json:
    """Tell what was previewed. Raises Conflict when something else was told since: nothing is changed then."""
    said = confirming.read(KIND, token, _about(bookie, user))
    before, after = (_told(said[name]) for name in ("before", "after"))
    await replace_rack(engine.store, bookie, after, expected=before)
    return {"at": now_ms(), "before": _shown(before), "after": _shown(after)}


def _told(signed: Any) -> Told | None:
    return None if signed is None else Told(*signed)


async def _stored(engine: Engine) -> Groups:
    """As it is now: other tools change it, too."""
    return await get_racks(fresh(engine.store, paths.BOOKIE_RACKS))


def _only(bookie: str, told: Told | None) -> Groups:
    return {} if told is None else {told.group: {bookie: told.facts}}


def _racks(groups: Groups) -> dict[str, str]:
    """Rack by bookie, as placement takes it."""
    return BookieRacks(dict(groups)).racks


def _shown(told: Told | None) -> Json | None:
    if told is None:
        return None
    facts = told.facts
    return {
        "group": told.group,
        "rack": str(facts.get("rack") or ""),
        "hostname": str(facts.get("hostname") or ""),
    }


def _about(bookie: str, user: str) -> Json:
    return {"bookie": bookie, "user": user}
