"""The filters of a search, applied to rows of messages. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.base.errors import InvalidField
from engine.schema.json_paths import ABSENT, Steps, at_path, is_written, parse_path, read_json
from spark_jobs.pulsar_source.options import OptionError
from spark_jobs.pulsar_source.pushdown import NUMBER_MAX


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions of a message. Empty texts, paths and None do not filter.

    ``batch_index``: with -1 the whole entry, or the message of an entry without a batch.
    """

    key: str = ""
    text: bytes = b""
    path: Steps = ()
    equals: str = ""
    of_property: tuple[str, str | None] = ("", None)
    producer: str = ""
    ledger_id: int | None = None
    entry_id: int = -1
    batch_index: int = -1
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def published_ms(self) -> tuple[int, int] | None:
        """The first and last time of publication that can match; None for all."""
        if self.since_ms is None and self.until_ms is None:
            return None
        until_ms = NUMBER_MAX if self.until_ms is None else self.until_ms
        return self.since_ms or 0, until_ms - 1

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that only the filters need."""
        return ("decoded",) if self.path else ()


def filters_of(parameters: Mapping[str, Any]) -> Filters:
    """Return the filters that ``parameters`` describe. Raises OptionError naming the parameter."""
    name, mark, wanted = parameters["property"].partition("=")
    ids = [int(part) for part in parameters["id"].split(":")] if parameters["id"] else []
    if parameters["equals"] and not parameters["path"]:
        raise OptionError("parameter equals needs path, the field that it is the value of")
    return Filters(
        key=parameters["key"],
        text=parameters["text"].encode(),
        path=path_of(parameters["path"]),
        equals=parameters["equals"],
        of_property=(name, wanted if mark else None),
        producer=parameters["producer"],
        ledger_id=ids[0] if ids else None,
        entry_id=ids[1] if ids else -1,
        batch_index=ids[2] if len(ids) > 2 else -1,
        since_ms=time_of("since", parameters["since"]),
        until_ms=time_of("until", parameters["until"]),
    )


def time_of(name: str, text: str) -> int | None:
    """Return a time in ms; without a zone it is UTC. Raises OptionError."""
    if not text:
        return None
    if text.isdigit():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise OptionError(
            f"parameter {name} must be a time as 2026-01-31T08:00:00Z, or milliseconds, not {text!r}"
        ) from error
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def path_of(text: str) -> Steps:
    """Return the steps of a path. Raises OptionError."""
    try:
        return parse_path(text)
    except InvalidField as error:
        raise OptionError(f"parameter path cannot be read: {error}") from error


def matching(rows: pa.RecordBatch, filters: Filters) -> pa.RecordBatch:
    """Return the rows that match. Values that are chunks or encrypted match no text and no path."""
    parts = []
    if filters.ledger_id is not None:
        parts.append(pc.equal(rows["ledger_id"], filters.ledger_id))
        parts.append(pc.equal(rows["entry_id"], filters.entry_id))
        if filters.batch_index >= 0:
            parts.append(pc.equal(rows["batch_index"], filters.batch_index))
    if filters.key:
        parts.append(pc.equal(rows["key"], filters.key))
    if filters.producer:
        parts.append(pc.equal(rows["producer_name"], filters.producer))
    if filters.since_ms is not None:
        parts.append(pc.greater_equal(rows["publish_ms"], filters.since_ms))
    if filters.until_ms is not None:
        parts.append(pc.less(rows["publish_ms"], filters.until_ms))
    if filters.text or filters.path:
        parts.append(pc.and_(pc.is_null(rows["chunk_id"]), pc.invert(rows["encrypted"])))
    if filters.text:
        parts.append(pc.match_substring(rows["value"], pattern=filters.text))
    if parts:
        mask = parts[0].fill_null(False)
        for part in parts[1:]:
            mask = pc.and_(mask, part.fill_null(False))
        rows = rows.filter(mask)
    if filters.of_property[0] and rows.num_rows:
        rows = rows.filter(
            pa.array(
                [_has(pairs, *filters.of_property) for pairs in rows["properties"].to_pylist()],
                pa.bool_(),
            )
        )
    if filters.path and rows.num_rows:
        matches = [
            _at_path(decoded.as_py(), value, filters)
            for decoded, value in zip(rows["decoded"], rows["value"], strict=True)
        ]
        rows = rows.filter(pa.array(matches, pa.bool_()))
    return rows


def _has(pairs: list[tuple[str, str]] | None, name: str, value: str | None) -> bool:
    return any(key == name and value in (None, text) for key, text in pairs or ())


def _at_path(decoded: str | None, value: Any, filters: Filters) -> bool:
    """Return whether a value, decoded by its schema or as JSON, has the field."""
    text = decoded if decoded is not None else value.as_py()
    if text is None:
        return False
    try:
        matches = at_path(read_json(text), filters.path)
    except (ValueError, RecursionError):  # no JSON
        return False
    if matches is ABSENT:
        return False
    return not filters.equals or is_written(matches, filters.equals)
