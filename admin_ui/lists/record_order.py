"""The order of lists by a field that their call offers: one declaration makes the parameter and the query, in which the
database sorts by its indices."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from django.db.models import Model, QuerySet

from admin_ui.calls import Parameter
from admin_ui.params import Params, choice, sort_of

T = TypeVar("T")
R = TypeVar("R", bound=Model)


def sort_parameter(fields: Collection[str], default: str) -> Parameter:
    """Return the parameter ``sort`` of a list that can be sorted by ``fields``."""
    names = tuple(name for field in fields for name in (field, f"-{field}"))
    return Parameter("sort", f"'-' in front for descending; default {default}", enum=names)


class RecordOrder:
    """The fields by which a list of records can be sorted, with their columns.

    Equal records are in the order of the column ``ties``, which rises and falls with them, so that one index of both
    columns serves both directions. Unknown values, which only the columns ``nullable`` have, are last in both.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        default: str,
        *,
        ties: str = "pk",
        nullable: Collection[str] = (),
    ) -> None:
        self._columns = columns
        self._default = default
        self._ties = ties
        self._nullable = frozenset(nullable)
        self.parameter = sort_parameter(columns, default)

    def sort_of(self, params: Params) -> str:
        """Return the order of a request. Raises InvalidField."""
        return sort_of(params, self._columns, self._default)

    def queries(self, records: "QuerySet[Any, T]", sort: str) -> "list[QuerySet[Any, T]]":
        """Return the queries that have the records in an order one after the other."""
        sign, column = "-" * sort.startswith("-"), self._columns[sort.removeprefix("-")]
        ties = f"{sign}{self._ties}"
        names = (ties,) if column == self._ties else (f"{sign}{column}", ties)
        if column not in self._nullable:
            return [records.order_by(*names)]
        # No index has the unknown values last in both directions on every database.
        ordered, is_unknown = records.order_by(*names), f"{column}__isnull"
        return [ordered.filter(**{is_unknown: False}), ordered.filter(**{is_unknown: True})]

    def window(
        self, records: "QuerySet[Any, T]", sort: str, offset: int = 0, limit: int | None = None
    ) -> list[T]:
        """Return ``limit`` of the records from ``offset`` on, all without a limit. It uses the database, and runs in a
        thread."""
        rows: list[T] = []
        for query in self.queries(records, sort):
            end = None if limit is None else offset + limit - len(rows)
            part = list(query[offset:end])
            rows += part
            if limit is not None and len(rows) == limit:
                break
            # The part ended within the window, or before it.
            offset = 0 if part or not offset else offset - query.count()
        return rows


def with_values(
    records: "QuerySet[R]", params: Params, allowed: Mapping[str, Collection[str]]
) -> "QuerySet[R]":
    """Return the records that have the values of a request in the fields of ``allowed``, which have the values that can
    be chosen. Raises InvalidField."""
    for name, values in allowed.items():
        if value := choice(params, name, values):
            records = records.filter(**{name: value})
    return records


async def by_keys(records: "QuerySet[R]", keys: list[str]) -> list[R]:
    """Return the records with these keys, in their order, without those that are gone."""
    stored = await records.ain_bulk(keys)
    return [stored[key] for key in keys if key in stored]


def sorted_rows(rows: Iterable[T], sort: str, value_of: Callable[[T, str], Any]) -> list[T]:
    """Return rows in an order of ``sort_of``: ``value_of(row, field)`` returns what is compared. Equal rows stay as
    they are, unknown values (None) are last in both directions."""
    field, falls = sort.removeprefix("-"), sort.startswith("-")
    valued = [(value_of(row, field), row) for row in rows]
    known = [item for item in valued if item[0] is not None]
    known.sort(key=lambda item: item[0], reverse=falls)
    return [row for _, row in known] + [row for value, row in valued if value is None]
