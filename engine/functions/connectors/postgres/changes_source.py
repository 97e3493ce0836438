"""Changes of PostgreSQL's tables as messages, by logical decoding.

**Order and numbers.** The server sends whole transactions in the order of their commits, and each again until a place
behind it is confirmed. Every record has the next number. The state of the source holds a place of the log with the
number of the first record behind it, and is durable before that place is confirmed to the server. So a source that
starts again gives each record the number that it had, and a topic that deduplicates drops what it has (F10).

**Begin.** The slot is made with a snapshot, from which the rows that are there already are read first. A source that
is interrupted meanwhile drops its slot and begins again, with numbers above all before: only rows of the snapshot can
be repeated.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from engine.functions.connectors.connector_settings import fields, flag, text, texts, whole
from engine.functions.connectors.postgres.capture_slot import (
    PLUGIN,
    SESSION,
    CaptureServer,
    KnownSlot,
    TableSnapshot,
    choose_names,
)
from engine.functions.connectors.postgres.change_values import (
    AVRO,
    AVRO_SCHEMA,
    JSON,
    Envelope,
    as_json,
    avro_encoder,
    key_text,
    row_values,
    smaller,
    unchanged_columns,
)
from engine.functions.connectors.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Relation,
    RowChange,
    Truncation,
    lsn_text,
    parse,
    parse_lsn,
)
from engine.functions.connectors.postgres.postgres_link import connect, link_fields
from engine.functions.connectors.postgres.replication_link import ReplicationLink
from engine.functions.connectors.spi import (
    AckedPrefix,
    ConnectorContext,
    ConnectorError,
    Record,
    Source,
)
from engine.wire import pulsar_pb2 as pb

INITIAL, NEVER = "initial", "never"
TABLE, COLUMNS = "table", "columns"
STOP, OMIT = "stop", "omit"
SNAPSHOT, STREAM = "snapshot", "stream"
STATE_KEY = "postgres.position"
NUMBERS_BITS = 20
AFRESH = 1 << 44
"""Distance to numbers that no record has: more than one run of a source can give."""
MESSAGE_BYTES_MAX = (5 << 20) - (64 << 10)
"""Bytes of a value at most: Pulsar's default of a message's size, without its metadata."""
NAME = r"^[a-z0-9_]{1,63}$"
SETTINGS = fields(
    ("url",),
    **link_fields(),
    tables=texts(
        "Tables",
        "TABLE or SCHEMA.TABLE, for a publication that is made; empty: those of a publication that is there",
    ),
    publication=text(
        "Publication",
        "Publication, which is made if it is missing; empty: one of the source's own",
        pattern=NAME,
    ),
    slot=text(
        "Slot",
        "Replication slot, which is made if it is missing; another name starts again. Empty: one of the source's own",
        pattern=NAME,
    ),
    snapshot=text(
        "Snapshot",
        "initial: rows that are there already come first; never: only changes from now on",
        INITIAL,
        choices=(INITIAL, NEVER),
    ),
    format=text("Format", "Form of the messages' values", JSON, choices=(JSON, AVRO)),
    key=text(
        "Key",
        "table: a JSON array of the table and the values of its primary key; columns: these alone",
        TABLE,
        choices=(TABLE, COLUMNS),
    ),
    tombstones=flag(
        "Tombstones", "After a deletion, an empty message with its key, for compaction", False
    ),
    tooLarge=text(
        "Too large",
        "For a change beyond the size of a message: stop, or omit its longest values and name them in missing",
        STOP,
        choices=(STOP, OMIT),
    ),
    batch=whole("Batch", "Changes of one read at most", 1000, 1, 10_000),
)


@dataclass(frozen=True, slots=True)
class CapturePosition:
    """Progress of a source: the place of the log, and the number of the first record behind it.

    ``numbering``: the settings on which numbers depend. ``system``: the identity of the server's data.
    """

    phase: str
    slot: str
    system: str
    lsn: str
    next_number: int
    numbering: str

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class ChangesSource(Source):
    """A source of changes. One instance alone reads: the order of the log is one."""

    async def open(self, settings: Mapping[str, Any], context: ConnectorContext) -> None:
        """See ``Source``. Raises ConnectorError that names the setting."""
        self._settings, self._context = settings, context
        self._server: CaptureServer | None = None
        self._link: ReplicationLink | None = None
        self._snapshot: TableSnapshot | None = None
        self._relations: dict[int, Relation] = {}
        self._keys: dict[int, tuple[str, ...]] = {}
        self._ends: deque[tuple[int, int]] = deque()
        """Numbers of the last records of transactions that are read, and the places behind these."""
        self._transaction: Envelope | None = None
        self._encode: Callable[[dict[str, Any]], bytes] = as_json
        self._slot, self._publication = choose_names(settings, context)
        if settings["format"] == AVRO:
            self._encode = avro_encoder()
            self.schema = pb.Schema(
                name="Change",
                type=pb.Schema.Type.Avro,
                schema_data=json.dumps(AVRO_SCHEMA).encode(),
            )
        server = self._server = CaptureServer(await connect(settings))
        await server.check()
        await server.publish(self._publication, settings["tables"])
        link = self._link = await ReplicationLink.open(settings, context.clock)
        await link.command(SESSION)
        self._saved = await self._position(server, link)
        self._next = self._saved.next_number
        self._acked = AckedPrefix(self._next - 1)
        self._confirmable = self._reached = parse_lsn(self._saved.lsn)
        if self._snapshot is None:
            await link.stream(self._slot, self._publication, self._confirmable)

    # --- where it begins -------------------------------------------------------------------------

    async def _position(self, server: CaptureServer, link: ReplicationLink) -> CapturePosition:
        """Return where to begin; makes the slot of a source that is new."""
        known = await server.slot(self._slot)
        identity = await link.command("IDENTIFY_SYSTEM")
        system, end = str(identity["systemid"]), parse_lsn(identity["xlogpos"])
        stored = await self._context.get_state(STATE_KEY)
        saved = None if stored is None else CapturePosition(**json.loads(stored))
        numbering = f"{self._publication} {self._settings['tombstones']}"
        base = self._context.clock.wall_ms() << NUMBERS_BITS
        if saved is not None:
            base = max(base, saved.next_number + AFRESH)
        fresh = CapturePosition(SNAPSHOT, self._slot, system, "0/0", base, numbering)
        if saved is None or saved.slot != self._slot:
            if saved is not None:
                self._context.log.warning(
                    "the slot %s is used no more; the server keeps its log for it until it is dropped",
                    saved.slot,
                )
            if known is None:
                return await self._made(server, link, fresh)
            return await self._adopted(known, str(identity["dbname"]), fresh)
        if saved.phase == SNAPSHOT:
            # The snapshot went with the connection that had made it.
            if known is not None:
                await server.drop_slot(self._slot)
            return await self._made(server, link, fresh)
        self._check_kept(known, saved, system, end)
        if saved.numbering != numbering:
            # Equal changes had other numbers: rather one twice than another dropped for it.
            saved = replace(saved, next_number=base, numbering=numbering)
            await self._context.put_state(STATE_KEY, saved.encode())
        return saved

    async def _made(
        self, server: CaptureServer, link: ReplicationLink, fresh: CapturePosition
    ) -> CapturePosition:
        """Make the slot, and begin its snapshot where one is wanted."""
        await self._context.put_state(STATE_KEY, fresh.encode())
        initial = self._settings["snapshot"] == INITIAL
        made = await link.command(
            f'CREATE_REPLICATION_SLOT "{self._slot}" LOGICAL {PLUGIN} '
            f"{'EXPORT_SNAPSHOT' if initial else 'NOEXPORT_SNAPSHOT'}"
        )
        fresh = replace(fresh, lsn=made["consistent_point"])
        if initial:
            self._snapshot = await server.begin_snapshot(made["snapshot_name"], self._publication)
            self._transaction = Envelope(
                parse_lsn(fresh.lsn), 0, self._context.clock.wall_ms(), snapshot=True
            )
            return fresh
        fresh = replace(fresh, phase=STREAM)
        await self._context.put_state(STATE_KEY, fresh.encode())
        return fresh

    async def _adopted(
        self, known: KnownSlot, database: str, fresh: CapturePosition
    ) -> CapturePosition:
        """Begin at a slot that this source did not make."""
        if (known.plugin, known.database) != (PLUGIN, database):
            raise ConnectorError(
                f"configs.slot: {self._slot} is a slot of {known.plugin} in {known.database}, not of {PLUGIN} "
                f"in {database}"
            )
        if self._settings["snapshot"] == INITIAL:
            raise ConnectorError(
                f"configs.slot: {self._slot} is there already, without a snapshot: set snapshot to never to read "
                "on from where it is, or name another slot"
            )
        self._check_sendable(known)
        fresh = replace(fresh, phase=STREAM, lsn=lsn_text(known.confirmed_lsn))
        await self._context.put_state(STATE_KEY, fresh.encode())
        return fresh

    def _check_kept(
        self, known: KnownSlot | None, saved: CapturePosition, system: str, end: int
    ) -> None:
        """Raise ConnectorError where changes behind the position are lost."""
        again = "name another slot to start again"
        if known is None:
            raise ConnectorError(
                f"configs.slot: the slot {self._slot} is gone, and with it the changes behind {saved.lsn}: {again}"
            )
        if saved.system != system or parse_lsn(saved.lsn) > end:
            raise ConnectorError(
                f"configs.url: the server has other data than before: its log has no {saved.lsn} of system "
                f"{saved.system}, as after a restore: {again}"
            )
        self._check_sendable(known)

    def _check_sendable(self, known: KnownSlot) -> None:
        if known.wal_status == "lost":
            raise ConnectorError(
                f"configs.slot: the server has removed log that {self._slot} needed (max_slot_wal_keep_size): "
                "name another slot to start again"
            )
        if known.active_pid is not None:
            raise ConnectorError(
                f"configs.slot: {self._slot} is in use by process {known.active_pid} of the server"
            )

    # --- records ---------------------------------------------------------------------------------

    async def read(self) -> Sequence[Record]:
        """See ``Source``."""
        assert self._link is not None
        while self._snapshot is not None:
            part = await self._snapshot.next(self._settings["batch"])
            if part is not None:
                return self._rows(*part)
            lsn = self._transaction.lsn if self._transaction is not None else 0
            await self._link.stream(self._slot, self._publication, lsn)
            # Only now: a commit meanwhile must confirm nothing on a connection that does not stream.
            self._snapshot = self._transaction = None
            self._ends.append((self._next - 1, lsn))
        while True:
            records: list[Record] = []
            for message in await self._link.receive(self._settings["batch"]):
                event = parse(message)
                if isinstance(event, Relation):
                    await self._learn(event)
                else:
                    self._take(event, records)
            # Only now: a server's report stands behind what arrived before it.
            self._reached = self._link.sent_lsn
            if records:
                return records

    async def _learn(self, relation: Relation) -> None:
        """Note a table as it is from here on."""
        assert self._server is not None
        key = tuple(column.name for column in relation.columns if column.identity)
        if relation.replica_identity == "f":
            primary = await self._server.key_columns(relation.schema, relation.table)
            key = tuple(column.name for column in relation.columns if column.name in primary)
        self._relations[relation.relation_id] = relation
        self._keys[relation.relation_id] = key

    def _rows(self, relation: Relation, rows: Sequence[Sequence[bytes | None]]) -> list[Record]:
        key = tuple(column.name for column in relation.columns if column.identity)
        records: list[Record] = []
        for row in rows:
            after = row_values(relation, row)
            self._add(records, "r", relation, key, None, after)
        return records

    def _take(
        self, event: Begin | Commit | RowChange | Truncation | None, records: list[Record]
    ) -> None:
        if isinstance(event, Begin):
            self._transaction = Envelope(event.lsn, event.transaction, event.at_ms)
        elif isinstance(event, Commit):
            self._transaction = None
            self._ends.append((self._next - 1, event.end_lsn))
        elif isinstance(event, RowChange):
            self._change(event, records)
        elif isinstance(event, Truncation):
            for relation_id in event.relation_ids:
                self._add(records, "t", self._relation(relation_id), (), None, None)

    def _relation(self, relation_id: int) -> Relation:
        relation = self._relations.get(relation_id)
        if relation is None:
            raise ConnectorError(f"the server did not describe its relation {relation_id}")
        return relation

    def _change(self, change: RowChange, records: list[Record]) -> None:
        relation = self._relation(change.relation_id)
        key = self._keys[change.relation_id]
        before = after = None
        missing: list[str] = []
        if change.before is not None:
            before = row_values(relation, change.before, identity_alone=not change.before_is_whole)
        if change.after is not None:
            after = row_values(relation, change.after)
            if UNCHANGED in change.after:
                for name in unchanged_columns(relation, change.after):
                    if change.before_is_whole and before is not None and name in before:
                        after[name] = before[name]
                    else:
                        missing.append(name)
        if change.kind == "D":
            self._delete(records, relation, key, before)
        elif change.kind == "I":
            self._add(records, "c", relation, key, before, after)
        elif before and key and any(before.get(n) != (after or {}).get(n) for n in key):
            # The row has another key: those who follow the old one see it end.
            self._delete(records, relation, key, before)
            self._add(records, "c", relation, key, None, after, missing)
        else:
            self._add(records, "u", relation, key, before, after, missing)

    def _delete(
        self,
        records: list[Record],
        relation: Relation,
        key: tuple[str, ...],
        before: dict[str, Any] | None,
    ) -> None:
        self._add(records, "d", relation, key, before, None)
        if self._settings["tombstones"] and records[-1].key is not None:
            last = records[-1]
            records.append(self._record(relation, "d", b"", last.key))

    def _add(
        self,
        records: list[Record],
        op: str,
        relation: Relation,
        key: tuple[str, ...],
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        missing: Sequence[str] = (),
    ) -> None:
        assert self._transaction is not None
        row = after if after is not None else before
        named = self._settings["key"] == TABLE
        text = key_text(relation, key, row, named) if row is not None and key else None
        change = self._transaction.change(op, relation, before, after, missing)
        data = self._encode(change)
        while len(data) > MESSAGE_BYTES_MAX:
            shorter = smaller(change) if self._settings["tooLarge"] == OMIT else None
            if shorter is None:
                raise ConnectorError(
                    f"configs.tooLarge: the change of {relation.schema}.{relation.table} with the key {text} at "
                    f"{lsn_text(self._transaction.lsn)} has {len(data)} bytes, more than {MESSAGE_BYTES_MAX}"
                )
            change = shorter
            data = self._encode(change)
        records.append(self._record(relation, op, data, text))

    def _record(self, relation: Relation, op: str, data: bytes, key: str | None) -> Record:
        assert self._transaction is not None
        number, self._next = self._next, self._next + 1
        self._acked.read(number)
        return Record(
            data,
            key=key,
            properties={
                "postgres.op": op,
                "postgres.table": f"{relation.schema}.{relation.table}",
                "postgres.lsn": lsn_text(self._transaction.lsn),
            },
            event_time_ms=self._transaction.at_ms,
            partition=self._slot,
            sequence=number,
            on_settled=self._settled,
        )

    def _settled(self, record: Record, error: BaseException | None) -> None:
        if error is None and record.sequence is not None:
            self._acked.ack(record.sequence)

    # --- what is stored --------------------------------------------------------------------------

    async def commit(self) -> None:
        """See ``Source``. The position is durable before the server may forget what is in front of it."""
        assert self._link is not None
        saved = self._saved
        while self._ends and self._ends[0][0] <= self._acked.position:
            number, lsn = self._ends.popleft()
            self._confirmable = lsn
            saved = replace(saved, phase=STREAM, lsn=lsn_text(lsn), next_number=number + 1)
        if (saved.phase, saved.next_number) != (self._saved.phase, self._saved.next_number):
            await self._context.put_state(STATE_KEY, saved.encode())
        self._saved = saved
        if saved.phase == STREAM and self._is_idle():
            # The log goes on with what is not for this source, and the server need not keep that.
            self._confirmable = max(self._confirmable, self._reached)
        if saved.phase == STREAM and self._snapshot is None:
            self._link.confirm(self._confirmable)
        unconfirmed = max(0, self._link.sent_lsn - self._confirmable)
        self._context.record_metric("postgres_unconfirmed_bytes", unconfirmed)

    def _is_idle(self) -> bool:
        return not self._ends and not self._acked.pending and self._transaction is None

    async def close(self) -> None:
        """See ``Source``. The slot stays, and the server keeps its log for it."""
        if self._link is not None:
            await self._link.close()
        if self._server is not None:
            await self._server.close()
