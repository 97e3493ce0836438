"""Options of the ``pulsar`` data source, parsed once on the driver. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from engine.base.errors import InvalidNameError
from engine.base.ids import Position
from engine.base.names import NamespaceName, TopicName, check_entity
from engine.base.settings import SettingsError
from engine.metadata.apart.stores import StoreUrls
from spark_jobs.analysis import STORE_OPTIONS, AnalysisTarget

ENTRIES_PER_PARTITION = 50_000
BYTES_PER_PARTITION = 32 << 20
PARTITIONS_MAX = 10_000
BYTES_PER_TRIGGER_MAX = 1 << 50
TOPIC_PREFIX = "persistent://"
SELECTING = ("topic", "topics", "topicsPattern", "namespace", "tenant")
"""Options that select topics, of which one is given. ``topicsPattern`` is a regular expression of full names without a
partition's suffix."""
COLUMNS = {
    **{"key": "string", "value": "binary", "properties": "map<string, string>"},
    **{"publish_time": "timestamp", "event_time": "timestamp"},
    **{"ledger_id": "bigint", "entry_id": "bigint", "batch_index": "int", "batch_size": "int"},
    **{"chunk_id": "int", "partition": "int", "producer_name": "string", "sequence_id": "bigint"},
    **{"publish_ms": "bigint", "value_bytes": "bigint", "entry_bytes": "bigint"},
    **{"payload_bytes": "bigint", "packed_bytes": "bigint", "compression": "string"},
    **{"encrypted": "boolean", "topic": "string"},
}
"""Columns of a message, in the order of the rows, with their types in SQL.

``topic`` is the full name of the topic, or of its partition with the index ``partition`` (else -1). ``batch_index`` is
-1 in an entry that is not a batch, ``chunk_id`` null where the entry is not a chunk. Sizes: ``value_bytes`` of this
message; of its entry ``entry_bytes`` as stored, ``payload_bytes`` before and ``packed_bytes`` after compression. An
encrypted entry is one row, its value the stored bytes and ``value_bytes`` null. A chunk is one
row with the chunk's stored bytes; ``value_bytes`` is the whole message's at the first chunk and 0 at the others.
"""

SCHEMA_COLUMNS = {"schema_version": "bigint", "decoded": "string", "decode_error": "string"}
"""Columns that are present only when ``columns`` names them.

``schema_version``: version of the topic's schema with which the message was written, null when its producer named none.
``decoded``: the value as JSON, decoded with that schema; null where ``decode_error`` has the reason, and where there is
no value.
"""
ALIASES = {
    **{"__key": "binary", "__topic": "string", "__messageId": "binary"},
    **{"__publishTime": "timestamp", "__eventTime": "timestamp"},
    "__messageProperties": "map<string, string>",
}
"""Columns with the names and types of pulsar-spark, present only when ``columns`` names them, one by one or together as
PULSAR_SPARK. ``__messageId`` is Pulsar's encoding of an id."""
PULSAR_SPARK = "pulsar-spark"
_KNOWN = COLUMNS | SCHEMA_COLUMNS | ALIASES


class OptionError(ValueError):
    """An option is missing or out of range; the message names it."""


class TopicChoice(NamedTuple):
    """The topics to read: at most one field is set, none for all topics of the cluster.

    ``topics``: full names. ``pattern``: regular expression of full names without a partition's suffix.
    """

    topics: tuple[str, ...] = ()
    pattern: str = ""
    namespace: str = ""
    tenant: str = ""

    @classmethod
    def of(cls, kind: AnalysisTarget, name: str = "") -> "TopicChoice":
        """Return the topics of an analysis's target. Raises OptionError for an invalid name."""
        if kind is AnalysisTarget.CLUSTER:
            return cls()
        return _selection({kind.value: name})


