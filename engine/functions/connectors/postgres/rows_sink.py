"""Messages as rows of a PostgreSQL table."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from engine.functions.connectors.connector_settings import fields, flag, text, texts
from engine.functions.connectors.postgres.postgres_link import (
    SECOND_LINE,
    connect,
    link_fields,
    table_name,
)
from engine.functions.connectors.spi import (
    ConnectorContext,
    ConnectorError,
    LostEndError,
    Record,
    Sink,
)

MESSAGES, INSERT, UPSERT = "messages", "insert", "upsert"
NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?$"
COLUMN_PATTERN = r"^[A-Za-z_][A-Za-z0-9_$]{0,62}$"
SETTINGS = fields(
    ("url", "table"),
    **link_fields(),
    table=text("Table", "TABLE or SCHEMA.TABLE", pattern=NAME_PATTERN),
    mode=text(
        "Mode",
        "messages: a row of each message, in a table that is made if it is missing; insert: fields of values "
        "that are JSON objects are columns; upsert: such a row replaces that with the same key",
        MESSAGES,
        choices=(MESSAGES, INSERT, UPSERT),
    ),
    keyColumns=texts("Key columns", "Columns of the key of upsert, which a unique index has"),
    idColumn=text(
        "Id column",
        "Column of insert for the message's id, which a unique index has: a message is inserted once. Empty: "
        "a message may be inserted twice after a failure",
        pattern=COLUMN_PATTERN,
    ),
    ignoreUnknown=flag(
        "Ignore unknown", "Ignore fields without a column, instead of failing the message", False
    ),
)
OWN_TABLE = (
    "CREATE TABLE IF NOT EXISTS {} (message_id text PRIMARY KEY, topic text NOT NULL, key text, "
    "event_time timestamptz, properties jsonb NOT NULL, value bytea NOT NULL)"
)
OWN_COLUMNS = ("message_id", "topic", "key", "event_time", "properties", "value")
COLUMNS_OF = """
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""


OF_THE_ROW = ("22", "23", "44", "54", "42804", "42846", "P0001")
"""Classes and codes of errors that another row would not have: values, constraints, sizes, types, and a trigger's own.
All others are those of the table, of the rights or of the server."""
IN_THE_WAY = ("40001", "40P01")
"""Codes of errors that another transaction has caused, as by a deadlock."""
ATTEMPTS = 6
FIRST_PAUSE_S = 0.02


class RowToWrite(NamedTuple):
    """A message's row: its columns with the values in the same order."""

    record: Record
    columns: tuple[str, ...]
    values: tuple[Any, ...]


