"""A candidate for a topic's schema, tried on the messages that are there."""

import asyncio
import time
from typing import Any

from engine.base.names import TopicName
from engine.schema.kinds import Schema
from gateway.services import schemas
from gateway.services.engine_link import Engine
from gateway.services.rehearsal.latest import latest
from gateway.services.rehearsal.trial import GROUPS_MAX, Trial

Json = dict[str, Any]


async def rehearse(engine: Engine, topic: TopicName, candidate: Schema, count: int) -> Json:
    """The last ``count`` messages decoded with ``candidate``, each written by its own version. Raises as ``latest``."""
    began = time.monotonic()
    read = await latest(engine, topic, count)
    numbers = {one.version for one in read.found if one.version is not None}
    stored = {
        number: one if isinstance(one, str) else one.schema
        for number, one in (await schemas.stored(engine, topic.partitioned, numbers)).items()
    }
    trial = Trial(candidate, stored)
    await asyncio.to_thread(trial.run, read.found)
    left_out = trial.left_out
    times = [one.publish_ms for one in read.found if one.publish_ms]
    return {
        "asked": count,
        "messages": trial.decoded + trial.failed + sum(one["count"] for one in left_out),
        "entries": read.entries,
        "bytes": read.bytes,
        "took_ms": round((time.monotonic() - began) * 1000),
        "stopped": "time" if trial.stopped else read.stopped,
        "partitions": read.partitions,
        "missing": read.missing,
        "span": {"from": min(times), "to": max(times)} if times else None,
        "decoded": trial.decoded,
        "failed": trial.failed,
        "failures": trial.failures[:GROUPS_MAX],
        "more_failures": max(len(trial.failures) - GROUPS_MAX, 0),
        "left_out": left_out,
        "samples": trial.samples,
    }
