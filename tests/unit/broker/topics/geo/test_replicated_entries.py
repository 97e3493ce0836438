"""Entries that another cluster's replicator sends: stored once, in their order, by their positions in that cluster."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from engine.admin.api.statistics import TopicStats
from engine.base.ids import Position
from engine.broker.administration.reports import topic_stats
from engine.broker.connection.produce import ProduceCommands
from engine.broker.errors import NotAllowed, ProducerBusy
from engine.broker.policies import DeduplicationPolicies, PublishPolicies, TopicPolicies
from engine.broker.topics.limits import admit_fitting
from engine.broker.topics.publish import Publish, StagePlace, in_order
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import read_metadata
from engine.wire.client_commands import send
from engine.wire.errors import ServerError
from engine.wire.events import Sends
from engine.wire.geo.source_positions import MARKER_HIGHEST, SOURCE_POSITION, source_position
from engine.wire.kernels import take_sends
from engine.wire.varints import UINT64_MAX
from tests.support.broker_bench import NAME, Bench, Client, commands_in, opened, until
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time

DEDUPLICATED = DeduplicationPolicies(enabled=True)
ON = TopicPolicies(deduplication=DEDUPLICATED)
REPLICATOR = "pulsar.repl.us-->test"
"""The replicator of the cluster ``us`` to the bench's cluster."""


class Replicator(Client):
    """A connection of another cluster's broker with one producer."""

    replicates_by_source = True

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.rows: list[tuple[int, int, int]] = []
        """Ledger and entry of the origin and entry here of each receipt; -1 for what was stored before."""
        self._commands = ProduceCommands(self, bench.context, bench.registry, bench.schemas)
        self._sequence = 0

    def send(self, data: bytes) -> None:
        for command in commands_in(data):
            if command.HasField("send_receipt"):
                receipt = command.send_receipt
                here = receipt.message_id.entryId
                self.rows.append(
                    (
                        receipt.sequence_id,
                        receipt.highest_sequence_id,
                        -1 if here == UINT64_MAX else here,
                    )
                )
        super().send(data)

    async def join(self, name: str = REPLICATOR, producer_id: int = 1) -> "Replicator":
        body = pb.CommandProducer(
            topic=str(NAME),
            producer_id=producer_id,
            request_id=1,
            producer_name=name,
            user_provided_producer_name=True,
        )
        (answer,) = commands_in(await self._commands.producer(body))
        assert answer.producer_success.last_sequence_id == -1
        return self

    def sends(self, *positions: str, marker: bool = False, others: int = 0) -> None:
        """Send entries of these positions in one burst. All have the same name and sequence id of their producer.

        Before each, an entry of the producer with the id ``others``, if any.
        """
        data = b""
        for text in positions:
            if others:
                data += send(others, self._sequence, entry_of(b"o"))
                self._sequence += 1
            properties = [{"key": SOURCE_POSITION, "value": text}] if text else []
            fields = {"marker_type": 10} if marker else {}
            entry = entry_of(
                b"v", sequence_id=7, replicated_from="us", properties=properties, **fields
            )
            data += send(1, self._sequence, entry)
            self._sequence += 1
        _, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        command = pb.CommandSend(producer_id=1, sequence_id=self._sequence - 1, marker=True)
        self._commands.send(Sends(run, command if marker else None))

    async def answered(self, count: int) -> list[tuple[int, int, int]]:
        await until(lambda: len(self.rows) >= count)
        return self.rows


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        await restart(made, ON)
        yield made


async def restart(bench: Bench, policies: TopicPolicies) -> None:
    bench.everything.in_force = policies
    await bench.registry.unload(NAME)
    await bench.load()


async def stored(bench: Bench) -> list[Position | None]:
    """Return the source position of every entry; None of one without."""
    log = bench.topic.log
    rows: list[Position | None] = []
    position = log.next_position(Position(-1, -1))
    while position <= log.last_confirmed:
        metadata = read_metadata((await log.read_entry(position)).entry(0))
        assert metadata is not None
        rows.append(source_position(metadata))
        position = log.next_position(position)
    return rows


async def test_g1_entries_sent_again_are_stored_once_by_their_positions(bench: Bench) -> None:
    us = await Replicator(bench).join()
    us.sends("3:0", "3:1", "4:0")
    assert await us.answered(3) == [(3, 0, 0), (3, 1, 1), (4, 0, 2)]
    us.sends("3:1", "4:0", "4:9", "5:0")
    assert (await us.answered(7))[3:] == [(3, 1, -1), (4, 0, -1), (4, 9, 3), (5, 0, 4)]
    assert await stored(bench) == [(3, 0), (3, 1), (4, 0), (4, 9), (5, 0)]


@pytest.mark.parametrize("graceful", [True, False])
async def test_g1_positions_are_known_after_a_restart(bench: Bench, graceful: bool) -> None:
    us = await Replicator(bench).join()
    us.sends("3:0", "3:1")
    await us.answered(2)
    if not graceful:
        await bench.kill()
    await restart(bench, ON)
    again = await Replicator(bench).join()
    again.sends("3:0", "3:1", "3:2")
    rows = await again.answered(3)
    assert [row[2] >= 0 for row in rows] == [False, False, True]
    assert await stored(bench) == [(3, 0), (3, 1), (3, 2)]


