"""A consumer on a topic of an ``AdminBench``, without a socket."""

from engine.base.names import TopicName
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.managed.ledger import InitialPosition
from tests.support.admin.bench import AdminBench
from tests.support.broker_bench import Client


async def attach(
    bench: AdminBench,
    topic: TopicName,
    name: str,
    subscription: str = "s",
    *,
    id: int = 1,
    kind: SubscriptionType = SubscriptionType.SHARED,
    connected_ms: int = 1_000,
    permits: int = 1_000,
    keys: KeyPolicy | None = None,
) -> tuple[Consumer, Client]:
    """Attach a consumer called ``name`` with the address ``{name}:1``; return it and the connection that
    records what is sent to its client."""
    loaded, client = await bench.loaded(topic), Client()
    client.address = f"/{name}:1"
    consumer = Consumer(
        *(client, id, name, kind),
        settings=loaded.context.settings,
        partition=topic.partition,
        now_ms=connected_ms,
        keys=keys,
    )
    made = await loaded.subscriptions.attach(
        consumer, subscription, durable=True, initial=InitialPosition.EARLIEST, properties={}
    )
    if permits:
        made.flow(consumer, permits)
    return consumer, client
