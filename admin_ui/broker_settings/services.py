"""A setting changed for all brokers: what each would do is previewed, and exactly that is stored or refused."""

import asyncio
from collections.abc import Mapping
from typing import Any

from admin_ui import confirming
from admin_ui.broker_settings import selectors
from admin_ui.broker_settings.selectors import Said
from admin_ui.confirming import Json
from engine.admin import api
from engine.base.errors import Conflict, InvalidField, NotFound, NotReady
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine

KIND = "setting-change"
FOLLOWING_S = 2.0
"""How long a receipt waits for the other brokers: they follow at once, or something keeps them from it."""
LOOK_S = 0.05
UNCHANGED = "; nothing was changed"


async def preview(engine: Engine, name: str, user: str, value: str | None) -> Json:
    """What storing ``value`` (None: removing what is stored) would do, with the token that confirms just that. Raises
    NotFound for what is no such setting, InvalidField for a value that some broker would refuse."""
    values = await selectors.stored(engine)
    said = await _asked(engine, name, value)
    for lines in said.lines.values():
        if value is not None and name in lines and lines[name]["refusal"]:
            raise InvalidField(name, lines[name]["refusal"])
    would_be = said.by_value(name, "would_be")
    before = values.get(name)
    told = _about(name, user) | {"value": value, "stored": before, "would_be": _values(would_be)}
    return {
        "token": confirming.sign(KIND, told) if value != before else None,
        "at": now_ms(),
        "row": selectors.row(name, values, said),
        "would_be": would_be,
        "brokers": len(said.lines),
        "silent": selectors.silent(said),
    }


async def apply(engine: Engine, name: str, user: str, token: str) -> Json:
    """Store what was previewed. Raises Conflict when something else is stored by now, or brokers would make something
    else of it: nothing is changed then."""
    told = confirming.read(KIND, token, _about(name, user))
    value, expected = told["value"], told["stored"]
    values = await selectors.stored(engine)
    if values.get(name) != expected:
        raise Conflict(f"Another value is stored since the preview{UNCHANGED}")
    said = await _asked(engine, name, value)
    if not set(_values(said.by_value(name, "would_be"))) <= set(told["would_be"]):
        raise Conflict(f"Brokers would act by another value than at the preview{UNCHANGED}")
    # Of one broker only: were a second one asked after the first did it without telling, it would find it changed.
    broker = next(broker for broker, lines in said.lines.items() if name in lines)
    args = api.ChangeSetting(name, value, checked=True, expected=expected)
    await engine.call_on(broker, api.CHANGE_SETTING, args)
    now = {**values, name: value}
    after = await _followed(engine, name, now)
    return {
        "at": now_ms(),
        "row": selectors.row(name, now, after) if after else None,
        "silent": selectors.silent(after) if after else [],
    }


async def _asked(engine: Engine, name: str, value: str | None) -> Said:
    said = await selectors.asked(engine, api.LiveSettings(name, value))
    if not said.lines:
        raise NotReady(f"No broker answers{UNCHANGED}")
    if not any(name in lines for lines in said.lines.values()):
        raise NotFound(f"Brokers have no setting {name} that changes while they run")
    return said


async def _followed(engine: Engine, name: str, values: Mapping[str, Any]) -> Said | None:
    """What brokers say once all of them act by it, or when that took too long; None when none says anything any more:
    the change itself is done."""
    until_s = asyncio.get_running_loop().time() + FOLLOWING_S
    while True:
        said = await selectors.asked(engine, api.LiveSettings(name, values[name]))
        late = said.silent or selectors.behind(name, values, said)
        if not late or asyncio.get_running_loop().time() >= until_s:
            return said if any(name in lines for lines in said.lines.values()) else None
        await asyncio.sleep(LOOK_S)


def _values(by_value: list[Json]) -> list[str]:
    return [one["value"] for one in by_value]


def _about(name: str, user: str) -> Json:
    return {"setting": name, "user": user}
