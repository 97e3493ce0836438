"""Drain of a broker and its end: the preview of each, and exactly that done."""

from collections import Counter
from typing import Any

from admin_ui import confirming
from admin_ui.cluster import selectors
from admin_ui.confirming import Json
from engine.admin.api.arguments import NoArguments
from engine.admin.api.brokers import DRAIN_BROKER, DRAIN_PLAN, END_DRAIN, DrainBroker, EndDrain
from engine.base.errors import Conflict, NotFound
from gateway.clusters.cluster import Cluster
from gateway.services.admin import brokers
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

KIND = "broker-drain"
KIND_END = "broker-drain-end"
NUMBERS = ("topics", "producers", "consumers")
SHOWN_MAX = 100
"""Number of bundles that a preview names; the drain of a broker may move thousands."""


async def preview(cluster: Cluster, engine: Engine, broker: str, user: str) -> Json:
    """Return where each bundle of the broker would move, with the token that confirms exactly that. Raises NotFound for
    a broker that is not registered, NotReady for one that does not answer."""
    plan = await engine.call_on(await brokers.require(engine, broker), DRAIN_PLAN, NoArguments())
    rows, problem = plan["bundles"], plan["problem"]
    counts = Counter(row["destination"] for row in rows)
    content = _about(broker, user) | {
        "destinations": {row["bundle"]: row["destination"] for row in rows}
    }
    token = None if problem else confirming.sign(engine.served, KIND, content)
    if token is None and not problem:
        problem = f"{broker} has {len(rows)} bundles, too many to be confirmed at once"
    return {
        "token": token,
        "at": now_ms(),
        "broker": broker,
        "state": await selectors.state_of(cluster, broker),
        "problem": problem,
        "total": len(rows),
        **{name: sum(row[name] for row in rows) for name in NUMBERS},
        "staying": counts.pop("", 0),
        "destinations": [
            {"broker": name, "bundles": count} for name, count in counts.most_common()
        ],
        "bundles": _shown(rows),
    }


def _shown(rows: list[Json]) -> list[Json]:
    """Return the bundles that a preview names: those that stay, then those with most topics and clients."""

    def place(row: Json) -> tuple[bool, int, str]:
        return bool(row["destination"]), -sum(row[name] for name in NUMBERS), row["bundle"]

    return sorted(rows, key=place)[:SHOWN_MAX]


async def apply(cluster: Cluster, engine: Engine, broker: str, user: str, token: str) -> Json:
    """Begin the drain that was previewed. Raises Conflict when the bundles, their destinations or the other brokers are
    not those of the preview; nothing is changed then."""
    content = confirming.read(engine.served, KIND, token, _about(broker, user))
    address = await brokers.require(engine, broker)
    try:
        args = DrainBroker(content["destinations"], user)
        mark = await engine.call_on(address, DRAIN_BROKER, args)
    finally:
        cluster.part(selectors.bundle_map).forget()
    return {"at": mark["at_ms"], "broker": broker, "leaving": len(content["destinations"])}


async def preview_end(engine: Engine, broker: str, user: str) -> Json:
    """Return the drain that would end, with the token that confirms it. Raises NotFound for a broker that is not
    drained, NotReady when no broker answers."""
    balance = await brokers.load_balance(engine)
    drain = next((drain for drain in balance["drains"] if drain["broker"] == broker), None)
    if drain is None:
        raise NotFound(f"Broker {broker} is not being drained")
    content = _about(broker, user) | {"since": drain["at_ms"]}
    return {
        "token": confirming.sign(engine.served, KIND_END, content),
        "at": now_ms(),
        "drain": selectors.drain_row(drain),
    }


async def end(engine: Engine, broker: str, user: str, token: str) -> Json:
    """End the drain that was previewed. Raises Conflict when it ended meanwhile."""
    content = confirming.read(engine.served, KIND_END, token, _about(broker, user))
    args = EndDrain(broker, content["since"])
    ended = await brokers.on_any(engine, END_DRAIN, args)
    if ended["before"] is None:
        raise Conflict(f"The drain of {broker} ended meanwhile")
    return {"at": now_ms(), "broker": broker}


def _about(broker: str, user: str) -> dict[str, Any]:
    return {"broker": broker, "user": user}
