"""Messages pass through Apache Kafka's own server once each, over kills of the connectors."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.kafka.kafka_source import SOURCE_SETTINGS, KafkaSource
from engine.functions.connectors.spi import Record
from tests.support.functions.connector_host import FakeContext
from tests.support.functions.kafka_process import kafka_is_there, running_kafka

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
from confluent_kafka.admin import AdminClient, NewTopic

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not kafka_is_there(),
        reason="needs Kafka's server: tests.bench.systems.kafka.jars() fetches it",
    ),
]
COUNT = 3000
WRITER = """
import asyncio, sys
from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.kafka.kafka_sink import SINK_SETTINGS, KafkaSink
from tests.support.functions.connector_host import FakeContext, Settlements

async def main(servers, first, count):
    sink, seen = KafkaSink(), Settlements()
    await sink.open(checked(SINK_SETTINGS, {"bootstrapServers": servers, "topic": "t"}), FakeContext())
    for begin in range(first, count, 20):
        await sink.write([seen.record(n, b"%d" % n, key=f"k{n % 7}") for n in range(begin, min(begin + 20, count))])
        print(len(seen.acked) + first, flush=True)

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with running_kafka() as address:
        admin = AdminClient({"bootstrap.servers": address})
        for made in admin.create_topics([NewTopic("t", 3, 1)]).values():
            made.result(60)
        yield address


def write_until_killed(servers: str, first: int, lines: int) -> int:
    """Run the sink in a process, which is killed behind so many lines; return how many messages were acknowledged."""
    command = [sys.executable, "-c", WRITER, servers, str(first), str(COUNT)]
    root = Path(__file__).parents[3]
    acked = first
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, env={**os.environ}) as process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout):
            acked = int(line)
            if number == lines:
                process.send_signal(signal.SIGKILL)
                break
        process.wait(60)
    return acked


async def test_no_message_is_lost_over_kills_of_sink_and_source(servers: str) -> None:
    acked = 0
    for lines in (3, 10, 40, 10**6):
        acked = await asyncio.to_thread(write_until_killed, servers, acked, lines)
    assert acked == COUNT
    published: dict[tuple[str, int | None], bytes] = {}
    committed: set[tuple[str, int | None]] = set()
    while len(set(published.values())) < COUNT:
        source = KafkaSource()
        given = {"bootstrapServers": servers, "topics": ["t"], "batch": 400}
        await source.open(checked(SOURCE_SETTINGS, given), FakeContext())
        for run in range(3):
            records: list[Record] = list(await source.read())
            for record in records:
                place = record.partition, record.sequence
                # What was committed is read no more, and what is read again is the same.
                assert place not in committed
                assert published.setdefault(place, record.value) == record.value
            if run < 2:
                for record in records:
                    record.ack()
                await source.commit()
                committed |= {(record.partition, record.sequence) for record in records}
            if len(set(published.values())) == COUNT:
                break
        await source.close()
    assert sorted(map(int, set(published.values()))) == list(range(COUNT))
    for key in range(7):
        numbers = [
            int(published[place]) for place in sorted(published) if int(published[place]) % 7 == key
        ]
        firsts = list(dict.fromkeys(numbers))
        assert firsts == sorted(firsts)
