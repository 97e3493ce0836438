"""Figures in the outputs of the load programs of Kafka, NATS and Redis."""

import re
from itertools import pairwise

from tests.bench.figures import Figures

KAFKA_SENT = re.compile(r"([\d.]+) records/sec \([\d.]+ MB/sec\), ([\d.]+) ms avg latency")
NATS = re.compile(r"stats: ([\d,]+) msgs/sec")
NATS_MEAN = re.compile(r"avg: ([\d.,]+)us")


def kafka_producer(output: str) -> Figures:
    """Return the figures of the last summary, which leaves out the records that warm up. Raises RuntimeError."""
    summaries = KAFKA_SENT.findall(output)
    if not summaries:
        raise RuntimeError(f"no figures in: {output[-500:]}")
    rate, mean = summaries[-1]
    return {"messages/s": float(rate), "mean ms": float(mean)}


def kafka_consumer(output: str) -> Figures:
    """Return the rate without the time in which the consumer joins its group. Raises RuntimeError."""
    lines = [[part.strip() for part in line.split(",")] for line in output.splitlines()]
    for head, row in pairwise(lines):
        if "fetch.nMsg.sec" in head:
            return {"messages/s": float(row[head.index("fetch.nMsg.sec")])}
    raise RuntimeError(f"no figures in: {output[-500:]}")


def nats(output: str) -> Figures:
    """Return rate, and mean latency where one is printed. Raises RuntimeError."""
    rate = NATS.search(output)
    if rate is None:
        raise RuntimeError(f"no figures in: {output[-500:]}")
    figures = {"messages/s": float(rate[1].replace(",", ""))}
    if mean := NATS_MEAN.search(output):
        figures["mean ms"] = float(mean[1].replace(",", "")) / 1000
    return figures


def redis(output: str) -> Figures:
    """Return the figures of the CSV of ``redis-benchmark``. Raises RuntimeError."""
    lines = [line for line in output.splitlines() if line.startswith('"')]
    if len(lines) != 2:
        raise RuntimeError(f"no figures in: {output[-500:]}")
    head, row = ([part.strip('"') for part in line.split('","')] for line in lines)
    values = dict(zip(head, row, strict=True))
    return {"messages/s": float(values["rps"]), "mean ms": float(values["avg_latency_ms"])}
