"""Faults of topics, and operations of administrators on them, while clients use them."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

from engine.admin.api.arguments import JsonObject, NoArguments
from engine.admin.api.brokers import DrainBroker, EndDrain
from engine.admin.api.bundles import SplitBundle, TransferBundle
from engine.admin.api.cursors import MoveCursor, PreviewChange
from engine.base.errors import MagnetarError
from engine.base.ids import EARLIEST
from engine.base.names import TopicName
from engine.broker.administration.previews import cursor_changes
from engine.broker.policies import (
    BacklogQuota,
    MaxRate,
    QuotaAction,
)
from engine.broker.service import BrokerService
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.ownership.division import WHERE_ASKED
from tests.sim.kit.cluster import HTTP_PORT, Machine
from tests.sim.kit.loop import Node
from tests.sim.kit.nemesis import Nemesis
from tests.sim.topics.consumer import KINDS
from tests.sim.topics.history import Cleared, Sought
from tests.sim.topics.observer import Observer

WAYS = ("clear", "skip", "expire", "confirm")
CLOCK = ("age", "quota")
AGES_MS = (100, 1000, 5000)
RESET_BACK = 60


def take_over(o: Observer, n: Nemesis) -> None:
    """Freeze a broker, or cut it off from metadata, beyond its session; part of its clients reconnects elsewhere."""
    machine = n.machine("broker")
    if machine is None or machine.store is None or machine.node is None or machine.node.paused:
        return
    session_s = n.cluster.shape.session_s
    n.cluster.count("take-overs")
    if n.rng.random() < 0.7:
        session_id = machine.store.session_id
        n.cluster.metadata.partition(session_id)
        n._partitioned.append(session_id)
        n.later(session_s * (1.5 + n.rng.random()), lambda: n.cluster.metadata.heal(session_id))
    else:
        node = machine.node
        n.cluster.loop.pause(node)
        n._paused.append(node)

        def resume() -> None:
            if node.paused and not node.dead:
                n.cluster.loop.resume(node)

        n.later(session_s * (1.2 + n.rng.random()), resume)
    for name in n.cluster.clients:
        # Most producers stay, so that the old owner can fail. Three times: a client may look up and reach it again.
        if n.rng.random() < (0.2 if "-p" in name else 0.7):
            for share in (1.05, 1.15, 1.3):
                reset = partial(n.cluster.world.reset_links, name)
                n.later(session_s * share, n.unless_over(reset))


def _served(o: Observer, n: Nemesis) -> tuple[TopicName, Machine, BrokerService] | None:
    """Return some topic and the broker that has it loaded; None when there is none."""
    loaded = [
        (topic, machine, machine.broker)
        for topic in o.topics
        for machine in o.cluster.brokers
        if machine.broker is not None and machine.ready
        if machine.broker.running.registry.loaded(topic) is not None
    ]
    return n.rng.choice(loaded) if loaded else None


def unload(o: Observer, n: Nemesis) -> None:
    """Unload a topic, as an administrator does."""
    if (served := _served(o, n)) is not None:
        topic, machine, broker = served
        assert machine.node is not None
        _administer(o, machine.node, broker.running.registry.unload(topic))
        n.cluster.count("unloads")


def _subscription(o: Observer, n: Nemesis) -> tuple[Topic, Subscription, Node] | None:
    """Return a subscription that clients use, with its topic and the process that serves it; None when there is
    none."""
    if (served := _served(o, n)) is None:
        return None
    topic, machine, broker = served
    loaded = broker.running.registry.loaded(topic)
    known = loaded.subscriptions if loaded is not None else {}
    names = sorted(set(known) & set(KINDS))
    if loaded is None or not names or machine.node is None:
        return None
    return loaded, known[n.rng.choice(names)], machine.node


def clear_backlog(o: Observer, n: Nemesis) -> None:
    """Acknowledge everything of a subscription, as an administrator does: clear, skip or expire it, or confirm an
    earlier preview and perhaps undo it. Or, as the broker's timer does, all of a topic that is too old or beyond a
    quota."""
    if (used := _subscription(o, n)) is not None:
        topic, subscription, node = used
        way = n.rng.choice((*WAYS, *CLOCK))
        if way == "confirm":
            pauses = [n.rng.expovariate(2.0) if n.rng.random() < 0.7 else None for _ in range(2)]
            clearing = confirm(o, topic, subscription, pauses[0] or 0.0, pauses[1])
        elif way in WAYS:
            clearing = pass_over(o, topic, subscription, way)
        else:
            clearing = outlive(o, topic, n.rng.choice(AGES_MS) if way == "age" else None)
        _administer(o, node, clearing)


async def pass_over(o: Observer, topic: Topic, subscription: Subscription, way: str) -> None:
    """Acknowledge everything that is there, in one of the ways that administrators have. To be called on the broker's
    node."""
    cleared, loop, ledger = o.history.cleared, o.cluster.loop, topic.log
    last, at, entries = ledger.last_confirmed, len(cleared), subscription.cursor.backlog_entries()
    name = f"{topic.name.full}/{subscription.name}"
    cleared.append(Cleared(loop.now, float("inf"), name, last))
    if way == "clear":
        await subscription.moves.clear()
    elif way == "skip":
        await subscription.moves.skip(entries)
        if not entries:  # a skip of no entries confirms nothing
            return
    else:
        subscription.moves.pass_over(last)
        await subscription.cursor.persisted()
    cleared[at] = cleared[at]._replace(done_at=loop.now)
    o.cluster.count("backlogs passed over")


async def confirm(
    o: Observer, topic: Topic, subscription: Subscription, pause_s: float, undo_s: float | None
) -> None:
    """Preview a skip, confirm it ``pause_s`` later, and undo it ``undo_s`` after that (None: never). To be called on
    the broker's node."""
    cleared, loop, clock = o.history.cleared, o.cluster.loop, topic.context.clock
    name, key = f"{topic.name.full}/{subscription.name}", f"change-{len(cleared)}"
    request = PreviewChange(topic.name, subscription.name, "skip-all")
    last = topic.log.last_confirmed  # entries published from now on are not in the preview
    preview = await cursor_changes.preview(subscription, request, None, clock.wall_ms())
    await asyncio.sleep(pause_s)
    at = len(cleared)
    cleared.append(Cleared(loop.now, float("inf"), name, last))
    done = await cursor_changes.make(subscription, _confirmed(request, preview, key), clock)
    if not done["done"]:
        return
    cleared[at] = cleared[at]._replace(done_at=loop.now)
    o.cluster.count("previews confirmed")
    if done["lost"] + done["meanwhile"] != preview["lost"]:
        o.wrong(f"{name}: of {preview['lost']} entries previewed {done} were accounted for,")
    if undo_s is not None:
        await asyncio.sleep(undo_s)
        await take_back(o, topic, subscription, key)


