"""Trial of a candidate for a topic's schema on the topic's last messages."""

import asyncio
import time
from typing import Any

from engine.base.names import TopicName
from engine.schema.kinds import Schema
from gateway.services.admin import schemas
from gateway.services.engine_link import Engine
from gateway.services.rehearsal.latest import latest
from gateway.services.rehearsal.trial import GROUPS_MAX, Trial

Json = dict[str, Any]


async def rehearse(engine: Engine, topic: TopicName, candidate: Schema, count: int) -> Json:
    """Decode the last ``count`` messages with ``candidate``, each as written with its own version; return the report.

    Raises as ``latest`` does.
    """
    began = time.monotonic()
    read = await latest(engine, topic, count)
    numbers = {message.version for message in read.messages if message.version is not None}
    stored = {
        number: version if isinstance(version, str) else version.schema
        for number, version in (await schemas.stored(engine, topic.partitioned, numbers)).items()
    }
    trial = Trial(candidate, stored)
    await asyncio.to_thread(trial.run, read.messages)
    left_out = trial.left_out
    times = [message.publish_ms for message in read.messages if message.publish_ms]
    return {
        "asked": count,
        "messages": trial.decoded + trial.failed + sum(group["count"] for group in left_out),
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
