"""Publishing and consuming with schemas, each beside the same without, in slices by turns."""

import asyncio
import json
import time

from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from tests.bench import raw
from tests.bench.by_turns import SETTLES_S, Side, by_turns
from tests.bench.contenders import Contender
from tests.bench.figures import Figures
from tests.bench.loads import WINDOW, counts_of, new_topic

VERSIONS = 8
BACKLOGS = 4
AUTO_CONSUME = pb.Schema(name="", type=pb.Schema.AutoConsume, schema_data=b"")


def record(name: str, fields: int = 8) -> pb.Schema:
    """Return an Avro definition of some 60 bytes a field, all of them with a default."""
    own = [
        {"name": f"{name}_{i}", "type": ["null", "string"], "default": None} for i in range(fields)
    ]
    definition = json.dumps({"type": "record", "name": "Bench", "fields": own}).encode()
    return pb.Schema(name="Bench", type=pb.Schema.Avro, schema_data=definition)


def publish(contender: Contender, size: int, count: int) -> Figures:
    """``count`` entries with a schema and as many without, ``WINDOW`` in flight, over one connection each."""

    async def work() -> Figures:
        sides = []
        for schema in (None, record("a")):
            topic = new_topic("typed")
            link = await raw.connect(contender.url, topic)
            version = await raw.open_producer(link, topic, schema=schema)
            if (schema is None) == bool(version):
                raise RuntimeError(f"schema version {version!r}")
            payload = raw.payload_of(size, schema_version=version or None)
            sides.append(Side(link, payload))
        plain, typed = await by_turns(contender, sides, count)
        return {"CPU µs/entry": typed, "without": plain, "with to without": typed / plain}

    return asyncio.run(work())


def consume(contender: Contender, size: int, count: int) -> Figures:
    """Consume a backlog by AUTO_CONSUME, with a lookup of each version's schema at its first message, as clients do;
    beside the same backlog without schemas."""

    async def work() -> Figures:
        used = [0.0, 0.0]
        per_version = count // BACKLOGS // VERSIONS
        for turn in range(BACKLOGS):
            for typed in (False, True) if turn % 2 else (True, False):
                used[typed] += await _backlog(contender, size, per_version, typed)
        plain, typed_cpu = (cpu / (per_version * VERSIONS * BACKLOGS) * 1e6 for cpu in used)
        return {
            "CPU µs/entry": typed_cpu,
            "without": plain,
            "with to without": typed_cpu / plain,
        }

    return asyncio.run(work())


async def _backlog(contender: Contender, size: int, per_version: int, typed: bool) -> float:
    """Return the CPU seconds of consuming ``each`` messages of each of ``VERSIONS`` producers."""
    topic = new_topic("auto")
    auto = AUTO_CONSUME if typed else None
    holder = await raw.connect(contender.url, topic)
    await raw.subscribe(holder, topic, "s", schema=auto)
    holder.close()
    link = await raw.connect(contender.url, topic)
    versions = []
    for number in range(1, VERSIONS + 1):
        schema = record(f"v{number}") if typed else None
        versions.append(await raw.open_producer(link, topic, number, schema))
        payload = raw.payload_of(size, schema_version=versions[-1] or None)
        frames = raw.blocks(payload, per_version, [number])
        await raw.publish(link, frames, counts_of(frames, payload, per_version), WINDOW)
    link.close()
    await asyncio.sleep(SETTLES_S)
    reading = await raw.connect(contender.url, topic)
    cpu = contender.cpu_s()
    await raw.subscribe(reading, topic, "s2", schema=auto)
    for version in versions if typed else ():
        await _get(reading, topic, version)
    await reading.until(lambda: reading.messages_seen >= per_version * VERSIONS)
    cpu = contender.cpu_s() - cpu
    reading.close()
    return cpu


def look_up(contender: Contender, count: int) -> Figures:
    """Lookups of a version's schema, one after another."""

    async def work() -> Figures:
        topic = new_topic("lookup")
        link = await raw.connect(contender.url, topic)
        version = await raw.open_producer(link, topic, schema=record("a"))
        await _get(link, topic, version)
        cpu, began = contender.cpu_s(), time.perf_counter()
        for _ in range(count):
            await _get(link, topic, version)
        took, cpu = time.perf_counter() - began, contender.cpu_s() - cpu
        link.close()
        return {"lookups/s": count / took, "CPU µs/lookup": cpu / count * 1e6}

    return asyncio.run(work())


async def _get(link: raw.Link, topic: str, version: bytes) -> None:
    request_id = link.new_id()
    answer = await link.request(request_id, say.get_schema(topic, request_id, version))
    if not answer.schema.schema_data:
        raise RuntimeError(f"no schema by version {version!r}")
