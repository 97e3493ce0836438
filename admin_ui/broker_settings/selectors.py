"""The values that brokers use of the settings that may change, and the values stored for all brokers."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.admin.api.dynamic_settings import LIVE_SETTINGS, LiveSettings
from engine.admin.client import BrokerAddress
from engine.auth.viewer import Viewer
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.tenancy.nodes import find_node
from gateway.http.errors import describe
from gateway.services import catalog
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

ASKING_S = 1.0
"""Longest wait for one broker. It is less than a page waits for the metadata store, so that the other brokers' answers
are shown."""
Body = dict[str, Any]


class BrokerAnswers(NamedTuple):
    """Lines of ``LIVE_SETTINGS`` by name, of each broker that answers; ``silent``: the reason of each other broker,
    by id."""

    lines: dict[BrokerAddress, dict[str, Body]]
    silent: dict[str, str]

    def by_value(self, name: str, column: str) -> list[Body]:
        """Return the values of ``column`` for this setting, each with its brokers; the value of most brokers first."""
        brokers = defaultdict(list)
        for broker, lines in self.lines.items():
            if name in lines:
                brokers[lines[name][column]].append(broker.id)
        ordered = sorted(brokers.items(), key=lambda item: (-len(item[1]), item[0]))
        return [{"value": value, "brokers": sorted(ids)} for value, ids in ordered]


async def stored(engine: Engine) -> Mapping[str, Any]:
    """Return the stored values by name, read from the metadata store: brokers write them, so what this process caches
    may be old."""
    return await find_node(fresh(engine.store, paths.CONFIGURATION), paths.CONFIGURATION) or {}


async def ask_brokers(engine: Engine, args: LiveSettings) -> BrokerAnswers:
    """Return the answers of all registered brokers, which are asked at the same time."""
    answers = BrokerAnswers({}, {})

    async def read_settings(broker: BrokerAddress) -> None:
        try:
            async with asyncio.timeout(ASKING_S):
                lines = await engine.call_on(broker, LIVE_SETTINGS, args)
            answers.lines[broker] = {line["name"]: line for line in lines}
        except TimeoutError:
            answers.silent[broker.id] = "It does not answer"
        except Exception as error:
            status, reason = describe(error)
            if status != 503:
                raise
            answers.silent[broker.id] = reason

    await catalog.each(await engine.admin.brokers(), read_settings)
    return answers


def row(name: str, values: Mapping[str, Any], answers: BrokerAnswers) -> Body:
    """Return the row of a setting that at least one broker knows. ``values``: stored values by name."""
    line = next(lines[name] for lines in answers.lines.values() if name in lines)
    return {
        **{key: line[key] for key in ("name", "meaning", "allowed", "choices", "default")},
        "stored": _text(values.get(name)),
        "values": answers.by_value(name, "in_force"),
        "started": answers.by_value(name, "started"),
        "behind": behind(name, values, answers),
    }


def behind(name: str, values: Mapping[str, Any], answers: BrokerAnswers) -> list[Body]:
    """Return the brokers that answer but do not use the stored value, with the reason."""
    reasons = []
    for broker, lines in answers.lines.items():
        line = lines.get(name)
        if line is None:
            reason = "It does not know this setting"
        elif line["last_read"] != values.get(name):
            reason = "It has not received the change yet"
        elif line["refused"]:
            reason = f"It does not use what is stored: {line['refused']}"
        else:
            continue
        reasons.append({"broker": broker.id, "reason": reason})
    return sorted(reasons, key=lambda entry: entry["broker"])


def silent(answers: BrokerAnswers) -> list[Body]:
    """Return the brokers that did not answer, with the reason."""
    return [
        {"broker": broker, "reason": reason} for broker, reason in sorted(answers.silent.items())
    ]


async def listed(viewer: Viewer, engine: Engine) -> Body:
    """Return all settings that any broker knows, by name, and the stored values of other names. Raises Forbidden for a
    viewer who does not see everything."""
    viewer.require_everything("Settings")
    values = await stored(engine)
    answers = await ask_brokers(engine, LiveSettings())
    names = sorted({name for lines in answers.lines.values() for name in lines})
    unknown_names = sorted(values.keys() - set(names)) if answers.lines else []
    return {
        "at": now_ms(),
        "brokers": len(answers.lines),
        "silent": silent(answers),
        "rows": [row(name, values, answers) for name in names],
        "others": [{"name": name, "stored": _text(values[name])} for name in unknown_names],
    }


def _text(value: Any) -> str | None:
    """Return a stored value as text. A value of another type, which some other tool stored, is shown as JSON."""
    return value if isinstance(value, str | None) else json.dumps(value)
