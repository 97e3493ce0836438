"""Topics that a broker knows of and has not loaded: those of a namespace that a client watches by a pattern."""

import asyncio

from engine.client.broker_link import BrokerLink
from engine.net.network import LoopNetwork
from engine.wire.client_commands import command_frame
from tests.bench.gateway.large import make_topics
from tests.bench.gateway.measuring import Meter, Row, Rows
from tests.bench.gateway.sides import Side
from tests.bench.topics.visitors import SETTINGS

KNOWN = 100_000


async def known(side: Side, scale: float, number: int) -> Rows:
    """Measure one round: what they cost the broker once it has listed them. Apache's cannot be created this quickly."""
    if side.instance is None:
        return {}
    count = max(int(KNOWN * scale), 1000)
    where = side.namespace(f"bench-known-{number}")
    host, _, port = side.url.removeprefix("pulsar://").rpartition(":")
    link = await BrokerLink.open(LoopNetwork(), host, int(port), SETTINGS)
    try:
        before, meter = side.pss_kb()["broker"], Meter(side)
        await asyncio.to_thread(make_topics, side, where, count)
        request_id = link.new_id()
        asked = command_frame(
            "watchTopicList",
            request_id=request_id,
            watcher_id=1,
            namespace=where,
            topics_pattern=f"persistent://{where}/t-00000.",
        )
        answer = await link.request(request_id, asked)
        assert len(answer.topic) == 10, answer
        await meter.settle()
        grown = side.pss_kb()["broker"] - before
    finally:
        link.abort()
    parts = meter.each(count, 1e3)
    figures = {"KB of the broker each": grown / count, "CPU ms each": sum(parts.values())}
    return {f"{count:,} topics known and not loaded": Row(figures, parts, meter.load)}
