"""Publication, replication slot and first snapshot of a change capture at the PostgreSQL server."""

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.functions.connectors.postgres.pgoutput import Column, Relation, parse_lsn
from engine.functions.connectors.postgres.postgres_link import refusal, table_name
from engine.functions.connectors.spi import ConnectorContext, ConnectorError

PLUGIN = "pgoutput"
NAME_BYTES_MAX = 63
# So that all values have one form, whatever the role's or the server's own settings are.
SESSION = (
    "SET timezone = 'UTC'; SET datestyle = 'ISO, MDY'; SET intervalstyle = 'postgres'; "
    "SET bytea_output = 'hex'; SET extra_float_digits = 1; SET client_encoding = 'UTF8'"
)
# ``to_jsonb`` gives null for columns that older servers have not.
SLOT = """
SELECT plugin, database, active_pid, to_jsonb(slot)->>'wal_status', confirmed_flush_lsn::text
FROM pg_replication_slots slot WHERE slot_name = %s"""
TABLE = """
SELECT class.relkind::text, class.relreplident::text,
  EXISTS (SELECT FROM pg_index WHERE indrelid = class.oid AND indisprimary)
FROM pg_class class WHERE class.oid = to_regclass(%s)"""
PUBLISHED = """
SELECT schemaname, tablename, to_jsonb(published)->'attnames', to_jsonb(published)->>'rowfilter'
FROM pg_publication_tables published WHERE pubname = %s ORDER BY 1, 2"""
COLUMNS = """
SELECT attribute.attname, attribute.atttypid::bigint
FROM pg_attribute attribute
WHERE attribute.attrelid = to_regclass(%s) AND attribute.attnum > 0 AND NOT attribute.attisdropped
  AND attribute.attgenerated = '' ORDER BY attribute.attnum"""
# The catalogue is that of the snapshot, the function's answer is of now.
REWRITTEN = """
SELECT coalesce(bool_or(class.relfilenode <> pg_relation_filenode(class.oid)), false)
FROM pg_class class
WHERE class.relkind = 'r' AND class.oid IN (
  SELECT relid FROM pg_partition_tree(to_regclass(%s)) UNION SELECT to_regclass(%s))"""
KEY = """
SELECT attribute.attname FROM pg_class class, pg_index, pg_attribute attribute
WHERE class.oid = to_regclass(%s) AND indrelid = class.oid AND attribute.attrelid = class.oid
  AND CASE class.relreplident WHEN 'i' THEN indisreplident ELSE indisprimary END
  AND attribute.attnum = ANY(indkey)"""


class KnownSlot(NamedTuple):
    """A replication slot. ``wal_status``: ``lost`` where the server has removed what it would send."""

    plugin: str | None
    database: str | None
    active_pid: int | None
    wal_status: str | None
    confirmed_lsn: int


def default_name(context: ConnectorContext) -> str:
    """Return the name of a source's slot and publication: its own name in the letters that PostgreSQL permits."""
    full = f"{context.tenant}/{context.namespace}/{context.name}"
    letters = "".join(c if c.isascii() and c.isalnum() else "_" for c in full.lower())
    suffix = f"_{zlib.crc32(full.encode()):08x}"
    return f"magnetar_{letters}"[: NAME_BYTES_MAX - len(suffix)] + suffix


