"""Messages as the console shows them."""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, cast

from admin_ui.params import Params, choice, message_position, number
from engine.admin.api.arguments import LONG_MAX, MessagePosition
from engine.admin.api.messages import NEXT_ENTRIES, NextEntries
from engine.base.errors import InvalidField, NotFound, Unsupported
from engine.base.names import TopicName, check_subscription
from engine.schema.json_paths import parse_path
from engine.wire import pulsar_pb2 as pb
from engine.wire.texts import readable
from gateway.services import catalog
from gateway.services.browsing.around import FoundChunks, whole_message
from gateway.services.browsing.chunks import is_chunk
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.latest_values import KEYS_MAX, LatestValues, latest_values
from gateway.services.browsing.opening import BrowsedMessage, Kind, notes_of, open_entry
from gateway.services.browsing.scan import Direction, MessageScan, Place, ScanStart, scan
from gateway.services.browsing.values import TopicValues
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

Body = dict[str, Any]
STARTS = ("earliest", "latest")
DIRECTIONS = ("forward", "backward")
BOOLEANS = ("true", "false")
LIMIT_DEFAULT = 50
LIMIT_MAX = 200
ROW_CHARACTERS = 2_000
"""Characters of a value in a list."""
VALUE_CHARACTERS = 1 << 20
"""Characters of the value of one message; the complete value is a download."""
TEXT_MAX = 10_000
PROPERTIES_MAX = 20


async def page(
    engine: Engine, name: TopicName, params: Params, properties: Sequence[str] = ()
) -> Body:
    """Return a page of messages. Raises InvalidField, Unsupported, NotFound."""
    if is_compacted(params):
        return await _latest_page(engine, name, params, properties)
    start, direction = start_of(params)
    values = TopicValues(name)
    result = await scan(
        engine,
        name,
        direction=direction,
        start=start,
        after=params.get("after", ""),
        wanted=filter_of(params, properties),
        limit=number(params, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX),
        values=values,
    )
    return {
        "at": now_ms(),
        "compacted": None,
        "direction": direction,
        "rows": [row_of(name, part, message, values) for part, message in result.messages],
        "scanned": result.scanned,
        **_progress(result),
    }


async def _latest_page(
    engine: Engine, name: TopicName, params: Params, properties: Sequence[str]
) -> Body:
    values = TopicValues(name)
    result = await latest_values(
        engine,
        name,
        after=params.get("after", ""),
        wanted=filter_of(params, properties),
        limit=number(params, "limit", LIMIT_DEFAULT, 1, KEYS_MAX),
        values=values,
    )
    fold = result.fold
    return {
        "at": now_ms(),
        "direction": "forward",
        "rows": [row_of(name, part, message, values) for part, message in result.rows],
        "scanned": fold.scanned,
        **_progress(result),
        "compacted": {
            "keys": len(fold.latest),
            "removed": [{"partition": part, "key": key} for part, key in result.removed],
            "deleted": result.deleted,
            "replaced": fold.replaced,
            "without_key": fold.without_key,
            "undecoded": fold.undecoded,
            "incomplete": fold.incomplete,
            "other_keys": fold.other_keys,
            "horizons": [
                {
                    "partition": part,
                    "position": None if at is None else f"{at.ledger_id}:{at.entry_id}",
                }
                for part, at in result.horizons
            ],
        },
    }


def _progress(page: MessageScan | LatestValues) -> Body:
    """Return what a page read, why it ended, and where the next one begins."""
    return {
        "entries": page.entries,
        "bytes": page.bytes,
        "took_ms": page.took_ms,
        "stopped": page.stopped,
        "partitions": page.partitions,
        "missing": page.missing,
        "after": page.after,
    }


def is_compacted(params: Params) -> bool:
    """Return whether the latest value of each key is requested. Raises InvalidField, also for a place to begin at."""
    if choice(params, "compacted", BOOLEANS) != "true":
        return False
    for field in ("start", "time", "position", "subscription", "direction"):
        if params.get(field):
            raise InvalidField(field, "the latest value of each key is that of the whole topic")
    return True


async def one(engine: Engine, name: TopicName, position: str) -> Body:
    """Return a message, with the chunks of one in several. Raises InvalidField, Unsupported, NotFound."""
    message, chunks = await _whole(engine, name, position)
    values = TopicValues(name)
    await values.fetch(engine, [message])
    row = row_of(name, -1, message, values, VALUE_CHARACTERS)
    return row | {"chunks": None if chunks is None else _shape_of(chunks)}


async def value(engine: Engine, name: TopicName, position: str) -> bytes:
    """Return the complete value of a message; as it is stored of one that is encrypted, and of a chunk whose message
    cannot be joined.

    Raises InvalidField, Unsupported, NotFound.
    """
    message, _ = await _whole(engine, name, position)
    if message.message is None or message.message.value is None:
        raise NotFound(f"{position} has no value")
    return message.message.value


async def _whole(
    engine: Engine, name: TopicName, position: str
) -> tuple[BrowsedMessage, FoundChunks | None]:
    """Return the message at a position, joined if a chunk is there and the others are found, and the found chunks."""
    message = await _message(engine, name, position)
    if message.kind is not Kind.CHUNK or not is_chunk(message):
        return message, None
    return await whole_message(engine, name, message)


def _shape_of(chunks: FoundChunks) -> Body:
    return {
        "size": chunks.size,
        "positions": [{"index": index, "id": at} for index, at in sorted(chunks.ids.items())],
        "missing": chunks.missing,
        "unread": chunks.unread or None,
        "begun_again": chunks.begun_again or None,
        "is_large": chunks.is_large,
        "is_whole": chunks.is_whole,
    }