class RowsSink(Sink):
    """A sink of rows. A run is one transaction; a row that the server refuses fails alone. Any other error ends the
    sink: a table that is missing is no fault of the messages, and one of mode messages is made at the next start."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Sink``. Raises ConnectorError that names the setting."""
        self._settings, self._context = settings, context
        self._connection: Any = None
        if settings["mode"] == UPSERT and not settings["keyColumns"]:
            raise ConnectorError("configs.keyColumns: upsert needs the columns of its key")
        self._connection = await connect(settings)
        from psycopg import sql
        from psycopg.types.json import Jsonb

        self._sql, self._jsonb = sql, Jsonb
        self._statements: dict[tuple[str, ...], Any] = {}
        self._table = sql.Identifier(*table_name(settings["table"]))
        if settings["mode"] == MESSAGES:
            await self._connection.execute(sql.SQL(OWN_TABLE).format(self._table))
        cursor = await self._connection.execute(COLUMNS_OF, [self._table.as_string()])
        self._columns = {name for (name,) in await cursor.fetchall()}
        self._check_columns()

    def _check_columns(self) -> None:
        settings = self._settings
        if not self._columns:
            raise ConnectorError(f"configs.table: there is no table {settings['table']}")
        needed = {
            MESSAGES: [("table", name) for name in OWN_COLUMNS],
            INSERT: [("idColumn", settings["idColumn"])] if settings.get("idColumn") else [],
            UPSERT: [("keyColumns", name) for name in settings["keyColumns"]],
        }
        for setting, name in needed[settings["mode"]]:
            if name not in self._columns:
                raise ConnectorError(f"configs.{setting}: {settings['table']} has no column {name}")

    async def write(self, records: Sequence[Record]) -> None:
        """See ``Sink``."""
        rows: list[RowToWrite] = []
        for record in records:
            try:
                rows.append(self._row(record))
            except ConnectorError as error:
                if self._context.guarantee == "EFFECTIVELY_ONCE":
                    raise
                record.fail(error)
        if await self._refused(rows) is None:
            return
        # One of the rows is refused: each in a transaction of its own shows which.
        for row in rows:
            refusal = await self._refused([row])
            if refusal is not None:
                if self._context.guarantee == "EFFECTIVELY_ONCE":
                    raise refusal
                row.record.fail(refusal)

    async def _refused(self, rows: Sequence[RowToWrite]) -> Exception | None:
        """Write rows in one transaction; return the error of one of them, None when all are stored. Raises
        LostEndError for an error that does not come from a row."""
        import psycopg

        pause_s = FIRST_PAUSE_S
        for left in range(ATTEMPTS - 1, -1, -1):
            try:
                await self._insert(rows)
            except UnicodeError as error:  # a half of a surrogate pair, which JSON can have
                return error
            except psycopg.Error as error:
                state = error.sqlstate
                if state is None and isinstance(
                    error, psycopg.DataError | psycopg.ProgrammingError
                ):
                    return error  # of the library, which cannot send the value
                if state is not None and state.startswith(OF_THE_ROW):
                    return error
                if state not in IN_THE_WAY or not left:
                    text = str(error).strip()[:SECOND_LINE]
                    raise LostEndError(f"{self._settings['table']}: {text}") from error
            else:
                break
            await asyncio.sleep(pause_s)
            pause_s *= 2
        return None

    def _row(self, record: Record) -> RowToWrite:
        """Return a message's row. Raises ConnectorError when its value has no columns."""
        if self._settings["mode"] == MESSAGES:
            at = record.event_time_ms
            return RowToWrite(
                record,
                OWN_COLUMNS,
                (
                    record.message_id,
                    record.topic,
                    record.key,
                    None if at is None else _timestamp(at),
                    self._jsonb(dict(record.properties)),
                    record.payload,
                ),
            )
        value = _object(record)
        unknown = [name for name in value if name not in self._columns]
        if unknown and not self._settings["ignoreUnknown"]:
            raise ConnectorError(f"{self._settings['table']} has no column {unknown[0]}")
        given = {name: value[name] for name in value if name in self._columns}
        if self._settings["mode"] == INSERT and self._settings.get("idColumn"):
            given[self._settings["idColumn"]] = record.message_id
        missing = [name for name in self._key_columns() if given.get(name) is None]
        if missing or not given:
            raise ConnectorError(f"the value has no field {', '.join(missing) or 'with a column'}")
        columns = tuple(sorted(given))
        return RowToWrite(record, columns, tuple(self._adapted(given[name]) for name in columns))

    def _key_columns(self) -> list[str]:
        return list(self._settings["keyColumns"]) if self._settings["mode"] == UPSERT else []

    def _adapted(self, value: Any) -> Any:
        return self._jsonb(value) if isinstance(value, dict | list) else value

    async def _insert(self, rows: Sequence[RowToWrite]) -> None:
        """Write rows in one transaction, in order, and acknowledge their messages."""
        async with self._connection.transaction(), self._connection.cursor() as cursor:
            for columns, group in groupby(rows, key=lambda row: row.columns):
                await cursor.executemany(self._statement(columns), [row.values for row in group])
        for row in rows:
            row.record.ack()

    def _statement(self, columns: tuple[str, ...]) -> Any:
        statement = self._statements.get(columns)
        if statement is not None:
            return statement
        sql = self._sql
        conflict: Any = sql.SQL("")
        mode, id_column = self._settings["mode"], self._settings.get("idColumn")
        if mode == MESSAGES:
            conflict = sql.SQL(" ON CONFLICT (message_id) DO NOTHING")
        elif mode == INSERT and id_column:
            conflict = sql.SQL(" ON CONFLICT ({}) DO NOTHING").format(sql.Identifier(id_column))
        elif mode == UPSERT:
            keys = self._key_columns()
            changes = [
                sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name))
                for name in columns
                if name not in keys
            ]
            conflict = sql.SQL(" ON CONFLICT ({}) DO {}").format(
                sql.SQL(", ").join(map(sql.Identifier, keys)),
                sql.SQL("UPDATE SET ") + sql.SQL(", ").join(changes)
                if changes
                else sql.SQL("NOTHING"),
            )
        statement = self._statements[columns] = sql.SQL("INSERT INTO {} ({}) VALUES ({}){}").format(
            self._table,
            sql.SQL(", ").join(map(sql.Identifier, columns)),
            sql.SQL(", ").join(sql.Placeholder() for _ in columns),
            conflict,
        )
        return statement

    async def close(self) -> None:
        """See ``Sink``."""
        if self._connection is not None:
            await self._connection.close()


def _object(record: Record) -> dict[str, Any]:
    value = record.value
    if isinstance(value, bytes | str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict):
        raise ConnectorError("the value is no JSON object, whose fields are columns")
    return value


def _timestamp(at_ms: int) -> Any:
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ConnectorError(f"the event time {at_ms} ms is behind the year 9999") from error
