"""Key_Shared subscriptions under random sequences of events: every key in order, no entry is left undelivered."""

from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.sharing import parked as parked_module
from engine.broker.policies import (
    DispatchPolicies,
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings
from tests.sim.kit.loop import SimLoop, simulate
from tests.support.key_model import KeyModel
from tests.unit.broker.dispatch.test_shared_property import LIMITS, STEP, take_step


@pytest.mark.parametrize("tail_bytes", [1 << 20, 1], ids=["tail", "storage"])
@pytest.mark.parametrize("out_of_order", [False, True], ids=["ordered", "any-order"])
@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(
    limits=LIMITS,
    ahead=st.integers(1, 8),
    parked=st.integers(0, 4),
    steps=st.lists(STEP, max_size=40),
)
def test_every_key_is_delivered_in_order_and_no_entry_waits_without_a_reason(
    tail_bytes: int,
    out_of_order: bool,
    limits: tuple[int, ...],
    ahead: int,
    parked: int,
    steps: list[tuple[str, int, int]],
) -> None:
    reader_max, all_max, turn, batch = limits
    bounds = TopicPolicies(
        dispatch=DispatchPolicies(
            delay_tick_ms=1, unacked_per_consumer=reader_max, unacked_per_subscription=all_max
        )
    )
    small = DataPathSettings(
        delayed_delivery_min_index_count_per_bucket=3,
        delayed_delivery_max_indexes_per_bucket_snapshot_segment=2,
        delayed_delivery_max_num_buckets=2,
        dispatcher_max_round_robin_batch_size=turn,
        dispatcher_max_read_batch_size=batch,
        key_shared_look_ahead_msg_in_replay_threshold_per_consumer=ahead,
        subscription_key_shared_consistent_hashing_replica_points=10,
    )

    async def run(loop: SimLoop) -> None:
        model = KeyModel(small, tail_bytes, KeyPolicy(out_of_order=out_of_order), bounds)
        await model.join(20)
        for step in steps:
            await take_step(model, *step)
            model.check()
        await model.finish()
        assert not loop.failures, loop.failures

    with patch.object(parked_module, "PARKED_MAX", parked):
        simulate(0, run, limit_s=1000.0)