async def _message(engine: Engine, name: TopicName, position: str) -> BrowsedMessage:
    ledger, entry, index = _parsed(position, "message")
    if not name.persistent:
        raise Unsupported("A non-persistent topic keeps no messages to read")
    if await catalog.partition_count(engine.store, name):
        raise InvalidField("topic", "a position is one of a partition: name it")
    args = NextEntries(name, 1, 1, MessagePosition(ledger, entry))
    answer = await engine.call(NEXT_ENTRIES, args)
    rows = answer["entries"]
    if not rows or tuple(rows[0][:2]) != (ledger, entry):
        raise NotFound(f"{name} has no entry {ledger}:{entry}; it may have been deleted")
    note = notes_of(answer).get((ledger, entry))
    opened = list(open_entry(ledger, entry, b64decode(rows[0][2]), note))
    for message in opened:
        if message.batch_index == index or (index < 0 and message is opened[0]):
            return message
    raise NotFound(f"The entry {ledger}:{entry} has no message {index}")


def start_of(params: Params) -> tuple[ScanStart, Direction]:
    """Return where a request begins, and its direction. Raises InvalidField."""
    given = [n for n in ("start", "time", "position", "subscription") if params.get(n)]
    if len(given) > 1:
        raise InvalidField(given[1], f"only one of {', '.join(given)} can be where to begin")
    named = choice(params, "start", STARTS)
    direction = choice(params, "direction", DIRECTIONS)
    if not direction:
        direction = "backward" if not given or named == "latest" else "forward"
    if named == "earliest" and direction == "backward":
        raise InvalidField("direction", "nothing is before the earliest message")
    time_ms = number(params, "time", -1, 0, LONG_MAX)
    position = _parsed(params["position"], "position") if params.get("position") else None
    subscription = params.get("subscription", "")
    if subscription:
        check_subscription(subscription)
    start = ScanStart(None if time_ms < 0 else time_ms, position, subscription, named == "latest")
    return start, cast(Direction, direction)


def _parsed(text: str, field: str) -> Place:
    position = message_position(text, field)
    return position.ledger_id, position.entry_id, position.batch_index


def filter_of(params: Params, properties: Sequence[str]) -> MessageFilter:
    """Return the conditions of a request. Raises InvalidField."""
    for name in ("key", "producer", "text", "equals"):
        if len(params.get(name, "")) > TEXT_MAX:
            raise InvalidField(name, f"at most {TEXT_MAX} characters")
    if len(properties) > PROPERTIES_MAX:
        raise InvalidField("property", f"at most {PROPERTIES_MAX} of them")
    path = params.get("path", "")
    if params.get("equals") and not path:
        raise InvalidField("path", "required with equals")
    pairs = [text.partition("=") for text in properties if text]
    return MessageFilter(
        key=params.get("key") or None,
        producer=params.get("producer") or None,
        properties=tuple((name, value if sign else None) for name, sign, value in pairs),
        text=params.get("text", ""),
        path=parse_path(path) if path else None,
        equals=params.get("equals") or None,
    )


def row_of(
    topic: TopicName,
    partition: int,
    browsed: BrowsedMessage,
    values: TopicValues,
    characters: int = ROW_CHARACTERS,
) -> Body:
    """Return a message as it is shown, its value cut after ``characters``. ``partition`` -1: the topic is one itself,
    or has none."""
    metadata, broker, message = browsed.metadata, browsed.broker, browsed.message
    name = topic.partition_at(partition) if partition >= 0 else topic
    has_number = broker is not None and broker.HasField("index")
    return {
        "id": browsed.id,
        "topic": str(name),
        "partition": name.partition,
        "kind": browsed.kind,
        "marker": _marker(metadata) if browsed.kind is Kind.MARKER else None,
        "problem": browsed.problem or None,
        "published": browsed.publish_ms or None,
        "event": (message.event_ms or None) if message else None,
        "received": (broker.broker_timestamp or None) if broker else None,
        "number": _number(browsed, broker) if broker and has_number else None,
        "producer": browsed.producer,
        "sequence": str(message.sequence_id if message else metadata.sequence_id),
        "key": message.key if message else None,
        "key_is_base64": message.key_is_base64 if message else False,
        "ordering_key": _base64(message.ordering_key) if message else None,
        "properties": dict(message.properties) if message else {},
        "batch": (
            {"index": browsed.batch_index, "size": browsed.batch_size}
            if browsed.batch_index >= 0
            else None
        ),
        "chunk": (
            {
                "index": metadata.chunk_id,
                "size": metadata.num_chunks_from_msg,
                "message": readable(metadata.uuid),
            }
            if browsed.kind in (Kind.CHUNK, Kind.MESSAGE) and metadata.num_chunks_from_msg > 1
            else None
        ),
        "chunks": None,
        "compression": browsed.codec,
        "entry_bytes": browsed.entry_bytes,
        "encryption_keys": [readable(key.key) for key in metadata.encryption_keys],
        "replicated_from": readable(metadata.replicated_from) or None,
        "deliver_at": metadata.deliver_at_time or None,
        "compacted_out": message.compacted_out if message else False,
        "value": values.shown(browsed, characters),
    }


def _number(browsed: BrowsedMessage, broker: pb.BrokerEntryMetadata) -> str:
    """Return the number of a message in its topic: the entry has that of its last message."""
    last = int(broker.index)
    return str(
        last - browsed.batch_size + 1 + browsed.batch_index if browsed.batch_index >= 0 else last
    )


def _marker(metadata: pb.MessageMetadata) -> str:
    try:
        return pb.MarkerType.Name(metadata.marker_type).lower().replace("_", " ")
    except ValueError:
        return f"marker {metadata.marker_type}"


def _base64(key: bytes | None) -> str | None:
    return None if key is None else b64encode(key).decode()
