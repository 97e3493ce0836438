"""Options of the ``pulsar`` data source, parsed once on the driver. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.base.settings import SettingsError
from engine.metadata.apart.stores import StoreUrls
from spark_jobs.analysis import STORE_OPTIONS

ENTRIES_PER_PARTITION = 50_000
BYTES_PER_PARTITION = 32 << 20
PARTITIONS_MAX = 10_000
TOPIC_PREFIX = "persistent://"
COLUMNS = {
    **{"key": "string", "value": "binary", "properties": "map<string, string>"},
    **{"publish_time": "timestamp", "event_time": "timestamp"},
    **{"ledger_id": "bigint", "entry_id": "bigint", "batch_index": "int", "batch_size": "int"},
    **{"chunk_id": "int", "partition": "int", "producer_name": "string", "sequence_id": "bigint"},
    **{"publish_ms": "bigint", "value_bytes": "bigint", "entry_bytes": "bigint"},
    **{"payload_bytes": "bigint", "packed_bytes": "bigint", "compression": "string"},
    "encrypted": "boolean",
}
"""Columns of a message, in the order of the rows, with their types in SQL.

``batch_index`` is -1 in an entry that is not a batch, ``chunk_id`` null where the entry is not a chunk. Sizes:
``value_bytes`` of this message; of its entry ``entry_bytes`` as stored, ``payload_bytes`` before and ``packed_bytes``
after compression. An encrypted entry is one row, its value the stored bytes and ``value_bytes`` null. A chunk is one
row with the chunk's stored bytes; ``value_bytes`` is the whole message's at the first chunk and 0 at the others.
"""

SCHEMA_COLUMNS = {"schema_version": "bigint", "decoded": "string", "decode_error": "string"}
"""Columns that are present only when ``columns`` names them.

``schema_version``: version of the topic's schema with which the message was written, null when its producer named none.
``decoded``: the value as JSON, decoded with that schema; null where ``decode_error`` has the reason, and where there is
no value.
"""
_KNOWN = COLUMNS | SCHEMA_COLUMNS


class OptionError(ValueError):
    """An option is missing or out of range; the message names it."""


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed options.

    - ``topic``: full name
    - ``stores``: the URLs of the metadata stores, as in the brokers' settings
    - ``entries_per_partition``, ``bytes_per_partition``: approximate limits of one task
    - ``last_entries``: number of the newest entries to read, 0 for all
    - ``columns``: names of COLUMNS and SCHEMA_COLUMNS to build
    - ``fail_on_data_loss``: entries trimmed between planning and reading fail the read
    - ``password``: of the ledgers
    """

    topic: str
    stores: StoreUrls
    entries_per_partition: int = ENTRIES_PER_PARTITION
    bytes_per_partition: int = BYTES_PER_PARTITION
    last_entries: int = 0
    columns: tuple[str, ...] = tuple(COLUMNS)
    fail_on_data_loss: bool = True
    password: bytes = b""


def column_type(name: str) -> str:
    """Return the SQL type of a column that may be requested."""
    return _KNOWN[name]


def parse(options: Mapping[str, str]) -> Options:
    """Parse options. Their names are case-insensitive, because Spark may change their case. Raises OptionError."""
    by_name = {name.lower(): value for name, value in options.items()}
    topic = by_name.get("topic", "")
    if not topic.startswith(TOPIC_PREFIX) or topic.count("/") < 4:
        raise OptionError(
            f"option topic must be a full name, {TOPIC_PREFIX}tenant/namespace/topic, not {topic!r}"
        )
    metadata, configuration, bookkeeper = STORE_OPTIONS
    try:
        stores = StoreUrls.parse(
            *(by_name.get(name, "") for name in STORE_OPTIONS),
            settings=(f"option {metadata}", f"option {configuration}", f"option {bookkeeper}"),
        )
    except SettingsError as error:
        raise OptionError(str(error)) from error
    return Options(
        topic=topic,
        stores=stores,
        entries_per_partition=_integer(by_name, "entriesperpartition", ENTRIES_PER_PARTITION, 1),
        bytes_per_partition=_integer(by_name, "bytesperpartition", BYTES_PER_PARTITION, 1),
        columns=_columns(by_name.get("columns")),
        last_entries=_integer(by_name, "lastentries", 0, 0),
        fail_on_data_loss=_flag(by_name, "failondataloss", True),
        password=by_name.get("ledger.password", "").encode(),
    )


def _integer(by_name: Mapping[str, str], name: str, default: int, low: int) -> int:
    text = by_name.get(name, str(default))
    if not text.isdigit() or not low <= int(text) <= 1_000_000_000:
        raise OptionError(
            f"option {name} must be a whole number from {low} to 1000000000, not {text!r}"
        )
    return int(text)


def _flag(by_name: Mapping[str, str], name: str, default: bool) -> bool:
    text = by_name.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise OptionError(f"option {name} must be true or false, not {text!r}")
    return text == "true"


def _columns(text: str | None) -> tuple[str, ...]:
    if text is None:
        return tuple(COLUMNS)
    names = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in names if name not in _KNOWN]
    if unknown or len(set(names)) != len(names):
        raise OptionError(
            f"option columns must be different names of {', '.join(_KNOWN)}, not {text!r}"
        )
    return names