async def take_back(o: Observer, topic: Topic, subscription: Subscription, key: str) -> None:
    """Undo the change ``key``: all existing entries that it passed over are due again. To be called on the broker's
    node."""
    history, loop, clock = o.history, o.cluster.loop, topic.context.clock
    name = f"{topic.name.full}/{subscription.name}"
    request = PreviewChange(topic.name, subscription.name, "undo", undo=key)
    change = subscription.cursor.last_change
    preview = await cursor_changes.preview(subscription, request, None, clock.wall_ms())
    assert change is not None
    clean = not preview["moved"] and not preview["gone"]
    at, begun = len(history.seeks), Sought(loop.now, float("inf"), name, EARLIEST, None, None)
    history.seeks.append(begun)  # it promises nothing, but may bring back what was cleared
    done = await cursor_changes.make(
        subscription, _confirmed(request, preview, f"{key}-undo"), clock
    )
    history.seeks[at] = begun._replace(done_at=loop.now)
    if done["done"]:
        o.cluster.count("changes undone")
        if clean and done["again"] != change.lost:
            o.wrong(f"{name}: of {change.lost} entries {done['again']} came back,")


def _confirmed(request: PreviewChange, preview: JsonObject, key: str) -> MoveCursor:
    same = ("base", "target", "lost", "again", "lost_messages", "again_messages", "exact")
    given = {field: preview[field] for field in same}
    return MoveCursor(request.topic, request.subscription, id=key, change=request.change, **given)


