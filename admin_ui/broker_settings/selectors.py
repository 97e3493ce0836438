"""What each broker makes of the settings that may change, beside what is stored for all of them."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.admin import api
from engine.admin.client import BrokerAddress
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.tenancy.nodes import find_node
from gateway.http.errors import describe
from gateway.services import catalog
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine

ASKING_S = 1.0
"""For each broker: less than a page waits for the store, so that the others' answers are shown."""
Body = dict[str, Any]


class Said(NamedTuple):
    """Lines of ``api.LIVE_SETTINGS`` by name, of each broker that answers; ``silent``: why the others do not."""

    lines: dict[BrokerAddress, dict[str, Body]]
    silent: dict[str, str]

    def by_value(self, name: str, what: str) -> list[Body]:
        """Values of ``what`` in the lines of this setting, each with its brokers, that of most brokers first."""
        found = defaultdict(list)
        for broker, lines in self.lines.items():
            if name in lines:
                found[lines[name][what]].append(broker.id)
        ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
        return [{"value": value, "brokers": sorted(ids)} for value, ids in ordered]


async def stored(engine: Engine) -> Mapping[str, Any]:
    """What is stored now, by name. Brokers write it: what this process keeps of it may be old."""
    return await find_node(fresh(engine.store, paths.CONFIGURATION), paths.CONFIGURATION) or {}


async def asked(engine: Engine, args: api.LiveSettings) -> Said:
    """Of all registered brokers at once."""
    said = Said({}, {})

    async def ask(broker: BrokerAddress) -> None:
        try:
            async with asyncio.timeout(ASKING_S):
                lines = await engine.call_on(broker, api.LIVE_SETTINGS, args)
            said.lines[broker] = {line["name"]: line for line in lines}
        except TimeoutError:
            said.silent[broker.id] = "It does not answer"
        except Exception as error:
            status, reason = describe(error)
            if status != 503:
                raise
            said.silent[broker.id] = reason

    await catalog.each(await engine.admin.brokers(), ask)
    return said


def row(name: str, values: Mapping[str, Any], said: Said) -> Body:
    """As it is shown; some broker must know it. ``values``: what is stored, by name."""
    line = next(lines[name] for lines in said.lines.values() if name in lines)
    return {
        **{key: line[key] for key in ("name", "meaning", "allowed", "choices", "default")},
        "stored": _text(values.get(name)),
        "values": said.by_value(name, "in_force"),
        "started": said.by_value(name, "started"),
        "behind": behind(name, values, said),
    }


def behind(name: str, values: Mapping[str, Any], said: Said) -> list[Body]:
    """Brokers that answer, but do not act by what is stored, and why."""
    found = []
    for broker, lines in said.lines.items():
        line = lines.get(name)
        if line is None:
            reason = "It does not know this setting"
        elif line["last_read"] != values.get(name):
            reason = "It has not heard of the change yet"
        elif line["refused"]:
            reason = f"It does not use what is stored: {line['refused']}"
        else:
            continue
        found.append({"broker": broker.id, "reason": reason})
    return sorted(found, key=lambda one: one["broker"])


def silent(said: Said) -> list[Body]:
    """Brokers of which nothing is known."""
    return [{"broker": broker, "reason": why} for broker, why in sorted(said.silent.items())]


async def listed(engine: Engine) -> Body:
    """All that any broker knows, by name, and what is stored besides."""
    values = await stored(engine)
    said = await asked(engine, api.LiveSettings())
    names = sorted({name for lines in said.lines.values() for name in lines})
    others = sorted(values.keys() - set(names)) if said.lines else []
    return {
        "at": now_ms(),
        "brokers": len(said.lines),
        "silent": silent(said),
        "rows": [row(name, values, said) for name in names],
        "others": [{"name": name, "stored": _text(values[name])} for name in others],
    }


def _text(value: Any) -> str | None:
    """Stored values are texts; what another tool stored otherwise is shown as the JSON that it is."""
    return value if isinstance(value, str | None) else json.dumps(value)
