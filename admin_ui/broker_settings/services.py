"""A change of a setting for all brokers: its preview, and exactly that change made or refused."""

import asyncio
from collections.abc import Mapping
from typing import Any

from admin_ui import confirming
from admin_ui.broker_settings import selectors
from admin_ui.broker_settings.selectors import BrokerAnswers
from admin_ui.confirming import Json
from engine.admin.api.dynamic_settings import CHANGE_SETTING, ChangeSetting, LiveSettings
from engine.base.errors import Conflict, InvalidField, NotFound, NotReady
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

KIND = "setting-change"
FOLLOWING_S = 2.0
"""Longest wait of a receipt for the other brokers: they follow at once unless something prevents it."""
LOOK_S = 0.05
UNCHANGED = "; nothing was changed"


async def preview(engine: Engine, name: str, user: str, value: str | None) -> Json:
    """Return what storing ``value`` would do (None: removing the stored value), with the token that confirms exactly
    that. Raises NotFound for an unknown setting, InvalidField for a value that some broker would refuse."""
    values = await selectors.stored(engine)
    answers = await _ask_brokers(engine, name, value)
    for lines in answers.lines.values():
        if value is not None and name in lines and lines[name]["refusal"]:
            raise InvalidField(name, lines[name]["refusal"])
    would_be = answers.by_value(name, "would_be")
    stored = values.get(name)
    content = _about(name, user) | {"value": value, "stored": stored, "would_be": _values(would_be)}
    return {
        "token": confirming.sign(engine.served, KIND, content) if value != stored else None,
        "at": now_ms(),
        "row": selectors.row(name, values, answers),
        "would_be": would_be,
        "brokers": len(answers.lines),
        "silent": selectors.silent(answers),
    }


async def apply(engine: Engine, name: str, user: str, token: str) -> Json:
    """Store what was previewed. Raises Conflict when another value is stored now, or brokers would use another value
    than at the preview; nothing is changed then."""
    content = confirming.read(engine.served, KIND, token, _about(name, user))
    value, expected = content["value"], content["stored"]
    values = await selectors.stored(engine)
    if values.get(name) != expected:
        raise Conflict(f"Another value is stored since the preview{UNCHANGED}")
    answers = await _ask_brokers(engine, name, value)
    if not set(_values(answers.by_value(name, "would_be"))) <= set(content["would_be"]):
        raise Conflict(f"Brokers would act by another value than at the preview{UNCHANGED}")
    # Only one broker is tried: if its answer was lost after the change, a second broker would report a conflict with
    # that change.
    broker = next(broker for broker, lines in answers.lines.items() if name in lines)
    args = ChangeSetting(name, value, checked=True, expected=expected)
    await engine.call_on(broker, CHANGE_SETTING, args)
    now_stored = {**values, name: value}
    after = await _wait_until_followed(engine, name, now_stored)
    return {
        "at": now_ms(),
        "row": selectors.row(name, now_stored, after) if after else None,
        "silent": selectors.silent(after) if after else [],
    }


async def _ask_brokers(engine: Engine, name: str, value: str | None) -> BrokerAnswers:
    answers = await selectors.ask_brokers(engine, LiveSettings(name, value))
    if not answers.lines:
        raise NotReady(f"No broker answers{UNCHANGED}")
    if not any(name in lines for lines in answers.lines.values()):
        raise NotFound(f"Brokers have no setting {name} that changes while they run")
    return answers


async def _wait_until_followed(
    engine: Engine, name: str, values: Mapping[str, Any]
) -> BrokerAnswers | None:
    """Return the answers of the brokers once all of them use the value, or after ``FOLLOWING_S``. None when no broker
    answers any more: the change itself is made."""
    until_s = asyncio.get_running_loop().time() + FOLLOWING_S
    while True:
        answers = await selectors.ask_brokers(engine, LiveSettings(name, values[name]))
        late = answers.silent or selectors.behind(name, values, answers)
        if not late or asyncio.get_running_loop().time() >= until_s:
            return answers if any(name in lines for lines in answers.lines.values()) else None
        await asyncio.sleep(LOOK_S)


def _values(by_value: list[Json]) -> list[str]:
    return [entry["value"] for entry in by_value]


def _about(name: str, user: str) -> Json:
    return {"setting": name, "user": user}