async def outlive(o: Observer, topic: Topic, age_ms: int | None) -> None:
    """Expire what is older than ``age_ms``, or without one evict what is beyond half of the largest backlog, on all
    durable subscriptions. To be called on the broker's node."""
    cleared, loop, log = o.history.cleared, o.cluster.loop, topic.log
    durable = [
        subscription for subscription in topic.subscriptions.values() if subscription.durable
    ]
    at, last = len(cleared), log.last_confirmed
    for subscription in durable:
        cleared.append(
            Cleared(loop.now, float("inf"), f"{topic.name.full}/{subscription.name}", last)
        )
    marks = [subscription.cursor.mark for subscription in durable]
    policies = topic.policies
    try:
        if age_ms is not None:
            await topic.subscriptions.expire(topic.context.clock.wall_ms() - age_ms)
        else:
            size = max(
                (log.bytes_behind(subscription.cursor.mark_delete) for subscription in durable),
                default=0,
            )
            quota = BacklogQuota(size // 2, QuotaAction.EVICT)
            topic.quotas.apply(replace(policies.backlog, size_quota=quota))
            await topic.quotas.check()
    finally:
        topic.quotas.apply(topic.policies.backlog)
        for i, subscription in enumerate(durable, at):
            cleared[i] = cleared[i]._replace(to=subscription.cursor.mark_delete)
    for i, subscription in enumerate(durable, at):
        await subscription.cursor.persisted()
        cleared[i] = cleared[i]._replace(done_at=loop.now)
    moved = any(
        subscription.cursor.mark > mark for subscription, mark in zip(durable, marks, strict=True)
    )
    o.cluster.count("backlogs outlived", int(moved))


def reset_cursor(o: Observer, n: Nemesis) -> None:
    """Reset a subscription to an earlier position, as an administrator does."""
    if (used := _subscription(o, n)) is None:
        return
    topic, subscription, node = used
    history, loop = o.history, n.cluster.loop
    known = history.confirmed.get(topic.name.full, [])[-RESET_BACK:]
    if not known:
        return
    position = n.rng.choice(known)
    name = f"{topic.name.full}/{subscription.name}"

    async def reset() -> None:
        confirmed = history.move(name, position, loop.now)
        await subscription.moves.reset(position)
        confirmed(loop.now, topic.log.line.position(topic.log.line.base))
        n.cluster.count("cursors reset")

    _administer(o, node, reset())


def _administer(o: Observer, node: Node, work: Coroutine[Any, Any, Any]) -> None:
    """Start ``work`` of an administrator on ``node``. An operation that is refused is no failure of the run."""

    async def quietly() -> None:
        with contextlib.suppress(MagnetarError):
            await work

    o.administered.append((node, o.cluster.loop.spawn(node, quietly())))


def change_rates(o: Observer, n: Nemesis) -> None:
    """Set or remove the rates of a topic, as an administrator does."""
    if (used := _subscription(o, n)) is None:
        return
    topic, _, node = used
    rng = n.rng
    publish, dispatch, per_subscription = (
        MaxRate(messages=rng.choice((0, *choices)), size=rng.choice((0, 0, 50_000)))
        for choices in ((30, 60, 200), (80, 200), (50, 200))
    )

    async def change() -> None:
        topic.policies = replace(
            topic.policies,
            rates=replace(
                topic.policies.rates,
                publish=publish,
                dispatch=dispatch,
                subscription=per_subscription,
            ),
        )
        topic.rates.apply(topic.policies.rates, topic.policies.publish)
        for subscription in topic.subscriptions.values():
            subscription.dispatch.apply()
        n.cluster.count("rates changed")

    n.cluster.loop.spawn(node, change())


def split(o: Observer, n: Nemesis) -> None:
    """Split a topic's bundle, as an administrator does, on either side of the topic or elsewhere, and perhaps unload
    its parts; or unload the whole bundle."""
    if (served := _served(o, n)) is None:
        return
    topic, machine, broker = served
    running, rng = broker.running, n.rng
    bundle = running.ownership.known_bundle(topic)
    if bundle is None or machine.node is None:
        return
    position = rng.choice((topic.bundle_hash, topic.bundle_hash + 1, None))
    if position is None:
        position = rng.randrange(bundle.lower + 1, bundle.upper)
    args = SplitBundle(bundle.namespace, bundle.range, WHERE_ASKED, [position], rng.random() < 0.5)

    async def act() -> None:
        if rng.random() < 0.3:
            await running.ownership.release(bundle, running.operations.bundles.unload_topics)
            n.cluster.count("bundles unloaded")
        else:
            parts = await running.operations.bundles.split_bundle(args)
            n.cluster.count("bundles split", len(parts) - 1)

    _administer(o, machine.node, act())


def transfer(o: Observer, n: Nemesis) -> None:
    """Move a topic's bundle to some broker, which may be down, hang, or be the owner itself."""
    if (served := _served(o, n)) is None:
        return
    topic, machine, broker = served
    running = broker.running
    bundle = running.ownership.known_bundle(topic)
    if bundle is None or machine.node is None:
        return
    destination = f"{n.rng.choice(o.cluster.brokers).name}:{HTTP_PORT}"
    args = TransferBundle(bundle.namespace, bundle.range, destination)

    async def act() -> None:
        result = await running.operations.bundles.transfer_bundle(args)
        n.cluster.count("bundles moved" if result["moved"] else "bundles not moved")

    _administer(o, machine.node, act())


def drain(o: Observer, n: Nemesis) -> None:
    """Stop a broker as SIGTERM does, and start a new one."""
    machine = n.machine("broker")
    if machine is not None and machine.stop is not None and machine.ready:
        machine.stop.set()
        n.cluster.count("drains")


def evacuate(o: Observer, n: Nemesis) -> None:
    """Drain a broker without an end, as an operator does who confirms a preview."""
    machine = n.machine("broker")
    if machine is None or machine.node is None or machine.broker is None or not machine.ready:
        return
    brokers = machine.broker.running.operations.brokers

    async def act() -> None:
        plan = await brokers.drain_plan(NoArguments())
        destinations = {row["bundle"]: row["destination"] for row in plan["bundles"]}
        await brokers.drain_broker(DrainBroker(destinations, "operator"))
        n.cluster.count("brokers drained")

    _administer(o, machine.node, act())


def reinstate(o: Observer, n: Nemesis) -> None:
    """End the drain of some broker, which may be down, through another one."""
    machine = n.machine("broker")
    if machine is None or machine.node is None or machine.broker is None or not machine.ready:
        return
    brokers = machine.broker.running.operations.brokers
    broker_id = f"{n.rng.choice(o.cluster.brokers).name}:{HTTP_PORT}"

    async def act() -> None:
        if (await brokers.end_drain(EndDrain(broker_id)))["before"] is not None:
            n.cluster.count("drains ended")

    _administer(o, machine.node, act())


TRANSFER_FAULTS: dict[str, Callable[[Observer, Nemesis], None]] = {
    act.__name__: act for act in (transfer, drain, evacuate, reinstate)
}
SPLIT_FAULTS: dict[str, Callable[[Observer, Nemesis], None]] = {"split": split}
RATE_FAULTS: dict[str, Callable[[Observer, Nemesis], None]] = {"change_rates": change_rates}
TOPIC_FAULTS: dict[str, Callable[[Observer, Nemesis], None]] = {
    act.__name__: act for act in (take_over, unload, clear_backlog, reset_cursor)
}
