"""Ends of transactions that no marker can state: when they are stored, and when they are confirmed."""

import asyncio

import pytest

from engine.base.tasks import TaskScope
from engine.broker.errors import BrokerError, ServiceNotReady
from engine.broker.transactions.buffer.unmarked_ends import UnmarkedEnds
from engine.broker.transactions.txn_id import TxnId
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

A, B = TxnId(0, 1), TxnId(0, 2)


async def test_ends_are_confirmed_together_when_the_last_one_is_stored() -> None:
    outcomes: list[tuple[str, BrokerError | None]] = []
    stored = 0
    fails = True

    async def store() -> None:
        nonlocal stored
        await asyncio.sleep(0.1)
        if fails:
            raise ServiceNotReady("no")
        stored += 1

    scope = TaskScope("ends")
    ends = UnmarkedEnds(scope, store)
    ends.add(A, lambda error: outcomes.append(("a", error)), last=False)
    await asyncio.sleep(1)
    assert (outcomes, A in ends, B in ends) == ([], True, False)
    ends.add(B, lambda error: outcomes.append(("b", error)), last=True)
    await until(lambda: len(outcomes) == 2)
    assert [(name, type(error)) for name, error in outcomes] == [
        ("a", ServiceNotReady),
        ("b", ServiceNotReady),
    ]
    # What is not stored is known on, and confirmed when it is requested again.
    assert A in ends
    outcomes.clear()
    fails = False
    ends.add(A, lambda error: outcomes.append(("a", error)), last=True)
    ends.add(B, lambda error: outcomes.append(("b", error)), last=True)
    await until(lambda: len(outcomes) == 2)
    assert (outcomes, stored, A in ends) == ([("a", None), ("b", None)], 1, False)
    ends.add(A, lambda error: outcomes.append(("later", error)), last=False)
    ends.fail(ServiceNotReady("unloaded"))
    assert outcomes[-1][0] == "later"
    assert isinstance(outcomes[-1][1], ServiceNotReady)
    await scope.close()
