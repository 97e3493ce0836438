"""Single messages of a subscription: whether they are acknowledged, and their acknowledgement without a consumer."""

from collections.abc import Mapping, Sequence

from engine.admin.api.arguments import MessagePosition
from engine.base.ids import Position
from engine.base.ranges import bits_of, words_of
from engine.broker.topics.ports import ReadableLog, SubscriptionCursor
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.managed.errors import InvalidPositionError
from engine.wire.batches import last_batch_index

Wanted = Mapping[Position, list[int] | None]
"""Indexes in the batch by entry; None for the whole entry."""


def by_entry(messages: Sequence[MessagePosition]) -> dict[Position, list[int] | None]:
    """Return the messages by entry. An entry that is also named as a whole is whole."""
    wanted: dict[Position, list[int] | None] = {}
    for message in messages:
        indexes = wanted.setdefault(message.position, [])
        if message.batch_index < 0:
            wanted[message.position] = None
        elif indexes is not None:
            indexes.append(message.batch_index)
    return wanted


async def batch_sizes(
    log: ReadableLog, cursor: SubscriptionCursor, messages: Sequence[MessagePosition]
) -> dict[Position, int]:
    """Return the number of messages of each unacknowledged entry of which a part is named; 0 for one that is no batch
    or gone."""
    sizes: dict[Position, int] = {}
    for position in dict.fromkeys(m.position for m in messages if m.batch_index >= 0):
        if cursor.is_acknowledged(position):
            continue
        try:
            entry = await log.read_entry(position)
        except InvalidPositionError:
            sizes[position] = 0
        else:
            sizes[position] = last_batch_index(entry.entry(0)) + 1
    return sizes


def states_of(
    log: ReadableLog,
    cursor: SubscriptionCursor,
    messages: Sequence[MessagePosition],
    sizes: Mapping[Position, int],
) -> list[str]:
    """Return the state of each message: held, acknowledged or gone."""
    return [_state(log, cursor, message, sizes) for message in messages]


def _state(
    log: ReadableLog,
    cursor: SubscriptionCursor,
    message: MessagePosition,
    sizes: Mapping[Position, int],
) -> str:
    position, index = message.position, message.batch_index
    before = Position(position.ledger_id, position.entry_id - 1)
    if position > log.last_confirmed or log.next_position(before) != position:
        return "gone"
    if cursor.is_acknowledged(position):
        return "acknowledged"
    if index < 0:
        return "held"
    if index >= sizes.get(position, 0):
        return "gone"
    return "held" if _held_bits(cursor, position, sizes[position]) >> index & 1 else "acknowledged"


def _held_bits(cursor: SubscriptionCursor, position: Position, size: int) -> int:
    """Return the unacknowledged messages of a batch, as bits."""
    held = cursor.ack_set(position)
    return (1 << size) - 1 if held is None else bits_of(held)


def acknowledge(subscription: Subscription, wanted: Wanted, sizes: Mapping[Position, int]) -> None:
    """Acknowledge the messages that are held; durable when the cursor is persisted."""
    cursor = subscription.cursor
    whole: list[Position] = []
    for position, indexes in wanted.items():
        if indexes is None:
            whole.append(position)
        elif size := sizes.get(position, 0):
            bits = _held_bits(cursor, position, size)
            for index in indexes:
                bits &= ~(1 << index)
            if bits:
                subscription.acknowledge_unattended_part(position, words_of(bits))
            else:
                whole.append(position)
    subscription.acknowledge_unattended(whole)
