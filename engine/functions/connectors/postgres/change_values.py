"""Changes of rows as values of messages: the envelope that Debezium made customary, as JSON or as Avro. Pure.

Both forms hold the same::

    op      c (insert), u (update), d (delete), t (truncate), r (row of the snapshot)
    before  the row before: null, its replica identity, or all of it with REPLICA IDENTITY FULL
    after   the row after: null after a deletion
    source  schema, table, lsn (of the commit), transaction, snapshot
    ts_ms   time of the commit in milliseconds since 1970

Values of a row are numbers for the types of numbers that JSON holds exactly, booleans, the documents of json and jsonb,
Base64 of bytea, and for all other types PostgreSQL's own text. ``missing`` names columns whose values the message has
not: large ones that an update left alone, which the server does not send, and those that were too large.
"""

import base64
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.functions.connectors.postgres.pgoutput import (
    UNCHANGED,
    Relation,
    Row,
    Unchanged,
    lsn_text,
)
from engine.functions.connectors.spi import ConnectorError

JSON, AVRO = "json", "avro"
_ROW: Final[dict[str, Any]] = {
    "type": "map",
    "values": ["null", "boolean", "long", "double", "string"],
}
AVRO_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Change",
    "namespace": "magnetar.postgres",
    "fields": [
        {"name": "op", "type": "string"},
        {"name": "before", "type": ["null", _ROW], "default": None},
        {"name": "after", "type": ["null", _ROW], "default": None},
        {"name": "missing", "type": {"type": "array", "items": "string"}, "default": []},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [
                    {"name": "schema", "type": "string"},
                    {"name": "table", "type": "string"},
                    {"name": "lsn", "type": "string"},
                    {"name": "transaction", "type": "long"},
                    {"name": "snapshot", "type": "boolean"},
                ],
            },
        },
        {"name": "ts_ms", "type": "long"},
    ],
}
"""Schema of all tables: a row is a map, so that a column more or less changes no schema."""
NESTED_SURELY: Final = 500
"""Levels of a document that can always be written."""
_FALSE: Final = b"f"


def _number(text: bytes) -> float | str:
    """Return a floating-point number; the text of those that JSON has not, such as NaN."""
    value = float(text)
    return value if math.isfinite(value) else text.decode()


def _document(text: bytes) -> Any:
    try:
        document = json.loads(text, parse_float=lambda digits: _number(digits.encode()))
        if text.count(b"[") + text.count(b"{") > NESTED_SURELY:
            json.dumps([[[document]]])  # what is read must be written again, inside of a change
    except (ValueError, RecursionError):  # deeper nested than Python reads, or a number too long
        return text.decode(errors="replace")
    return document


def _base64(text: bytes) -> str:
    return base64.b64encode(bytes.fromhex(text[2:].decode())).decode()


CONVERSIONS: Final[Mapping[int, Callable[[bytes], Any]]] = {
    **{16: lambda text: text != _FALSE, 17: _base64},  # bool, bytea
    **dict.fromkeys((20, 21, 23, 26), int),  # int8, int2, int4, oid
    **dict.fromkeys((700, 701), _number),  # float4, float8
    **dict.fromkeys((114, 3802), _document),  # json, jsonb
}
"""Conversions by the OIDs of built-in types, which never change. The others are texts."""


def cell_value(type_oid: int, text: bytes | None) -> Any:
    """Return the value of a column from PostgreSQL's text of it."""
    if text is None:
        return None
    convert = CONVERSIONS.get(type_oid)
    return text.decode(errors="replace") if convert is None else convert(text)


def row_values(relation: Relation, row: Row, *, identity_alone: bool = False) -> dict[str, Any]:
    """Return the values of a row by column, without those that were not sent. Raises ConnectorError for a row that has
    not the relation's columns."""
    if len(row) != len(relation.columns):
        raise ConnectorError(
            f"a row of {relation.schema}.{relation.table} has {len(row)} columns, not {len(relation.columns)}"
        )
    return {
        column.name: cell_value(column.type_oid, cell)
        for column, cell in zip(relation.columns, row, strict=True)
        if not isinstance(cell, Unchanged) and (column.identity or not identity_alone)
    }


def unchanged_columns(relation: Relation, row: Row) -> list[str]:
    """Return the columns of a row whose large values were not sent."""
    pairs = zip(relation.columns, row, strict=True)
    return [column.name for column, cell in pairs if cell is UNCHANGED]


@dataclass(frozen=True, slots=True)
class Envelope:
    """Values that all changes of one transaction or snapshot share."""

    lsn: int
    transaction: int
    at_ms: int
    snapshot: bool = False

    def change(
        self,
        op: str,
        relation: Relation,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        missing: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return a change."""
        value: dict[str, Any] = {"op": op, "before": before, "after": after}
        if missing:
            value["missing"] = list(missing)
        value["source"] = {
            "schema": relation.schema,
            "table": relation.table,
            "lsn": lsn_text(self.lsn),
            "transaction": self.transaction,
            "snapshot": self.snapshot,
        }
        value["ts_ms"] = self.at_ms
        return value


def as_json(change: dict[str, Any]) -> bytes:
    """Return the bytes of a change as JSON in UTF-8."""
    text = json.dumps(change, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:  # a document of json has half of a pair, which UTF-8 has not
        return json.dumps(change, separators=(",", ":")).encode()


def avro_encoder() -> Callable[[dict[str, Any]], bytes]:
    """Return the encoder of AVRO_SCHEMA. Raises ConnectorError without its library."""
    try:
        import fastavro
    except ImportError as error:
        raise ConnectorError(
            "configs.format: the package fastavro is not installed: pip install 'magnetar[connectors]'"
        ) from error
    schema = fastavro.parse_schema(json.loads(json.dumps(AVRO_SCHEMA)))

    def encode(change: dict[str, Any]) -> bytes:
        flat = {
            **change,
            "before": _flat(change["before"]),
            "after": _flat(change["after"]),
            "missing": change.get("missing", []),
        }
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, flat)
        return buffer.getvalue()

    return encode


def _flat(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a row whose documents are their JSON text, which a map of simple values holds."""
    if row is None:
        return None
    return {
        name: json.dumps(value, separators=(",", ":")) if isinstance(value, dict | list) else value
        for name, value in row.items()
    }


def smaller(change: dict[str, Any]) -> dict[str, Any] | None:
    """Return the change without its longest value, None where there is none left to leave out."""
    rows = [name for name in ("before", "after") if change[name]]
    places = [
        (len(value if isinstance(value, str) else json.dumps(value)), row, name)
        for row in rows
        for name, value in change[row].items()
        if isinstance(value, str | dict | list)
    ]
    if not places:
        return None
    _, row, name = max(places)
    rest = {column: value for column, value in change[row].items() if column != name}
    missing = [
        *change.get("missing", []),
        *([name] if name not in change.get("missing", []) else []),
    ]
    return {**change, row: rest, "missing": missing}


def key_text(relation: Relation, key: Sequence[str], row: dict[str, Any], named: bool) -> str:
    """Return the key of a row's messages. ``named``: a JSON array of the table and the primary key's values, which is
    one of all tables; else the only value, or a JSON array of several."""
    values = [row.get(name) for name in key]
    if named:
        values.insert(0, f"{relation.schema}.{relation.table}")
    elif len(values) == 1:
        return values[0] if isinstance(values[0], str) else json.dumps(values[0])
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False)