async def test_g1_the_place_of_an_absent_replicator_is_kept(bench: Bench) -> None:
    us = await Replicator(bench).join()
    us.sends("3:0", "3:1")
    await us.answered(2)
    for producer in list(bench.topic.producers.values()):
        producer.leave()
    settings = replace(
        bench.context.settings,
        deduplication_producer_inactivity_timeout_minutes=0,
        deduplication_max_number_of_producers=0,
    )
    bench.topic.context = replace(bench.context, settings=settings)
    bench.topic.deduplication.check()
    again = await Replicator(bench).join()
    again.sends("3:1", "3:2")
    assert await again.answered(2) == [(3, 1, -1), (3, 2, 2)]


async def test_g1_nothing_behind_an_entry_without_a_position_is_stored(bench: Bench) -> None:
    us = await Replicator(bench).join()
    us.sends("3:0", "", "3:2")
    await until(lambda: us.dropped)
    us.sends("3:3")
    assert us.errors[0][1] == ServerError.PersistenceError
    await us.answered(1)
    assert await stored(bench) == [(3, 0)]


async def test_g1_nothing_behind_a_refused_entry_is_stored(bench: Bench) -> None:
    await restart(
        bench,
        TopicPolicies(
            deduplication=DEDUPLICATED, publish=PublishPolicies(encryption_required=True)
        ),
    )
    bench.topic.publishers.apply(PublishPolicies())
    us = await Replicator(bench).join()
    us.sends("3:0", "3:1")
    await until(lambda: us.dropped)
    assert [error[1] for error in us.errors] == [ServerError.PersistenceError]
    us.sends("3:2")
    assert await stored(bench) == []


async def test_g1_nothing_behind_a_refused_entry_of_a_run_is_stored(bench: Bench) -> None:
    us = await Replicator(bench).join()
    fits = iter([[True, False, True]])

    class Limit:
        place = StagePlace.DELAY

        def admit(self, publish: Publish) -> bool:
            return admit_fitting(bench.topic, self, publish, next(fits), NotAllowed("no"))

        def stored(self, publish: Publish, start: int, stop: int) -> None: ...

        def failed(self, publish: Publish, start: int) -> None: ...

    bench.topic.stages = in_order([*bench.topic.stages, Limit()])
    us.sends("3:0", "3:1", "3:2")
    await us.answered(1)
    assert us.dropped
    assert [error[1] for error in us.errors] == [ServerError.PersistenceError]
    assert await stored(bench) == [(3, 0)]


async def test_markers_are_stored_and_not_judged(bench: Bench) -> None:
    us = await Replicator(bench).join()
    us.sends("3:5")
    us.sends("3:1", marker=True)
    us.sends("3:1", marker=True)
    rows = await us.answered(3)
    assert [row[1] for row in rows] == [5, MARKER_HIGHEST % (1 << 64), MARKER_HIGHEST % (1 << 64)]
    assert len(await stored(bench)) == 3


async def test_an_ordinary_client_sends_no_marker(bench: Bench) -> None:
    client = await Replicator(bench).join("pulsar.replica")
    client.sends("3:1", marker=True)
    await until(lambda: client.errors)
    assert client.errors[0][1] == ServerError.NotAllowedError


async def test_without_deduplication_receipts_name_source_positions_too(bench: Bench) -> None:
    await restart(bench, TopicPolicies())
    us = await Replicator(bench).join()
    us.sends("3:0", "3:0")
    assert await us.answered(2) == [(3, 0, 0), (3, 0, 1)]


async def test_g1_a_replicator_without_source_positions_is_refused_by_deduplication(
    bench: Bench,
) -> None:
    older = Replicator(bench)
    older.replicates_by_source = False
    with pytest.raises(NotAllowed, match=r"4\.0\.4"):
        await older.join()
    await restart(bench, TopicPolicies())
    await older.join()


async def test_a_replicator_is_no_publisher_in_statistics_and_counts_for_no_limit(
    bench: Bench,
) -> None:
    await restart(
        bench, TopicPolicies(deduplication=DEDUPLICATED, publish=PublishPolicies(max_producers=1))
    )
    us = await Replicator(bench).join()
    await Replicator(bench).join("till")
    with pytest.raises(ProducerBusy):
        await Replicator(bench).join("second")
    us.sends("3:0")
    await us.answered(1)
    flags = TopicStats(NAME)
    stats = topic_stats(bench.topic, flags, "b")
    assert [publisher["producerName"] for publisher in stats["publishers"]] == ["till"]
    assert stats["replication"]["us"]["msgInCount"] == 1
    assert stats["replication"]["us"]["inboundConnection"] == "/test:1"


async def test_producers_of_one_burst_beside_a_replicator_are_published_apart(bench: Bench) -> None:
    us = await Replicator(bench).join()
    await us.join("till", producer_id=2)
    us.sends("3:0", "3:1", others=2)
    await until(lambda: len(us.rows) == 4)
    assert sorted(row[:2] for row in us.rows)[-2:] == [(3, 0), (3, 1)]
    us.sends("3:1", "3:2", others=2)
    await until(lambda: len(us.rows) == 8)
    positions = [position for position in await stored(bench) if position is not None]
    assert positions == [(3, 0), (3, 1), (3, 2)]