class CaptureServer:
    """A server as change capture uses it: questions and commands on one ordinary connection. All raise
    ConnectorError."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, query: Any, setting: str, *values: Any) -> list[Any]:
        """Run a command and return its rows. ``setting``: what a refusal names."""
        cursor = await self._executed(query, setting, *values)
        return list(await cursor.fetchall()) if cursor.description else []

    async def _executed(self, query: Any, setting: str, *values: Any) -> Any:
        """Run a command and return its cursor, which has received all rows."""
        import psycopg

        try:
            return await self._connection.execute(query, values or None)
        except psycopg.Error as error:
            raise refusal(setting, error) from error

    async def check(self) -> None:
        """Raise ConnectorError for a server that cannot capture changes."""
        ((level,),) = await self.rows("SHOW wal_level", "url")
        if level != "logical":
            raise ConnectorError(
                f"configs.url: the server's wal_level is {level}; set it to logical and restart the server"
            )
        await self.rows(SESSION, "url")

    async def publish(self, publication: str, tables: list[str]) -> None:
        """Make the publication of ``tables`` where it is missing. Refuses a publication without one of them, and
        tables whose updates and deletions the server would refuse once they are published."""
        from psycopg import sql

        known = await self.rows(
            "SELECT puballtables FROM pg_publication WHERE pubname = %s", "publication", publication
        )
        if known:
            has = {
                f"{schema}.{table}" for schema, table, _, _ in await self._published(publication)
            }
            for name in tables:
                if ".".join(table_name(name)) not in has:
                    raise ConnectorError(
                        f"configs.tables: the publication {publication} has not {name}: "
                        f"ALTER PUBLICATION {publication} ADD TABLE {name}"
                    )
            return
        if not tables:
            raise ConnectorError(
                f"configs.tables: there is no publication {publication}; name the tables that it shall have, "
                "or make it"
            )
        for name in tables:
            await self._check_table(name)
        command = sql.SQL(
            "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)"
        ).format(
            sql.Identifier(publication),
            sql.SQL(", ").join(sql.Identifier(*table_name(name)) for name in tables),
        )
        await self.rows(command, "publication")

    async def _check_table(self, name: str) -> None:
        rows = await self.rows(TABLE, "tables", _quoted(*table_name(name)))
        if not rows or rows[0][0] not in "rp":
            raise ConnectorError(f"configs.tables: there is no table {name}")
        _, identity, has_key = rows[0]
        if identity == "n" or (identity == "d" and not has_key):
            raise ConnectorError(
                f"configs.tables: {name} has no primary key: the server would refuse its updates and deletions "
                f"from then on; give it one, or ALTER TABLE {name} REPLICA IDENTITY FULL"
            )

    async def _published(self, publication: str) -> list[Any]:
        return await self.rows(PUBLISHED, "publication", publication)

    async def slot(self, name: str) -> KnownSlot | None:
        """Return a slot, None without it."""
        rows = await self.rows(SLOT, "slot", name)
        if not rows:
            return None
        plugin, database, pid, status, confirmed = rows[0]
        lsn = parse_lsn(confirmed) if confirmed else 0
        return KnownSlot(plugin, database, pid, status, lsn)

    async def drop_slot(self, name: str) -> None:
        """Remove a slot."""
        await self.rows("SELECT pg_drop_replication_slot(%s)", "slot", name)

    async def key_columns(self, schema: str, table: str) -> set[str]:
        """Return the columns of a table's key: of the index of its replica identity, else of its primary key."""
        return {name for (name,) in await self.rows(KEY, "tables", _quoted(schema, table))}

    async def close(self) -> None:
        """End the connection."""
        await self._connection.close()

    # --- the rows that are there already ---------------------------------------------------------

    async def begin_snapshot(self, snapshot: str, publication: str) -> "TableSnapshot":
        """Return the published tables as they were when the slot was made."""
        await self.rows("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "slot")
        # The name is the server's own: digits, letters and hyphens.
        await self.rows(f"SET TRANSACTION SNAPSHOT '{snapshot}'", "slot")
        tables = await self._published(publication)
        for schema, table, _, _ in tables:
            await self._hold(schema, table)
        return TableSnapshot(self, tables)

    async def _hold(self, schema: str, table: str) -> None:
        """Keep a table from being altered until its rows are read, as pg_dump does: an older snapshot sees nothing of a
        table that was written anew. Raises ConnectorError for one that was before this could be kept."""
        from psycopg import sql

        place = _quoted(schema, table)
        lock = sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier(schema, table))
        await self.rows(lock, "tables")
        ((rewritten,),) = await self.rows(REWRITTEN, "tables", place, place)
        if rewritten:
            raise ConnectorError(
                f"configs.tables: {place} was altered when its rows were to be read"
            )

    async def open_table(self, row: Any) -> Relation:
        """Begin to read the rows of a row of PUBLISHED."""
        from psycopg import sql

        schema, table, names, row_filter = row
        place = _quoted(schema, table)
        columns = [
            (name, oid)
            for name, oid in await self.rows(COLUMNS, "tables", place)
            if names is None or name in names
        ]
        known = await self.rows(TABLE, "tables", place)
        if not known:
            raise ConnectorError(f"configs.tables: {place} was dropped before it was read")
        kind, identity, _ = known[0]
        query = sql.SQL("DECLARE snapshot NO SCROLL CURSOR FOR SELECT {} FROM {} {}{}").format(
            sql.SQL(", ").join(sql.Identifier(name) for name, _ in columns),
            # A table's heirs are published, and so read, as tables of their own; partitions are not.
            sql.SQL("ONLY" if kind == "r" else ""),
            sql.Identifier(schema, table),
            sql.SQL("" if row_filter is None else f" WHERE {row_filter}"),
        )
        await self.rows(query, "tables")
        key = await self.key_columns(schema, table)
        made = tuple(Column(name, oid, name in key) for name, oid in columns)
        return Relation(0, schema, table, identity, made)

    async def fetch(self, count: int) -> list[list[bytes | None]]:
        """Return the next rows of the table, as texts."""
        result = (await self._executed(f"FETCH {count} FROM snapshot", "tables")).pgresult
        return [
            [result.get_value(row, column) for column in range(result.nfields)]
            for row in range(result.ntuples)
        ]


class TableSnapshot:
    """The rows of published tables, one table after another."""

    FETCH_BYTES = 4 << 20

    def __init__(self, server: CaptureServer, tables: list[Any]) -> None:
        self._server = server
        self._tables = list(reversed(tables))
        self._relation: Relation | None = None
        self._count = 100

    async def next(self, count: int) -> tuple[Relation, list[list[bytes | None]]] | None:
        """Return at most ``count`` rows of one table, and fewer of long ones; None at the end."""
        while True:
            if self._relation is None:
                if not self._tables:
                    await self._server.rows("COMMIT", "tables")
                    return None
                self._relation = await self._server.open_table(self._tables.pop())
            rows = await self._server.fetch(min(self._count, count))
            if rows:
                size = sum(len(cell) for row in rows for cell in row if cell is not None)
                # Rows of a table are about as long as those before, which bounds the memory.
                self._count = max(1, min(count, self.FETCH_BYTES * len(rows) // max(size, 1)))
                return self._relation, rows
            await self._server.rows("CLOSE snapshot", "tables")
            self._relation, self._count = None, 100


def _quoted(schema: str, table: str) -> str:
    names = (name.replace('"', '""') for name in (schema, table))
    return ".".join(f'"{name}"' for name in names)


def choose_names(settings: Mapping[str, Any], context: ConnectorContext) -> tuple[str, str]:
    """Return the names of the slot and of the publication."""
    own = default_name(context)
    return settings.get("slot") or own, settings.get("publication") or own
