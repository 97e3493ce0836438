"""Disconnection of one consumer of a subscription: its preview, and exactly that consumer disconnected."""

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.subscriptions.deletion import about, consumers_of, holdings
from admin_ui.subscriptions.services import WHOLE, members
from engine.admin.api.subscriptions import DISCONNECT_CONSUMER, DisconnectConsumer
from engine.base.errors import Conflict, InvalidField, NotFound, Refusal
from engine.base.names import TopicName
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

KIND = "consumer-disconnection"


async def preview(
    engine: Engine,
    topic: TopicName,
    subscription: str,
    user: str,
    *,
    name: str,
    address: str,
    partition: int | None,
) -> Json:
    """Return the consumer that would be disconnected, with the token that confirms it. Raises NotFound when the
    consumer is not connected, InvalidField for a partition that the topic does not have."""
    parts = await members(engine, topic)
    index = WHOLE if partition is None else partition
    if index not in parts:
        expected = "must not be given" if WHOLE in parts else f"must be from 0 to {len(parts) - 1}"
        raise InvalidField("partition", f"{expected} for {topic}")
    holding = (await holdings(engine, {index: parts[index]}, subscription))[index]
    matching = [
        (consumer, shown)
        for consumer, shown in zip(holding["consumers"], consumers_of(index, holding), strict=True)
        if (shown["name"], shown["address"]) == (name, address)
    ]
    if not matching:
        raise NotFound(
            f"Consumer {name} is not connected to {subscription} from {address} any more"
        )
    identity = ("name", "address", "id", "connected_ms")
    content = about(topic, subscription, user) | {
        "part": str(parts[index]),
        "consumers": [{key: consumer[key] for key in identity} for consumer, _ in matching],
    }
    return {
        "token": confirming.sign(engine.served, KIND, content),
        "at": now_ms(),
        "type": holding["type"],
        "durable": holding["durable"],
        "consumers": [shown for _, shown in matching],
        "others": len(holding["consumers"]) - len(matching),
    }


async def apply(engine: Engine, topic: TopicName, subscription: str, user: str, token: str) -> Json:
    """Disconnect the consumer. Raises NotFound when it has left, Conflict when it connected again meanwhile; of
    several, only when that is so for all of them."""
    content = confirming.read(engine.served, KIND, token, about(topic, subscription, user))
    part = TopicName.parse(content["part"])
    done = 0
    refusal: Refusal = NotFound("No consumer is connected any more")
    for consumer in content["consumers"]:
        args = DisconnectConsumer(part, subscription, **consumer)
        try:
            await engine.call(DISCONNECT_CONSUMER, args)
            done += 1
        except (NotFound, Conflict) as error:
            refusal = error
    if not done:
        raise refusal
    return {"at": now_ms(), "disconnected": done}
