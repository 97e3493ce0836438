"""A client uses the first broker that answers, repeats requests after passing errors, and raises lasting ones."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.base.names import NamespaceName, TopicName
from engine.client import client as clients
from engine.client.client import PulsarClient, never_final, partition_names
from engine.client.errors import (
    CostlyPatternError,
    LostError,
    NoAnswerError,
    NoBrokerError,
    RefusedError,
    UnreachableError,
)
from engine.net.transport import Connection
from engine.wire.errors import REFUSALS, ServerError
from tests.support.broker_bench import NAME, PATIENT, served
from tests.support.net.pipe_network import PipeNetwork

pytestmark = pytest.mark.virtual_time

DOWN = "pulsar://127.0.0.1:1"


def client_of(*urls: str, **more: Any) -> PulsarClient:
    async def brokers() -> Sequence[str]:
        return urls

    return PulsarClient(
        network=PipeNetwork(),
        clock=LoopClock(),
        entropy=RandomEntropy(),
        brokers=brokers,
        settings=PATIENT,
        **more,
    )


async def test_a_broker_that_is_down_is_skipped() -> None:
    async with served() as (_, sessions, url):
        client = client_of(DOWN, url, DOWN)
        links = [await client.owner(NAME.full) for _ in range(4)]
        assert len(set(links)) == 1
        assert sessions.accepted == 1
        assert await client.partitions(NAME.full) == 0
        await client.close()
        with pytest.raises(LostError):
            await client.owner(NAME.full)


async def test_a_broker_that_hangs_is_replaced_after_a_short_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Use another broker than one that accepts connections only, as the kernel does for a stopped process."""
    monkeypatch.setattr(clients, "IMPATIENT_S", 0.01)
    silent = await PipeNetwork().listen("127.0.0.1", 0, lambda: Connection(1 << 20))
    hung = f"pulsar://127.0.0.1:{silent.port}"
    async with served() as (_, _, url):
        client = client_of(hung, url, hung)
        async with asyncio.timeout(60):
            links = [await client.owner(NAME.full) for _ in range(3)]
        assert len(set(links)) == 1
        with pytest.raises(RefusedError):
            await client.schema(NAME.full, b"no version")
        await client.close()
    silent.close()


@pytest.mark.parametrize("slow", [0.0, 0.05])
async def test_the_first_answer_is_used_and_other_requests_are_cancelled(
    monkeypatch: pytest.MonkeyPatch, slow: float
) -> None:
    monkeypatch.setattr(clients, "IMPATIENT_S", 0.01)
    cancelled: list[str] = []

    async def ask(url: str) -> str:
        if url == "slow":
            await asyncio.sleep(slow)
        elif url == "silent":
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(url)
        elif url == "gone":
            raise LostError(url)
        return url

    first = clients._first_answer
    assert await first(["slow", "silent"], ask) == "slow"
    assert await first(["gone", "silent", "gone", "slow"], ask) == "slow"
    assert await first(["silent", "gone", "slow"], ask) == "slow"
    with pytest.raises(LostError):
        await first(["gone", "gone"], ask)
    await asyncio.sleep(0)
    assert len(cancelled) == (2 if not slow else 3)
    assert len(asyncio.all_tasks()) == 1


async def test_brokers_that_do_not_answer_or_are_not_known_are_errors() -> None:
    client = client_of(DOWN, DOWN)
    with pytest.raises(UnreachableError):
        await client.owner(NAME.full)
    with pytest.raises(NoBrokerError):
        await client_of().owner(NAME.full)
    await client.close()


async def test_topics_of_a_namespace_by_pattern() -> None:
    async with served() as (bench, _, url):

        async def topics(namespace: NamespaceName, mode: Any) -> list[str]:
            return [f"persistent://{namespace}/{name}" for name in ("a1", "a2", "b1", "ba1")]

        bench.everything.topics_of_namespace = topics  # type: ignore[method-assign]
        client = client_of(url)
        matching = await client.topics_matching(TopicName.parse("public/default/a.*"))
        assert sorted(matching) == [f"persistent://public/default/{name}" for name in ("a1", "a2")]
        with pytest.raises(CostlyPatternError, match="costly"):
            await client.topics_matching(TopicName.parse("public/default/(?!a)b.*"))
        await client.close()


class Attempts:
    """A request that fails with each of ``errors`` in turn, then succeeds."""

    def __init__(self, *errors: MagnetarError) -> None:
        self.errors = list(errors)
        self.count = 0

    async def __call__(self) -> str:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_a_passing_error_is_retried() -> None:
    attempts = Attempts(LostError("x"), REFUSALS[ServerError.ServiceNotReady]("y"))
    assert await client_of().patiently(attempts, timeout_s=60) == "done"
    assert attempts.count == 3


@pytest.mark.parametrize("code", [ServerError.TopicNotFound, ServerError.ProducerBusy])
async def test_a_lasting_or_final_error_is_raised_at_once(code: ServerError) -> None:
    for error in (REFUSALS[code]("no"), NoBrokerError("nobody")):
        attempts = Attempts(error)
        with pytest.raises(type(error)):
            await client_of().patiently(attempts, timeout_s=60)
        assert attempts.count == 1


async def test_a_busy_name_may_be_waited_for() -> None:
    attempts = Attempts(REFUSALS[ServerError.ProducerBusy]("no"))
    assert await client_of().patiently(attempts, timeout_s=None, is_final=never_final) == "done"


async def test_the_last_error_is_raised_when_the_time_is_over() -> None:
    attempts = Attempts(*(UnreachableError("x") for _ in range(100)))
    with pytest.raises(UnreachableError):
        await client_of().patiently(attempts, timeout_s=0.3)
    assert 1 < attempts.count < 10

    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NoAnswerError):
        await client_of().patiently(never, timeout_s=0.01)


async def test_work_ends_with_the_client() -> None:
    client = client_of()
    task = client.spawn("work", asyncio.Event().wait())  # type: ignore[arg-type]
    await client.close()
    assert task.cancelled()
    with pytest.raises(LostError):
        client.spawn("work", asyncio.sleep(0))


def test_names_of_partitions() -> None:
    assert partition_names(NAME.full, 0) == [NAME.full]
    assert partition_names(NAME.full, 2) == [f"{NAME.full}-partition-{i}" for i in (0, 1)]
