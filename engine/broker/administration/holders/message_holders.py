"""Holders of one message: its state at every subscription of its topic, and the consumer that has it or will get it."""

from engine.admin.api.arguments import JsonObject, MessagePosition
from engine.admin.api.subscriptions import HOLDER_SUBSCRIPTIONS_MAX, MessageHolders
from engine.base.errors import Failed, MagnetarError, NotFound, NotReady
from engine.base.slices import Slice
from engine.broker.administration.holders.subscription_holders import undelivered
from engine.broker.administration.previews import single_messages
from engine.broker.dispatch.consumer import Consumer
from engine.broker.dispatch.facts import DELIVERY, facts_of, key_of
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.managed.errors import InvalidPositionError
from engine.wire.batches import last_batch_index


async def of(topic: Topic, args: MessageHolders, now_ms: int) -> JsonObject:
    """Return the answer of ``MESSAGE_HOLDERS``."""
    message = args.message
    try:
        run = await topic.log.read_entry(message.position)
    except InvalidPositionError as error:
        raise NotFound("Message not found") from error
    except MagnetarError as error:
        kind = NotReady if error.retriable else Failed
        raise kind(f"Entry {message.position} cannot be read: {error}") from error
    size = last_batch_index(run.entry(0)) + 1
    if message.batch_index >= size:
        raise NotFound("Message not found")
    facts = facts_of(run, DELIVERY).special.get(0)
    delivers_ms = 0 if facts is None else facts.deliver_at_ms
    subscriptions = sorted(topic.subscriptions.items())
    return {
        "delivers_ms": delivers_ms,
        "subscriptions": [
            {
                "name": name,
                "type": ""
                if subscription.dispatch.kind is None
                else subscription.dispatch.kind.title,
                "durable": subscription.durable,
                **_place(topic, subscription, message, run, size, delivers_ms > now_ms),
            }
            for name, subscription in subscriptions[:HOLDER_SUBSCRIPTIONS_MAX]
        ],
        "total": len(subscriptions),
        "unread": sorted(topic.subscriptions.unread),
    }


def _place(
    topic: Topic,
    subscription: Subscription,
    message: MessagePosition,
    run: Slice,
    size: int,
    is_delayed: bool,
) -> JsonObject:
    position, dispatch = message.position, subscription.dispatch
    sizes = {position: size}
    (held,) = single_messages.states_of(topic.log, subscription.cursor, [message], sizes)
    place: JsonObject = {
        "state": "acknowledged",
        "consumer": None,
        "redeliveries": 0,
        "slot": None,
        "range": None,
        "waits_for": None,
    }
    if held != "held":
        return place
    place["redeliveries"] = dispatch.redeliveries(position)
    dispatcher = dispatch.dispatcher
    key = None if dispatcher is None else dispatcher.key_place(key_of(run, 0))
    if key is not None:
        place |= {"slot": key.slot, "range": key.range}
    holder = next((c for c in subscription.consumers if c.pending and position in c.pending), None)
    if holder is not None:
        return place | {"state": "delivered", "consumer": _named(holder)}
    if dispatch.kind is None or not dispatch.kind.ordered:
        if is_delayed:
            return place | {"state": "delayed"}
        bound = None if dispatcher is None else dispatcher.parked_for(position)
        if bound is None and key is not None:
            bound = key.owner
        former = key.draining.holder if key is not None and key.draining is not None else None
        return place | {
            "state": "waiting",
            "consumer": bound and _named(bound),
            "waits_for": former and _named(former),
        }
    active = dispatch.state.active
    if active is None:
        return place | {"state": "waiting"}
    behind = undelivered(subscription)
    if behind is None:
        return place | {"state": "unknown", "consumer": _named(active)}
    state = "delivered" if position < behind else "waiting"
    return place | {"state": state, "consumer": _named(active)}


def _named(consumer: Consumer) -> JsonObject:
    return {"name": consumer.name, "address": consumer.outlet.address}
