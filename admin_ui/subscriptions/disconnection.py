"""One consumer of a subscription sent away: who that is, and exactly that one."""

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.subscriptions.deletion import consumers_of, holdings
from admin_ui.subscriptions.services import WHOLE, members
from engine.admin import api
from engine.base.errors import Conflict, InvalidField, NotFound, Refusal
from engine.base.names import TopicName
from gateway.services.collector import now_ms
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
    """Who would be disconnected, with the token that confirms it. Raises NotFound when that consumer is not there,
    InvalidField for a partition that the topic has not."""
    parts = await members(engine, topic)
    index = WHOLE if partition is None else partition
    if index not in parts:
        expected = "must not be given" if WHOLE in parts else f"must be from 0 to {len(parts) - 1}"
        raise InvalidField("partition", f"{expected} for {topic}")
    found = (await holdings(engine, {index: parts[index]}, subscription))[index]
    those = [
        (told, shown)
        for told, shown in zip(found["consumers"], consumers_of(index, found), strict=True)
        if (shown["name"], shown["address"]) == (name, address)
    ]
    if not those:
        raise NotFound(
            f"Consumer {name} is not connected to {subscription} from {address} any more"
        )
    who = ("name", "address", "id", "connected_ms")
    said = _about(topic, subscription, user) | {
        "part": str(parts[index]),
        "consumers": [{key: told[key] for key in who} for told, _ in those],
    }
    return {
        "token": confirming.sign(KIND, said),
        "at": now_ms(),
        "type": found["type"],
        "durable": found["durable"],
        "consumers": [shown for _, shown in those],
        "others": len(found["consumers"]) - len(those),
    }


async def apply(engine: Engine, topic: TopicName, subscription: str, user: str, token: str) -> Json:
    """Disconnect it. Raises NotFound when it left, Conflict when it came back meanwhile; of several only when that is
    so of all."""
    said = confirming.read(KIND, token, _about(topic, subscription, user))
    part = TopicName.parse(said["part"])
    done = 0
    refusal: Refusal = NotFound("No consumer is connected any more")
    for consumer in said["consumers"]:
        args = api.DisconnectConsumer(part, subscription, **consumer)
        try:
            await engine.call(api.DISCONNECT_CONSUMER, args)
            done += 1
        except (NotFound, Conflict) as error:
            refusal = error
    if not done:
        raise refusal
    return {"at": now_ms(), "disconnected": done}


def _about(topic: TopicName, subscription: str, user: str) -> Json:
    return {"topic": str(topic), "subscription": subscription, "user": user}
