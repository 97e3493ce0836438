"""The conditions for which a run of topics waits before it checks that all is delivered and acknowledged."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from engine.base.names import TopicName
from tests.sim.kit.loop import Node
from tests.sim.topics.history import History
from tests.sim.topics.observer import Observer
from tests.sim.topics.workload import TopicsWorkload

TOPIC = TopicName.parse("persistent://public/default/t0")


async def test_a_run_waits_for_operations_that_administrators_began() -> None:
    observer = Observer(cast(Any, None), [str(TOPIC)])
    undo = asyncio.get_running_loop().create_future()
    process = Node("broker-1")
    observer.administered.append((process, cast(Any, undo)))
    assert not observer.administration_ended()
    process.dead = True
    assert observer.administration_ended()
    process.dead = False
    undo.set_result(None)
    assert observer.administration_ended()


def test_a_run_waits_for_a_subscription_that_does_not_exist_yet() -> None:
    history = History()
    full = f"{TOPIC}/exclusive"
    history.subscriptions[full], history.topics[full] = "exclusive", str(TOPIC)
    backlogs: dict[str, int] = {}
    workload = object.__new__(TopicsWorkload)
    workload.history = history
    workload.observer = cast(
        Any, SimpleNamespace(topics=[TOPIC], backlogs=lambda _: backlogs, history=history)
    )
    assert workload._missing() == [f"{full} does not exist"]
    backlogs["exclusive"] = 0
    assert workload._missing() == []
