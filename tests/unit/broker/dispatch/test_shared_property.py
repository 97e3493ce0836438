"""Shared subscriptions under any sequence of what can happen to them, with limits small enough to be met."""

import asyncio

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.broker.policies import (
    DispatchPolicies,
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings
from tests.sim.kit.loop import SimLoop, simulate
from tests.support.shared_model import SharedModel

LIMITS = st.tuples(st.integers(0, 6), st.integers(0, 8), st.integers(1, 5), st.integers(1, 4))
ROUNDS = """
publish batch delayed flow ack partly back join pass rest
batch delayed flow ack partly all leave pass
due other unseen skip clear expire reset
"""
STEP = st.tuples(st.sampled_from(ROUNDS.split()), st.integers(0, 7), st.integers(0, 15))
"""A step: its kind, where kinds listed twice are drawn twice as often; the consumer; the amount."""


async def take_step(model: SharedModel, what: str, a: int, b: int) -> None:
    """Do a step as ``STEP`` draws it."""
    if what == "publish":
        model.publish(1 + a, 1, None)
    elif what == "batch":
        model.publish(1 + a % 3, 2 + b % 4, None)
    elif what == "delayed":
        model.publish(1 + a, 1, 200 * (1 + b))
    elif what == "due":
        model.publish(1 + a % 3, 1, -1)
    elif what == "join" and len(model.readers) < 3:
        await model.join(b)
    elif what == "pass":
        await asyncio.sleep(a * b / 30)
    elif what == "rest":
        await model.rest()
    elif what == "skip":
        await model.skip(a)
    elif what == "clear" and b > 12:
        await model.clear()
    elif what in ("expire", "reset") and model.places:
        place = model.places[(a + 8 * b) % len(model.places)]
        await (model.expire(place) if what == "expire" else model.reset(place, b))
    elif model.readers:
        act_as_reader(model, what, a, b)


def act_as_reader(model: SharedModel, what: str, a: int, b: int) -> None:
    reader = model.readers[a % len(model.readers)]
    some = sorted(reader.held)[a % 3 : a % 3 + b]
    if what == "flow":
        model.flow(reader, 1 + b)
    elif what == "ack":
        model.acknowledge(reader, some)
    elif what == "other":
        model.acknowledge(model.readers[b % len(model.readers)], some)
    elif what == "unseen" and model.places:
        model.acknowledge(reader, [model.places[b % len(model.places)]])
    elif what == "partly":
        batches = [(p, due) for p, due in reader.held.items() if due.bit_count() > 1]
        for position, due in batches[: 1 + a]:
            lowest = due & -due
            model.acknowledge_partly(reader, position, lowest if b % 2 else due - lowest)
    elif what == "back" and some:
        model.give_back(reader, some)
    elif what == "all":
        model.give_back(reader, None)
    elif what == "leave":
        model.leave(reader)


@pytest.mark.parametrize("tail_bytes", [1 << 20, 1], ids=["tail", "storage"])
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(limits=LIMITS, set_aside=st.integers(1, 4), steps=st.lists(STEP, max_size=40))
def test_every_entry_is_delivered_and_none_waits_without_a_reason(
    tail_bytes: int, limits: tuple[int, ...], set_aside: int, steps: list[tuple[str, int, int]]
) -> None:
    reader_max, all_max, turn, batch = limits
    bounds = TopicPolicies(
        dispatch=DispatchPolicies(
            delay_tick_ms=1, unacked_per_consumer=reader_max, unacked_per_subscription=all_max
        )
    )
    small = DataPathSettings(
        dispatcher_max_round_robin_batch_size=turn,
        dispatcher_max_read_batch_size=batch,
        delayed_delivery_min_index_count_per_bucket=set_aside,
        delayed_delivery_max_indexes_per_bucket_snapshot_segment=1 + set_aside // 2,
        delayed_delivery_max_num_buckets=2,
    )

    async def run(loop: SimLoop) -> None:
        model = SharedModel(small, tail_bytes, bounds)
        await model.join(20)
        for step in steps:
            await take_step(model, *step)
            model.check()
        await model.finish()
        assert not loop.failures, loop.failures

    simulate(0, run, limit_s=1000.0)
