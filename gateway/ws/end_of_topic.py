"""Whether a subscription has read all that a sealed topic will ever hold."""

from engine.admin import api
from engine.base.names import TopicName
from gateway.services import topics
from gateway.services.engine_link import Engine, link


async def is_terminated(topic: str) -> bool:
    """No message can be added: the topic, or each of its partitions, was terminated."""

    name = TopicName.parse(topic)

    async def ask(engine: Engine) -> bool:
        if not name.persistent:
            return False
        for part in await topics.members(engine, name):
            if not await _is_sealed(engine, part):
                return False
        return True

    return bool(await link().arun(ask))


async def is_end(topic: str, subscription: str) -> bool:
    """Terminated, and everything acknowledged: what a Pulsar broker tells consumers with ReachedEndOfTopic."""

    name = TopicName.parse(topic)

    async def ask(engine: Engine) -> bool:
        if not name.persistent:
            return False
        for part in await topics.members(engine, name):
            if not await _is_sealed(engine, part):
                return False
            stats = await engine.call(api.TOPIC_STATS, api.TopicStats(part))
            found = stats["subscriptions"].get(subscription)
            if found is None or found["msgBacklog"] > 0:
                return False
        return True

    return bool(await link().arun(ask))


async def _is_sealed(engine: Engine, topic: TopicName) -> bool:
    stats = await engine.call(api.INTERNAL_STATS, api.InternalStats(topic))
    return bool(stats["state"] == "Terminated")
