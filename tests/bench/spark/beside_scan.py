"""Times of publishing alone and while Spark reads a whole topic, by turns.

Run: python -m tests.bench.spark.beside_scan [--rows N] [--turns N] [--seconds S]

One producer publishes 200 messages of 1,000 B a second, each of which is confirmed before the next; meanwhile Spark
reads another topic again and again in every second turn. Both share the machine, so what is measured includes that
Spark uses its processors.
"""

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

import pulsar

from tests.bench.spark.read_rows import SILENT, published
from tests.support.analyses.stream_program import session
from tests.support.instance import running_instance

READ = "persistent://public/default/read"
WRITTEN = "persistent://public/default/written"
RATE = 200


def publish_ms(producer: pulsar.Producer, seconds: float) -> list[float]:
    """Publish for ``seconds``; return how many milliseconds each message took, from when it was due."""
    taken = []
    began = time.monotonic()
    for i in range(int(seconds * RATE)):
        due = began + i / RATE
        time.sleep(max(0.0, due - time.monotonic()))
        producer.send(b"x" * 1000)
        # A message that waited for the one before it took that long too.
        taken.append((time.monotonic() - due) * 1000)
    return taken


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        running_instance(
            Path(name),
            MAGNETAR_DEFAULT_RETENTION_TIME_IN_MINUTES="-1",
            MAGNETAR_DEFAULT_RETENTION_SIZE_IN_MB="-1",
        ) as instance,
    ):
        published(instance, READ, given.rows, 100, 1000)
        spark = session()
        url = f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}"
        rows = spark.read.format("pulsar").option("topic", READ).option("metadataUrl", url)
        frame = rows.option("columns", "value").load()

        def read() -> None:
            frame.write.format("noop").mode("overwrite").save()

        read()
        client = pulsar.Client(instance.url, logger=SILENT)
        producer = client.create_producer(WRITTEN)
        publish_ms(producer, given.seconds)
        alone: list[float] = []
        beside: list[float] = []
        for _ in range(given.turns):
            alone.append(p99(publish_ms(producer, given.seconds)))
            ended = threading.Event()
            reads = 0

            def scans(ended: threading.Event = ended) -> None:
                nonlocal reads
                while not ended.is_set():
                    read()
                    reads += 1

            scanning = threading.Thread(target=scans)
            scanning.start()
            try:
                beside.append(p99(publish_ms(producer, given.seconds)))
            finally:
                ended.set()
                scanning.join()
            print(
                f"p99 alone {alone[-1]:8.2f} ms, beside {reads} reads {beside[-1]:8.2f} ms",
                flush=True,
            )
        a, b = statistics.median(alone), statistics.median(beside)
        print(f"median of the turns: alone {a:.2f} ms, beside a scan {b:.2f} ms, {b / a - 1:+.0%}")
        client.close()
        spark.stop()


if __name__ == "__main__":
    main()