AUTO, BOOKIES, BROKERS = READ_FROM = ("auto", "bookies", "brokers")
"""Ways to the entries: AUTO is from the bookies, and through brokers where bookies do not answer."""
EARLIEST = "earliest"
LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Bound:
    """Start or end of a read: a place for each topic in ``places``, ``everywhere`` for the others, or a time.

    A place is EARLIEST, LATEST, or the position of an entry: the first one to read, or the first one not to read.
    """

    everywhere: Position | str = EARLIEST
    places: Mapping[str, Position | str] = field(default_factory=dict)
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed options.

    - ``selection``: the topics to read
    - ``stores``: the URLs of the metadata stores, as in the brokers' settings
    - ``entries_per_partition``, ``bytes_per_partition``: approximate limits of one task
    - ``partitions_min``: number of tasks to aim at
    - ``last_entries``: number of the newest entries to read, 0 for all
    - ``start``, ``end``: where to begin and to end in each topic
    - ``starting_subscription``: name of the subscription to begin at instead, empty for none
    - ``entries_per_trigger``, ``bytes_per_trigger``: limits of a micro-batch, 0 for none
    - ``commit_subscription``: name of the subscription that follows a stream's committed batches, empty for none
    - ``service_url``: of the brokers, which are needed only for ``commit_subscription`` and reads through them
    - ``read_from``: one of READ_FROM; AUTO without ``service_url`` is BOOKIES
    - ``columns``: names of COLUMNS, SCHEMA_COLUMNS and ALIASES to build
    - ``fail_on_data_loss``: entries trimmed between planning and reading fail the read
    - ``published_ms``: entries published before the first or behind the last of these times are left out
    - ``password``: of the ledgers
    """

    selection: TopicChoice
    stores: StoreUrls
    entries_per_partition: int = ENTRIES_PER_PARTITION
    bytes_per_partition: int = BYTES_PER_PARTITION
    partitions_min: int = 1
    last_entries: int = 0
    start: Bound = Bound(EARLIEST)
    end: Bound = Bound(LATEST)
    starting_subscription: str = ""
    entries_per_trigger: int = 0
    bytes_per_trigger: int = 0
    commit_subscription: str = ""
    service_url: str = ""
    read_from: str = AUTO
    columns: tuple[str, ...] = tuple(COLUMNS)
    fail_on_data_loss: bool = True
    published_ms: tuple[int, int] | None = None
    password: bytes = b""


def column_type(name: str) -> str:
    """Return the SQL type of a column that may be requested."""
    return _KNOWN[name]


def parse(options: Mapping[str, str], start: str = EARLIEST) -> Options:
    """Parse options. Their names are case-insensitive, because Spark may change their case. ``start``: where to begin
    without another option. Raises OptionError."""
    by_name = {name.lower(): value for name, value in options.items()}
    selection = _selection(by_name)
    if "metadataurl" in by_name:
        by_name.setdefault("metadata.url", by_name["metadataurl"])
    metadata, configuration, bookkeeper = STORE_OPTIONS
    try:
        stores = StoreUrls.parse(
            *(by_name.get(name, "") for name in STORE_OPTIONS),
            settings=(f"option {metadata}", f"option {configuration}", f"option {bookkeeper}"),
        )
    except SettingsError as error:
        raise OptionError(str(error)) from error
    subscription = by_name.get("startingsubscription", "")
    commit = by_name.get("commitsubscription", "")
    service_url = by_name.get("service.url", by_name.get("serviceurl", ""))
    if subscription and _given(by_name, "starting"):
        raise OptionError("option startingSubscription excludes other options of where to start")
    if commit and not service_url:
        raise OptionError("option commitSubscription needs option service.url, that of a broker")
    columns = _columns(by_name.get("columns"))
    read_from = _read_from(by_name, service_url)
    return Options(
        selection=selection,
        partitions_min=_integer(by_name, "minpartitions", 1, 1),
        start=_bound(by_name, "starting", start),
        end=_bound(by_name, "ending", LATEST),
        starting_subscription=subscription,
        entries_per_trigger=_integer(by_name, "maxentriespertrigger", 0, 0),
        bytes_per_trigger=_integer(by_name, "maxbytespertrigger", 0, 0, BYTES_PER_TRIGGER_MAX),
        commit_subscription=commit,
        service_url=service_url,
        read_from=read_from,
        stores=stores,
        entries_per_partition=_integer(by_name, "entriesperpartition", ENTRIES_PER_PARTITION, 1),
        bytes_per_partition=_integer(by_name, "bytesperpartition", BYTES_PER_PARTITION, 1),
        columns=columns,
        last_entries=_integer(by_name, "lastentries", 0, 0),
        fail_on_data_loss=_flag(by_name, "failondataloss", True),
        password=by_name.get("ledger.password", "").encode(),
    )


def _selection(by_name: Mapping[str, str]) -> TopicChoice:
    given = [name for name in SELECTING if by_name.get(name.lower())]
    if len(given) != 1:
        raise OptionError(
            f"exactly one of the options {', '.join(SELECTING)} is needed,"
            f" not {' and '.join(given) or 'none of them'}"
        )
    [name] = given
    value = by_name[name.lower()]
    try:
        match name:
            case "topic":
                return TopicChoice(topics=(_topic(value),))
            case "topics":
                return TopicChoice(topics=tuple(_topic(part.strip()) for part in value.split(",")))
            case "topicsPattern":
                return TopicChoice(pattern=_pattern(value))
            case "namespace":
                return TopicChoice(namespace=str(NamespaceName.parse(value)))
            case _:
                return TopicChoice(tenant=check_entity("tenant", value))
    except (InvalidNameError, re.error) as error:
        raise OptionError(f"option {name}: {error}") from error


def _topic(text: str) -> str:
    topic = TopicName.parse(text)
    if not topic.persistent:
        raise InvalidNameError(f"{topic} is not persistent: nothing of it is stored")
    return str(topic)


def _pattern(text: str) -> str:
    """Return the pattern of full names; a short pattern is completed as a short name is."""
    if "://" not in text:
        text = f"{TOPIC_PREFIX}{'' if '/' in text else 'public/default/'}{text}"
    re.compile(text)
    return text


def _given(by_name: Mapping[str, str], edge: str) -> list[str]:
    return [
        name for name in (f"{edge}offsets", f"{edge}time", f"{edge}timestamp") if name in by_name
    ]


def _bound(by_name: Mapping[str, str], edge: str, default: str) -> Bound:
    """Return the bound of ``edge`` (starting, ending)."""
    given = _given(by_name, edge)
    if not given:
        return Bound(default)
    if len(given) > 1:
        raise OptionError(f"options {' and '.join(given)} exclude each other")
    [name] = given
    text = by_name[name].strip()
    try:
        if not name.endswith("offsets"):
            return Bound(time_ms=_time(text))
        if not text.startswith("{"):
            return Bound(_place(text))
        places = json.loads(text)
        return Bound(default, {_topic(topic): _place(value) for topic, value in places.items()})
    except (ValueError, InvalidNameError) as error:
        raise OptionError(f"option {name}: {error}") from error


def _place(value: Any) -> Position | str:
    return str(value) if value in (EARLIEST, LATEST) else position_of(value)


def position_of(value: Any) -> Position:
    """Return the place that ``[ledger, entry]``, ``"ledger:entry"`` or an offset of a stream names. Raises
    ValueError."""
    parts = value.get("at") if isinstance(value, Mapping) else value
    if isinstance(parts, str):
        parts = parts.split(":")
    try:
        ledger_id, entry_id, *_ = (int(part) for part in parts or ())
    except (ValueError, TypeError):
        raise ValueError(f"{value!r} is neither {EARLIEST}, {LATEST} nor [ledger, entry]") from None
    # -1 is Pulsar's place before the first entry.
    return Position(ledger_id, max(entry_id, 0))


def _time(text: str) -> int:
    """Return milliseconds since the epoch. Raises ValueError."""
    if text.isdigit():
        return int(text)
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text} has no time zone, such as 2026-01-31T12:00:00Z has")
    return round(time.timestamp() * 1000)


def _integer(
    by_name: Mapping[str, str], name: str, default: int, low: int, high: int = 1_000_000_000
) -> int:
    text = by_name.get(name, str(default))
    if not text.isdigit() or not low <= int(text) <= high:
        raise OptionError(
            f"option {name} must be a whole number from {low} to {high}, not {text!r}"
        )
    return int(text)


def _flag(by_name: Mapping[str, str], name: str, default: bool) -> bool:
    text = by_name.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise OptionError(f"option {name} must be true or false, not {text!r}")
    return text == "true"


def _read_from(by_name: Mapping[str, str], service_url: str) -> str:
    value = by_name.get("readfrom", AUTO).lower()
    if value not in READ_FROM:
        raise OptionError(f"option readFrom must be one of {', '.join(READ_FROM)}, not {value!r}")
    if value != BROKERS:
        return value
    if not service_url:
        raise OptionError("option readFrom brokers needs option service.url, that of a broker")
    if by_name.get("startingsubscription"):  # cursors are read from bookies
        raise OptionError(
            "option startingSubscription needs the bookies, which readFrom brokers excludes"
        )
    return value


def _columns(text: str | None) -> tuple[str, ...]:
    if text is None:
        return tuple(COLUMNS)
    if text.strip() == PULSAR_SPARK:
        return ("value", *ALIASES)
    names = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in names if name not in _KNOWN]
    if unknown or len(set(names)) != len(names):
        raise OptionError(
            f"option columns must be different names of {', '.join(_KNOWN)}, not {text!r}"
        )
    return names
