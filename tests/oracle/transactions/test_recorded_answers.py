"""Answers about transactions that were recorded on Apache Pulsar 4.0.8, asked of an instance of ours: same status, same
fields, same reasons. Figures and positions differ."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.ids import Position
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.net.network import LoopNetwork
from engine.wire import client_commands as say
from engine.wire.batches import Message, pack_entry
from tests.support.instance import Instance, running_instance
from tests.support.instances.shared import SharedInstance
from tests.support.transactions.transaction_client import TransactionClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

RECORDED = Path(__file__).parents[2] / "golden" / "rest" / "transactions-v3.json"
TOPIC = "persistent://cap/n/tx"
TIMEOUT_MS = 60_000
OURS = {
    "POST /admin/v3/transactions/abortTransaction/0/0": (409, "500 there: it was committed"),
    "GET /admin/v3/transactions/pendingAckStats/cap/n/tx/zz": (404, "500 with a stack trace there"),
}
"""Answers that are different on purpose."""
OUR_WORDS = {"GET /admin/v3/transactions/transactionBufferStats/cap/n/zz"}
"""Refusals with another reason, which all calls give here."""


def samples(*, off: bool) -> list[dict[str, Any]]:
    recorded = json.loads(RECORDED.read_text())["samples"]
    return [sample for sample in recorded if sample["case"].startswith("feature off") == off]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(
        tmp_path_factory.mktemp("ours"), MAGNETAR_TRANSACTION_COORDINATOR_ENABLED="true"
    ) as made:
        tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
        assert made.rest("PUT", "/admin/v2/tenants/cap", tenant)[0] == 204
        assert made.rest("PUT", "/admin/v2/namespaces/cap/n")[0] == 204
        asyncio.run(one_transaction(made.url))
        yield made


async def one_transaction(url: str) -> None:
    """Commit a message, and the acknowledgement of one that was there."""
    links = Links(LoopNetwork(), LinkSettings("test", request_timeout_s=30.0), BrokerLink)
    link = await links.owner(TOPIC, url)
    came: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
    consumer = await RawConsumer.open(
        link,
        TOPIC,
        "s",
        SHARED,
        on_messages=lambda run: came.set_result(run[0].position),
        initial=FROM_EARLIEST,
    )
    consumer.flow(1)
    producer = await RawProducer.open(link, TOPIC)
    producer.send([0], [pack_entry([Message(b"plain")], producer_name="p", publish_ms=1)])
    client = await TransactionClient.open(links, url)
    txn = await client.begin(TIMEOUT_MS)
    await client.add_partitions(txn, [TOPIC])
    await client.add_subscriptions(txn, [(TOPIC, "s")])
    named = {"txnid_most_bits": txn[0], "txnid_least_bits": txn[1]}
    entry = pack_entry([Message(b"new")], producer_name="p", publish_ms=1, extra=named)
    producer._unanswered.append(1)
    link.send(say.send(producer.producer_id, 1, entry, txn=txn))
    request_id = link.new_id()
    frame = say.ack(consumer.consumer_id, [await came], request_id=request_id, txn=txn)
    await link.request(request_id, frame)
    await producer.drained()
    await client.end(txn, commit=True)
    await links.close()


def wrong(instance: Instance, sample: dict[str, Any]) -> str:
    """Return how the answer differs from the recorded one; empty when it does not."""
    request = sample["request"]
    method, path = request.split(" ", 1)
    body = sample.get("request_body")
    status, answer = instance.rest(method, path, None if body is None else json.loads(body))
    if request in OURS:
        wanted, why = OURS[request]
        return "" if status == wanted else f"{request}: {status}, not {wanted}: {why}"
    if status != sample["status"]:
        return f"{request}: {status} {answer}, recorded {sample['status']}"
    recorded = sample.get("body")
    if status >= 400:
        same = request in OUR_WORDS or answer["reason"] == recorded["reason"]
        return "" if same else f"{request}: {answer}, recorded {recorded}"
    here, there = shape(answer), shape(recorded)
    return "" if here == there else f"{request}: {here}\n  recorded {there}"


def shape(value: Any) -> Any:
    """Return the fields and the types of an answer. Maps by position or number count by one of their values."""
    if isinstance(value, dict):
        if value and all(key.isdigit() for key in value):
            return {"number": shape(next(iter(value.values())))}
        return {key: shape(of) for key, of in value.items() if key != "properties"}
    if isinstance(value, list):
        return [shape(of) for of in value[:1]]
    return type(value)


def test_recorded_answers_are_given(instance: Instance) -> None:
    compared = samples(off=False)
    differing = [text for sample in compared if (text := wrong(instance, sample))]
    assert not differing, "\n\n".join(differing)
    assert len(compared) == 19


def test_without_transactions_the_recorded_refusals_are_given(
    shared_instance: SharedInstance,
) -> None:
    with shared_instance.used() as off:
        differing = [text for sample in samples(off=True) if (text := wrong(off, sample))]
    assert not differing, "\n\n".join(differing)
