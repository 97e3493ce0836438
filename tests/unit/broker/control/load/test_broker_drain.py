"""A drained broker gives its bundles away and receives none, also after a restart; clients follow without a lookup."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from engine.admin.api.arguments import NoArguments
from engine.admin.api.brokers import (
    DRAIN_BROKER,
    DRAIN_PLAN,
    END_DRAIN,
    LOAD_BALANCE,
    DrainBroker,
    EndDrain,
)
from engine.admin.api.bundles import TRANSFER_BUNDLE, TransferBundle
from engine.base.errors import Conflict, InvalidRequest
from engine.broker.control.load import broker_drain
from engine.broker.service import BrokerService
from engine.ownership.load.draining import DrainMark, drain_marks
from engine.ownership.load.draining import mark_draining as mark
from engine.ownership.registration import live_brokers
from tests.support.waiting import until
from tests.unit.ownership.test_transfers import TOPIC, Cluster

pytestmark = pytest.mark.virtual_time


class Drained(Cluster):
    """Three brokers; the first, which owns all bundles of the namespace, is drained through its operations."""

    async def start(self, count: int) -> None:
        await super().start(count)
        running = self.first.running
        for bundle in await running.ownership.bundles(TOPIC.namespace):
            if await running.ownership.owner(bundle) is None:
                await running.ownership.acquire(bundle)

    async def call(self, broker: BrokerService, operation: Any, args: Any) -> Any:
        address = next(b for b in await self.admin.brokers() if b.id == broker.record.id)
        return await self.admin.call_on(address, operation, args)

    async def drain(self, broker: BrokerService, changes: Mapping[str, str] = {}) -> Any:
        plan = await self.call(broker, DRAIN_PLAN, NoArguments())
        destinations = {row["bundle"]: row["destination"] for row in plan["bundles"]}
        args = DrainBroker({**destinations, **changes}, "anna")
        return await self.call(broker, DRAIN_BROKER, args)

    async def progress(self, broker: BrokerService) -> Any:
        return (await self.call(broker, LOAD_BALANCE, NoArguments()))["drain"]


@pytest.fixture
async def three() -> AsyncIterator[Drained]:
    made = Drained()
    await made.start(3)
    yield made
    await made.close()


def owned(broker: BrokerService) -> list[str]:
    return [str(bundle) for bundle in broker.running.ownership.owned()]


async def test_a_drain_does_what_its_plan_states_and_clients_look_nothing_up(
    three: Drained,
) -> None:
    first, held = three.first, owned(three.first)
    plan = await three.call(first, DRAIN_PLAN, NoArguments())
    assert [row["bundle"] for row in plan["bundles"]] == sorted(held)
    rows = {row["bundle"]: row for row in plan["bundles"]}
    used = rows[str(three.bundle)]
    assert (used["topics"], used["producers"], used["consumers"]) == (1, 1, 1)
    assert {row["destination"] for row in rows.values()} <= {b.record.id for b in three.others}
    assert await three.progress(first) is None
    before = three.lookups()
    three.clients.send(50)
    # Another destination than the plan would choose shows that the confirmed one counts.
    named = {row["bundle"]: three.others[1].record.id for row in plan["bundles"]}
    answer = await three.drain(first, named)
    assert (answer["before"], answer["by"]) == (None, "anna")
    while owned(first):
        three.clients.send(1)
        await asyncio.sleep(0.001)
    await three.clients.settled()
    assert three.lookups() == before
    assert set(held) <= set(owned(three.others[1]))
    await until(lambda: not first.running.drain._refused)
    balance = await three.call(first, LOAD_BALANCE, NoArguments())
    assert balance["drain"] == {"left": 0, "moved": len(held), "unloaded": 0, "refused": []}
    assert balance["draining"] == {first.record.id: {"at_ms": answer["at_ms"], "by": "anna"}}
    moves = [move for move in balance["moves"] if move["kind"] == "drain"]
    assert sorted(move["bundle"] for move in moves) == sorted(held)
    assert {move["result"] for move in moves} == {"moved"}


async def test_a_drained_broker_receives_no_bundle_until_its_drain_ends(three: Drained) -> None:
    first, second, third = three.first, *three.others
    await three.drain(first)
    await until(lambda: not owned(first))
    source = three.others[0] if three.owner(TOPIC) is second else third
    args = TransferBundle(TOPIC.namespace, three.bundle.range, first.record.id)
    with pytest.raises(Conflict, match=f"{first.record.id} receives no bundle: it is being drain"):
        await three.admin.call(TRANSFER_BUNDLE, args)
    bundles = list(await source.running.ownership.bundles(TOPIC.namespace))
    for broker in (second, third):
        for bundle in broker.running.ownership.owned():
            await broker.running.ownership.release(bundle)
    for bundle in bundles:
        for asked in (first, second, third):
            place = await asked.running.assignment.place_bundle(bundle)
            assert place.owner.http_url != first.record.web_url
    # Apache's leader may choose it all the same.
    for broker in (second, third):
        for bundle in broker.running.ownership.owned():
            await broker.running.ownership.release(bundle)
    place = await first.running.assignment.place(TOPIC, authoritative=True)
    assert (place.here, place.chosen) == (False, True)
    ended = await three.call(second, END_DRAIN, EndDrain(first.record.id))
    assert ended["before"]["by"] == "anna"
    assert (await three.call(second, END_DRAIN, EndDrain(first.record.id))) == {"before": None}
    await until(lambda: first.running.drain.document() is None)
    assert (await first.running.assignment.place(TOPIC, authoritative=True)).here


async def test_a_drain_outlives_the_broker_and_its_restart(three: Drained) -> None:
    first = three.first
    await three.drain(first)
    await until(lambda: not owned(first))
    await three.stop(first)
    restarted = await three.add(broker_http_port=str(first.http_port))
    assert restarted.record.id == first.record.id
    for bundle in await restarted.running.ownership.bundles(TOPIC.namespace):
        place = await restarted.running.assignment.place_bundle(bundle)
        assert not place.here
    # A bundle that it has nevertheless, as after a crash, moves as well.
    for broker in three.others:
        for bundle in broker.running.ownership.owned():
            await broker.running.ownership.release(bundle)
            await restarted.running.ownership.acquire(bundle)
    assert owned(restarted)
    await until(lambda: not owned(restarted))


async def test_bundles_find_an_owner_though_every_broker_that_is_there_is_drained(
    three: Drained,
) -> None:
    first, second, third = three.first, *three.others
    await three.drain(first)
    await until(lambda: not owned(first))
    await three.drain(second)
    await until(lambda: not owned(second))
    with pytest.raises(Conflict, match=f"{third.record.id} cannot be drained: all others are"):
        await three.drain(third)
    await three.kill(third)
    three.clients.send(10)
    await three.clients.settled()
    owner = three.owner(TOPIC)
    assert owner in (first, second)
    await until(lambda: bool(owner.running.drain._refused))
    progress = await three.progress(owner)
    assert progress["left"] == len(owned(owner))
    assert {refused["reason"] for refused in progress["refused"]} == {broker_drain.NO_PLACE}
    fourth = await three.add()
    await until(lambda: not owned(first) and not owned(second))
    assert three.owner(TOPIC) is fourth
    three.clients.send(10)
    await three.clients.settled()


async def test_only_the_previewed_drain_begins(three: Drained) -> None:
    first, second, third = three.first, *three.others
    plan = await three.call(first, DRAIN_PLAN, NoArguments())
    destinations = {row["bundle"]: row["destination"] for row in plan["bundles"]}
    name = next(iter(destinations))
    fewer = {bundle: to for bundle, to in destinations.items() if bundle != name}
    with pytest.raises(Conflict, match="not those of the preview: 1 were acquired since, 0 were"):
        await three.call(first, DRAIN_BROKER, DrainBroker(fewer))
    with pytest.raises(Conflict, match="nowhere:1 is not registered any more"):
        await three.call(first, DRAIN_BROKER, DrainBroker(destinations | {name: "nowhere:1"}))
    with pytest.raises(InvalidRequest, match="destinations: x is no bundle"):
        await three.call(first, DRAIN_BROKER, DrainBroker({"x": ""}))
    registered = await live_brokers(three.store)
    await mark(three.store, third.record.id, DrainMark(1), registered)
    to_third = dict.fromkeys(destinations, third.record.id)
    with pytest.raises(Conflict, match=f"{third.record.id} is being drained, too"):
        await three.call(first, DRAIN_BROKER, DrainBroker(to_third))
    assert list(await drain_marks(three.store)) == [third.record.id]
    assert owned(first) == sorted(destinations)
    assert three.owner(TOPIC) is first
    assert second in three.brokers


async def test_a_drain_that_is_ended_half_way_leaves_the_rest(
    three: Drained, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, held = three.first, owned(three.first)
    monkeypatch.setattr(broker_drain, "MOVED_AT_ONCE", 1)
    transfer, moved = first.running.drain._transfer, 0

    async def end_after_first(*args: Any) -> Any:
        nonlocal moved
        moved += 1
        result = await transfer(*args)
        await three.call(three.others[0], END_DRAIN, EndDrain(first.record.id))
        return result

    first.running.drain._transfer = end_after_first
    await three.drain(first)
    await until(lambda: moved == 1 and first.running.drain.document() is None)
    assert len(owned(first)) == len(held) - 1
    three.clients.send(10)
    await three.clients.settled()


async def test_a_broker_that_stops_while_it_is_drained_hands_everything_over(
    three: Drained, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = three.first

    async def hang(*args: Any) -> Any:
        await asyncio.Event().wait()

    first.running.drain._transfer = hang
    await three.drain(first)
    await until(lambda: first.running.drain.document() is not None)
    await three.stop(first)
    three.clients.send(10)
    await three.clients.settled()
    assert three.owner(TOPIC) in three.others
