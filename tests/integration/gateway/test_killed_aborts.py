"""Aborts of transactions by the console's API while a part is killed: none is reported that is not, none is denied
whose outcome is unknown, and each can be made in the end."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pulsar
import pytest

from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.net.network import LoopNetwork
from tests.support.instance import Instance, running_instance
from tests.support.transactions.transaction_client import TransactionClient, Txn
from tests.support.waiting import until_blocking

API = "/api/v1/clusters/standalone/transactions"
TOPIC = "persistent://public/default/held-back"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(
        tmp_path_factory.mktemp("aborts"), MAGNETAR_TRANSACTION_COORDINATOR_ENABLED="true"
    ) as made:
        client = pulsar.Client(made.url)
        client.subscribe(TOPIC, "s").close()
        client.close()
        yield made


def begin(instance: Instance) -> Txn:
    """Begin a transaction that publishes to the topic and acknowledges on a subscription of it."""

    async def work() -> Txn:
        links = Links(LoopNetwork(), LinkSettings("test", request_timeout_s=30.0), BrokerLink)
        client = await TransactionClient.open(links, instance.url)
        txn = await client.begin(HOUR_MS)
        await client.add_partitions(txn, [TOPIC])
        await client.add_subscriptions(txn, [(TOPIC, "s")])
        await links.close()
        return txn

    return asyncio.run(work())


def states(instance: Instance) -> dict[Txn, str] | None:
    """Return the states of the transactions that are not ended; None while that is not known."""
    try:
        status, answer = instance.rest("GET", API)
    except OSError:
        return None
    if status != 200 or any(row["reason"] for row in answer["coordinators"]):
        return None
    return {(row["coordinator"], row["number"]): row["status"] for row in answer["rows"]}


def known_states(instance: Instance) -> dict[Txn, str]:
    known: dict[Txn, str] = {}

    def is_known() -> bool:
        answer = states(instance)
        known.clear()
        known.update(answer or {})
        return answer is not None and "ABORTING" not in known.values()

    until_blocking(is_known, instance.logs, bound_s=120)
    return known


def abort(instance: Instance, txn: Txn, body: dict[str, Any]) -> tuple[int, Any]:
    """Return the answer; status 0 for none."""
    try:
        return instance.rest("POST", f"{API}/{txn[0]}/{txn[1]}/abort", body, timeout_s=60)
    except OSError as error:
        return 0, repr(error)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", ["broker-1", "bookie-1", "zookeeper", "gateway"])
def test_an_abort_during_which_a_part_is_killed_is_neither_denied_nor_reported_unless_it_is_done(
    instance: Instance, part: str
) -> None:
    txn, other = begin(instance), begin(instance)
    status, preview = abort(instance, txn, {"preview": True})
    assert status == 200, preview
    os.kill(int(instance.child(part)["pid"]), signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(abort, instance, txn, {"token": preview["token"]})
        time.sleep(0.5)  # time: the call is under way meanwhile; before it is right too
        instance.kill(part)
        status, answer = call.result()
    instance.wait_running(part)
    until_blocking(instance.healthy, instance.logs)
    known = known_states(instance)
    assert status in (0, 200, 503), f"an unknown outcome is denied: {answer}"
    if status == 200:
        assert txn not in known, "an abort was reported that is not"
    assert known[other] == "OPEN", "another transaction was ended"
    if txn in known:
        assert known[txn] == "OPEN"
        status, preview = abort(instance, txn, {"preview": True})
        assert status == 200, preview
        status, answer = abort(instance, txn, {"token": preview["token"]})
        assert status == 200, answer
    instance.kill("broker-1")
    instance.wait_running("broker-1")
    assert txn not in known_states(instance), "an abort is lost"
    assert known_states(instance)[other] == "OPEN"
