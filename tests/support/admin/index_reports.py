"""Reports of brokers to the index of topics."""

from typing import Any

from engine.admin.api.rows import ROW_COLUMNS
from gateway.services.feeds.row_list import RowChanges
from gateway.services.index.topic_index import TopicIndex

T = "persistent://t/n/"


def values(**given: int | None) -> list[int | None]:
    return [given.get(column, 0) for column in ROW_COLUMNS]


def answer(at: int, *rows: list[Any], gone: tuple[str, ...] = ()) -> RowChanges:
    return RowChanges(at, list(rows), list(gone))


def rest(at: int, *rows: list[Any], missing: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"at": at, "rows": list(rows), "missing": list(missing)}


def row(index: TopicIndex, name: str) -> dict[str, Any]:
    return index.row(T + name, 999)
