"""A task of the Spark sink against a real broker, without Spark: each row once where deduplication is on, whatever
ended the task before, and refusals that name topic and reason."""

import multiprocessing
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pulsar
import pyarrow as pa
import pytest

from spark_jobs.pulsar_sink.numbering import NumberingError, TaskNumbers
from spark_jobs.pulsar_sink.options import parse
from spark_jobs.pulsar_sink.publishing import SinkError, WrittenRows, publish
from spark_jobs.pulsar_sink.rows import RowColumns
from spark_jobs.pulsar_source.options import OptionError
from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
KILLS = 20
BATCH_ROWS = 2000
ONCE, PLAIN = "public/sink-once", "public/sink-plain"
KEYED = {"value": "string", "key": "string"}


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        for namespace in (ONCE, PLAIN):
            assert shared.rest("PUT", f"/admin/v2/namespaces/{namespace}")[0] == 204
        path = f"/admin/v2/namespaces/{ONCE}/deduplication"
        assert shared.rest("POST", path, True)[0] == 204
        yield shared


def rows(numbers: Sequence[int], **more: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the numbers in batches of a hundred, with one of seven keys."""
    for at in range(0, len(numbers), 100):
        run = numbers[at : at + 100]
        columns = {"value": [str(n) for n in run], "key": [f"k{n % 7}" for n in run]}
        given = {name: list(values[at : at + 100]) for name, values in more.items()}
        yield pa.RecordBatch.from_pydict(columns | given)


def broken(batches: Iterator[pa.RecordBatch], after: int) -> Iterator[pa.RecordBatch]:
    """Yield so many batches, then fail as an input of a task does."""
    for _ in range(after):
        yield next(batches)
    raise RuntimeError("planted failure")


def write(
    instance: Instance,
    topic: str,
    batches: Iterator[pa.RecordBatch],
    numbers: TaskNumbers,
    **options: str,
) -> WrittenRows:
    given = {"serviceUrl": instance.url, "topic": topic, **options}
    return publish(
        parse({name: value for name, value in given.items() if value}),
        RowColumns.of(KEYED | ({} if topic else {"topic": "string"}), topic_given=bool(topic)),
        numbers,
        batches,
    )


def stored(instance: Instance, *topics: str) -> list[pulsar.Message]:
    """Return all messages of the topics, in their order."""
    client = pulsar.Client(instance.url, logger=SILENT)
    messages = []
    for topic in topics:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        while reader.has_message_available():
            messages.append(reader.read_next(10_000))
    client.close()
    return messages


def counted(messages: Sequence[pulsar.Message]) -> Counter[int]:
    return Counter(int(message.data()) for message in messages)


def test_a_task_that_runs_again_leaves_out_what_is_stored(instance: Instance) -> None:
    topic, numbers = f"persistent://{ONCE}/again", TaskNumbers("spark", "query", 3, 9)
    for after in (0, 3, 7):
        with pytest.raises(RuntimeError, match="planted"):
            write(instance, topic, broken(rows(range(1000)), after), numbers)
    last = write(instance, topic, rows(range(1000)), numbers, deliveryGuarantee="exactly-once")
    assert last.rows + last.repeated == 1000
    assert last.repeated > 0
    again = write(instance, topic, rows(range(1000)), numbers)
    assert (again.rows, again.repeated, again.unprotected) == (0, 1000, ())
    write(instance, topic, rows(range(1000, 1100)), numbers._replace(batch_id=10))
    messages = stored(instance, topic)
    assert [int(message.data()) for message in messages] == list(range(1100))
    assert messages[0].producer_name() == "spark-query-3"
    with pytest.raises(NumberingError, match="batch 9 is older than batch 10"):
        write(instance, topic, rows(range(1000)), numbers)


def test_keys_keep_their_partition_and_each_partition_its_numbers(instance: Instance) -> None:
    topic, numbers = f"persistent://{ONCE}/parts", TaskNumbers("spark", "parts", 0)
    assert instance.rest("PUT", f"/admin/v2/persistent/{ONCE}/parts/partitions", 3)[0] == 204
    with pytest.raises(RuntimeError, match="planted"):
        write(instance, topic, broken(rows(range(2000)), 11), numbers)
    write(instance, topic, rows(range(2000)), numbers)
    messages = stored(instance, *(f"{topic}-partition-{i}" for i in range(3)))
    assert counted(messages) == Counter(range(2000))
    places = {(m.partition_key(), m.topic_name()) for m in messages}
    assert len(places) == 7
    in_order: dict[str, list[int]] = {}
    for message in messages:
        in_order.setdefault(message.partition_key(), []).append(int(message.data()))
    assert all(run == sorted(run) for run in in_order.values())


def test_rows_name_their_topics(instance: Instance) -> None:
    names = [f"persistent://{ONCE}/by-row-{n % 3}" for n in range(600)]
    write(instance, "", rows(range(600), topic=names), TaskNumbers("spark", "by-row", 0))
    for n in range(3):
        messages = stored(instance, f"persistent://{ONCE}/by-row-{n}")
        assert counted(messages) == Counter(range(n, 600, 3))


def test_a_task_waits_for_the_end_of_another_attempt(instance: Instance) -> None:
    topic, numbers = f"persistent://{ONCE}/speculative", TaskNumbers("spark", "twice", 0)
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        batches = rows(range(1000))
        yield next(batches)
        yield next(batches)
        begun.set()
        assert go_on.wait(30)
        yield from batches

    results: list[WrittenRows] = []
    first = threading.Thread(target=lambda: results.append(write(instance, topic, slow(), numbers)))
    second = threading.Thread(
        target=lambda: results.append(write(instance, topic, rows(range(1000)), numbers))
    )
    first.start()
    assert begun.wait(30)
    second.start()
    go_on.set()
    first.join(60)
    second.join(60)
    assert sum(written.rows for written in results) == 1000
    assert counted(stored(instance, topic)) == Counter(range(1000))


def write_batches(url: str, topic: str, commits: Path) -> None:
    """Write batches one after the other, as a query does, and note the end of each."""
    options = parse({"serviceUrl": url, "topic": topic, "deliveryGuarantee": "exactly-once"})
    columns = RowColumns.of(KEYED, topic_given=True)
    while True:
        batch = len(commits.read_bytes())
        numbers = TaskNumbers("spark", "killed", 0, batch)
        publish(
            options,
            columns,
            numbers,
            slowly(rows(range(BATCH_ROWS * batch, BATCH_ROWS * (batch + 1)))),
        )
        with commits.open("ab") as file:
            file.write(b".")


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(0.005)
        yield batch


def test_a_writer_that_is_killed_again_and_again_stores_each_row_once(
    instance: Instance, tmp_path: Path
) -> None:
    topic, commits, chance = f"persistent://{ONCE}/killed", tmp_path / "commits", random.Random(5)
    commits.touch()
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["tests.integration.spark.test_sink"])
    until, kills = time.monotonic() + 120, 0
    while kills < KILLS and time.monotonic() < until:
        writer = forks.Process(target=write_batches, args=(instance.url, topic, commits))
        begun = len(commits.read_bytes())
        writer.start()
        # Each writer repeats a batch; every third one is let through to the next.
        while kills % 3 == 0 and len(commits.read_bytes()) == begun and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(chance.uniform(0.05, 0.4))
        writer.kill()
        writer.join()
        kills += 1
    assert kills == KILLS
    counts = counted(stored(instance, topic))
    assert set(counts.values()) == {1}
    ended = len(commits.read_bytes())
    assert ended > 0
    assert not set(range(BATCH_ROWS * ended)) - set(counts)


def test_without_deduplication_a_write_is_at_least_once_or_refused(instance: Instance) -> None:
    topic, numbers = f"persistent://{PLAIN}/plain", TaskNumbers("spark", "plain", 0)
    written = write(instance, topic, rows(range(300)), numbers)
    assert (written.rows, written.unprotected) == (300, (PLAIN,))
    assert counted(stored(instance, topic)) == Counter(range(300))
    with pytest.raises(SinkError, match=f"deduplication is off in namespace {PLAIN}"):
        write(instance, topic, rows(range(300)), numbers, deliveryGuarantee="exactly-once")


def test_at_least_once_needs_no_order_and_loses_nothing(instance: Instance) -> None:
    topic, numbers = f"persistent://{ONCE}/loose", TaskNumbers("spark", "loose", 0)
    for order in (range(300), range(299, -1, -1)):
        write(instance, topic, rows(order), numbers, deliveryGuarantee="at-least-once")
    assert counted(stored(instance, topic)) == Counter([*range(300)] * 2)


def test_sorted_rows_are_stored_once_although_their_order_changes(instance: Instance) -> None:
    topic, numbers = f"persistent://{ONCE}/sorted", TaskNumbers("spark", "sorted", 0)
    for order in (range(300), range(299, -1, -1)):
        write(instance, topic, rows(order), numbers, orderBy="value")
    assert counted(stored(instance, topic)) == Counter(range(300))


def test_fewer_rows_than_are_stored_fail_instead_of_passing(instance: Instance) -> None:
    topic, numbers = f"persistent://{ONCE}/fewer", TaskNumbers("spark", "fewer", 0)
    write(instance, topic, rows(range(300)), numbers)
    with pytest.raises(NumberingError, match=r"300 rows .* which now has 200"):
        write(instance, topic, rows(range(200)), numbers)


@pytest.mark.parametrize("codec", ["none", "lz4", "zlib", "zstd", "snappy"])
def test_messages_are_compressed_in_batches_or_alone(instance: Instance, codec: str) -> None:
    for batching in ("true", "false"):
        topic = f"persistent://{ONCE}/{codec}-{batching}"
        numbers = TaskNumbers("spark", "codec", 0)
        write(
            instance, topic, rows(range(250)), numbers, compression=codec, batchingEnabled=batching
        )
        assert counted(stored(instance, topic)) == Counter(range(250))


def test_refusals_name_topic_and_reason(instance: Instance) -> None:
    numbers = TaskNumbers("spark", "refused", 0)
    with pytest.raises(SinkError, match=r"topic persistent://public/absent/t is not written"):
        write(instance, "public/absent/t", rows(range(10)), numbers)

    large = pa.RecordBatch.from_pydict({"value": ["x" * (6 << 20)], "key": ["k"]})
    with pytest.raises(SinkError, match=r"row 0 of the task.*large.*option chunkingEnabled"):
        write(instance, f"persistent://{ONCE}/large", iter([large]), numbers)
    options = {"chunkingEnabled": "true", "batchingEnabled": "false"}
    write(instance, f"persistent://{PLAIN}/chunked", iter([large]), numbers, **options)
    [message] = stored(instance, f"persistent://{PLAIN}/chunked")
    assert len(message.data()) == 6 << 20

    topic = f"persistent://{ONCE}/ended"
    write(instance, topic, rows(range(10)), numbers)
    assert instance.rest("POST", f"/admin/v2/persistent/{ONCE}/ended/terminate")[0] == 200
    with pytest.raises(SinkError, match=r"ended.*terminated"):
        write(instance, topic, rows(range(10)), numbers._replace(batch_id=1))

    with pytest.raises(OptionError, match=r"option authentication\.file: cannot read /absent"):
        options = {"authentication.file": "/absent"}
        write(instance, f"persistent://{ONCE}/x", rows(range(10)), numbers, **options)
