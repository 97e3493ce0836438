"""Every parser of bytes from elsewhere: how it is called, what it may raise, and good inputs to begin with.

``run`` parses, and where something came out, uses it as the product would. ``sealed`` puts right checksums and lengths
over a mutated input, so that what lies behind them is reached; both forms are tried.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bookie.storage import entry_log_format, journal_format, manifest
from bookie.storage.errors import DamagedError, JournalDamagedError
from bookie.storage.index import LedgerRecord
from bookie.storage.journal_reader import read_groups
from bookie.storage.ledgers import lac_of
from bookie.storage.runs import Run, cut_frames
from engine.base.crc32c import crc32c
from engine.base.ids import Position
from engine.ledger import ledger_metadata
from engine.ledger.errors import MetadataFormatError
from engine.managed.errors import RecordFormatError as ManagedFormatError
from engine.managed.positions import LedgerEntry
from engine.managed.records import CursorRecord, CursorState, TopicRecord, put_common
from engine.metadata import prototext, records
from engine.metadata.records import RecordFormatError
from engine.wire import (
    availability,
    batches,
    bookie_commands,
    bookie_kernels,
    bookie_v3,
    mledger_pb2,
)
from engine.wire.bookie_commands import BookieFrameError
from engine.wire.compression import CompressionError, decompress
from engine.wire.events import Sends
from engine.wire.kernels import (
    batch_sizes,
    build_messages,
    build_receipts,
    head_sequences,
    take_acks,
    take_sends,
)
from engine.wire.peer import Peer
from engine.wire.states import State
from tests.sim.disk import FaultDisk

GOLDEN = Path(__file__).parents[1] / "golden"
FRAME_MAX = 1 << 16
KEY = bytes(range(20))
Errors = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Target:
    """``errors`` are the module's named ones: anything else that ``run`` raises is a finding."""

    name: str
    run: Callable[[bytes], None]
    seeds: list[bytes]
    errors: Errors = ()
    sealed: Callable[[bytes], bytes] | None = None
    words: list[bytes] = field(default_factory=list)
    """What mutations may put in."""


def golden(name: str, side: str) -> list[bytes]:
    rows = [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]
    return [bytes.fromhex(row[side]) for row in rows if row[side] != "connection closed"]


def recorded(direction: str) -> list[bytes]:
    """Pulsar frames of one direction, the shorter ones."""
    found: dict[bytes, None] = {}
    for path in sorted((GOLDEN / "wire").glob("*.jsonl")):
        for line in path.read_text().splitlines()[1:]:
            row = json.loads(line)
            if row.get("dir") == direction and len(row.get("hex") or "") in range(2, 4000):
                found[bytes.fromhex(row["hex"])] = None
    return list(found)


# Bookie frames


def bookie_requests(data: bytes) -> None:
    """As a connection cuts them, from the first byte to the first frame that is not whole."""
    pos, end = 0, len(data)
    while pos < end:
        pos, why, runs = bookie_kernels.take_adds(data, pos, end, FRAME_MAX)
        for run in runs:
            bookie_kernels.build_add_replies(data, run, 0)
            whole = data[run.start : run.stop]
            assert sum(r.count for r in cut_frames(whole)) == run.count
        if why != bookie_kernels.OTHER:
            return
        stop = pos + 4 + int.from_bytes(data[pos : pos + 4], "big")
        if stop - pos > 4 and bookie_commands.is_v3(data, pos):
            bookie_v3.parse_request(data, pos, stop)
        else:
            bookie_commands.parse_request(data, pos, stop)
        pos = stop


def bookie_replies(data: bytes) -> None:
    pos = 0
    before = -1
    while pos != before:
        before = pos
        pos, _, adds = bookie_kernels.take_add_replies(data, pos, len(data))
        pos, _, reads = bookie_kernels.take_read_replies(data, pos, len(data))
        assert all(0 <= start <= stop <= len(data) for *_, start, stop in reads)
        assert all(count > 0 for *_, count in adds)
    reply = bookie_commands.parse_batch_read_reply(data, 0, len(data))
    assert all(0 <= at <= len(data) for at in reply.spans)


def v3_request(data: bytes) -> None:
    request = bookie_v3.parse_request(data, 0, len(data))
    bookie_v3.refusal(request, 100)
    bookie_v3.read_reply(request, 2)
    bookie_v3.operation_name(request.header.operation)


def v3_response(data: bytes) -> None:
    response = bookie_v3.parse_response(data, 0, len(data))
    bookie_v3.code(response.status)
    blob = response.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
    if blob:
        availability.decode(blob, 10_000)


def entry_list(data: bytes) -> None:
    ranges = availability.merged(availability.decode(data, 10_000))
    assert availability.merged(availability.decode(availability.encode(ranges))) == ranges


def auth(data: bytes) -> None:
    bookie_commands.parse_auth(data, 0, len(data))


# Pulsar frames


def use(event: object) -> None:
    if isinstance(event, Sends):
        run = event.run
        build_receipts(1, 0, run.heads, 0, len(run.heads))
        head_sequences(run.heads)
        run.ledger_id, run.first = 1, 0
        build_messages(1, run, 0, len(run.heads), None, None)
        batch_sizes(run.buf, run.spans)


def pulsar_requests(data: bytes) -> None:
    """In one piece and cut in two: the same frames come out."""
    whole = connected()
    events = whole.receive(data)
    for event in events:
        use(event)
    cut = connected()
    middle = len(data) // 2
    parts = cut.receive(data[:middle]) + cut.receive(data[middle:])
    assert (whole.failed is None) == (cut.failed is None)
    assert entries(events) == entries(parts)


def connected() -> Peer:
    peer = Peer(FRAME_MAX)
    peer.state = State.CONNECTED
    return peer


def entries(events: list[Any]) -> int:
    return sum(len(event.run.heads) for event in events if isinstance(event, Sends))


def pulsar_handshake(data: bytes) -> None:
    Peer(FRAME_MAX).receive(data)


def send_kernel(data: bytes) -> None:
    pos, _, run = take_sends(data, 0, len(data), FRAME_MAX)
    assert 0 <= pos <= len(data)
    if run is not None:
        use(Sends(run))


def ack_kernel(data: bytes) -> None:
    pos, _, _, positions = take_acks(data, 0, len(data))
    assert 0 <= pos <= len(data)
    assert len(positions) <= len(data)


def stored_entry(data: bytes) -> None:
    batches.read_metadata(data)
    found = batches.unpack_entry(data, 1 << 20)
    assert sum(len(m.value or b"") for m in found.messages) <= max(len(data), 1 << 20)


def seal_entry(data: bytes) -> bytes:
    """With the checksum that belongs to what follows it."""
    if len(data) < 6:
        return data
    return b"\x0e\x01" + struct.pack(">I", crc32c(data[6:])) + data[6:]


def compressed(data: bytes) -> None:
    if len(data) > 4:
        size = int.from_bytes(data[1:4], "big")
        unpacked = decompress(data[0] % 6, data[4:], size, 1 << 20)
        assert len(unpacked) == size or data[0] % 6 == 0  # 0: not compressed


# What lies on a bookie's disk

HEADER = journal_format.FileHeader(7, 0x1234_5678_9ABC_DEF0, 3)


def frames(ledger: int, first: int, sizes: list[int]) -> bytes:
    made = []
    for i, size in enumerate(sizes):
        head = struct.pack(">II20s", 56 + size, 0x02010000, KEY)
        made.append(head + struct.pack(">qqqq", ledger, first + i, first + i - 1, 0) + b"x" * size)
    return b"".join(made)


def journal_group(sequence: int, *more: journal_format.Record) -> bytes:
    adds = journal_format.Record(journal_format.Kind.ADDS, frames(1, sequence, [5, 0, 70]), 3)
    parts, _ = journal_format.encode_group(
        HEADER.file_id, HEADER.salt, sequence, [adds, journal_format.fence_record(1, KEY), *more]
    )
    return b"".join(parts)


LAC = bookie_v3.explicit_lac(1, 5, b"sums")


def journal_file(data: bytes) -> None:
    """Groups behind a good header, and what replay does with the records."""
    disk = FaultDisk()
    disk.makedirs("/d")
    file = disk.open("/d/j", create=True)
    file.pwritev([HEADER.encode(), data], 0)
    file.close()
    for group in read_groups(disk, "/d/j", HEADER, journal_format.BLOCK, 3):
        for record in group.records:
            journal_record(bytes((record.kind % 256,)) + bytes(record.body))


def seal_groups(data: bytes) -> bytes:
    """Good checksums of bodies and heads for the first group, if its numbers allow that."""
    if len(data) < 48:
        return data
    n = min(int.from_bytes(data[32:36], "big"), 64)
    start = 44 + 16 * n
    if start > len(data):
        return data
    descriptors, at = b"", start
    for i in range(n):
        kind, size, count, _ = struct.unpack_from(">IIII", data, 40 + 16 * i)
        descriptors += struct.pack(">IIII", kind, size, count, crc32c(data[at : at + size]))
        at += size
    head = journal_format.GROUP_MAGIC + struct.pack(
        ">QQQII", HEADER.file_id, HEADER.salt, 3, n, at & 0xFFFFFFFF
    )
    head += descriptors
    return head + struct.pack(">I", crc32c(head)) + data[start:]


def journal_record(data: bytes) -> None:
    kind, body = data[:1], data[1:]
    if kind == b"\1":
        for run in cut_frames(body):
            assert 0 <= run.start < run.stop <= len(body)
            assert all(run.end(i) - run.offsets[i] >= 16 for i in range(run.count))
    elif kind == b"\2":
        journal_format.decode_fence(body)
    elif kind == b"\3":
        lac_of(journal_format.decode_lac(body)[2])


def journal_heads(data: bytes) -> None:
    journal_format.decode_file_header(data)
    journal_format.decode_mark(data)
    size = journal_format.group_head_size(data, 0)
    assert size <= 17 << 20
    journal_format.group_file_id(data, 0)
    journal_format.decode_group_head(data, 0, HEADER)


def log_block(data: bytes) -> None:
    entry_log_format.decode_file_header(data)
    entry_log_format.head_size(data)
    entry_log_format.block_size(data)
    block = entry_log_format.decode_block(data)
    if block is not None:
        for entry_id in range(block.first, min(block.below, block.first + 1000)):
            entry = block.entry(entry_id)
            assert entry is not None
            assert len(entry) <= len(data)
        assert block.entry(block.below) is None


def seal_block(data: bytes) -> bytes:
    """Good checksums for what the head claims."""
    size = entry_log_format.head_size(data)
    if not size or size > len(data):
        return data
    magic, ledger_id, first, n, _, _ = struct.unpack_from(">4sqqIII", data)
    body = data[size:]
    head = struct.pack(">4sqqIII", magic, ledger_id, first, n, len(body), crc32c(body))
    head += data[32 : size - 4]
    return head + struct.pack(">I", crc32c(head)) + body


def a_block() -> bytes:
    run = next(iter(cut_frames(frames(4, 10, [3, 90, 0, 11]))))
    [block] = entry_log_format.blocks_of([Run(*_of(run))], 1 << 20)
    return b"".join(block.encode()[0])


def _of(run: Run) -> tuple[bytes, int, int, list[int], int, bytes]:
    return run.buf, run.ledger_id, run.first, run.offsets, run.stop, run.master_key


def manifest_file(data: bytes) -> None:
    state = manifest.decode(data, 1)
    assert state.size <= len(data)


def seal_manifest(data: bytes) -> bytes:
    """A good header, and good checksums for the records as far as their lengths go."""
    out, pos = manifest.encode_header(1), manifest.HEADER_BYTES
    while pos + 7 <= len(data):
        kind, size, _ = struct.unpack_from(">BHI", data, pos)
        body = data[pos + 7 : pos + 7 + size]
        out += struct.pack(">BHI", kind, len(body), crc32c(body, crc32c(bytes((kind,))))) + body
        pos += 7 + size
    return out


def a_manifest() -> bytes:
    ledger = LedgerRecord(3, 1, 17, 0, KEY, LAC)
    return b"".join(
        (
            manifest.encode_header(1),
            manifest.encode_ledger(ledger),
            manifest.encode_ledger(ledger._replace(ledger_id=4, deleted_ms=99, explicit_lac=b"")),
            manifest.encode_end(2, 8192),
            manifest.encode_limbo(),
            manifest.encode_forgotten(4),
        )
    )


# Metadata


def ledger_record(data: bytes) -> None:
    metadata = ledger_metadata.decode(data)
    if metadata.digest is not None and metadata.password is not None:
        assert ledger_metadata.decode(ledger_metadata.encode(metadata)) == metadata


def a_ledger(**changes: Any) -> bytes:
    segments = (
        ledger_metadata.Segment(0, ("a:1", "b:2", "c:3")),
        ledger_metadata.Segment(70, ("a:1", "d:4", "c:3")),
    )
    values: dict[str, Any] = {
        "ensemble_size": 3,
        "write_quorum": 3,
        "ack_quorum": 2,
        "segments": segments,
        "state": ledger_metadata.LedgerState.CLOSED,
        "last_entry": 99,
        "length": 12345,
        "digest": ledger_metadata.DigestType.CRC32C,
        "password": b"",
        "ctime_ms": 5,
        "custom": {"application": b"pulsar"},
        "ctoken": 7,
    }
    return ledger_metadata.encode(ledger_metadata.LedgerMetadata(**values | changes))


LEDGER_V2 = (
    b"BookieMetadataFormatVersion\t2\nquorumSize: 1\nensembleSize: 1\nlength: 5\nlastEntryId: 0\nstate: CLOSED\n"
    b'segment {\n  ensembleMember: "a:1"\n  firstEntryId: 0\n}\ndigestType: CRC32\npassword: "\\001x"\n'
    b'ackQuorumSize: 1\ncustomMetadata {\n  key: "k"\n  value: "v"\n}\n'
)
LEDGER_V1 = b"BookieMetadataFormatVersion\t1\n2\n2\n7\n0\ta:1\tb:2\n9\tCLOSED"


def text_record(data: bytes) -> None:
    fields = prototext.parse_text(data.decode("utf-8", "replace"), ("segment",))
    for values in fields.values():
        for value in values:
            if isinstance(value, bytes):
                assert prototext.unescape(prototext.escape(value)) == value


def record(kind: Any) -> Callable[[bytes], None]:
    """A stored record: what was read is written, and read and written again the same."""

    def run(data: bytes) -> None:
        written = kind.decode(data).encode()
        assert kind.decode(written).encode() == written

    return run


def registration(data: bytes) -> None:
    found = records.BookieRegistration.decode(data)
    found.http_url()
    found.address("host:3181")
    assert records.BookieRegistration.decode(found.encode()) == found


def racks(data: bytes) -> None:
    for bookie, rack in records.BookieRacks.decode(data).racks.items():
        assert isinstance(bookie, str)
        assert rack.startswith("/")


def namespace(data: bytes) -> None:
    policies = records.NamespacePolicies.decode(data)
    assert len(policies.bundles.ranges) <= records.BUNDLES_MAX
    assert isinstance(policies.replication_clusters, list)
    policies.encode()


def cursor_state(data: bytes) -> None:
    CursorState.decode(data)


def topic_seeds() -> list[bytes]:
    ledgers = [LedgerEntry(4, 10, 1000, 99, b""), LedgerEntry(9, 0, 0, 0, b"")]
    return [b"", TopicRecord(ledgers, Position(4, 9), {"k": "v"}).encode()]


def cursor_seeds() -> list[bytes]:
    state = CursorState(
        Position(4, 5),
        [(Position(4, 7), Position(4, 9)), (Position(5, 0), Position(9, 1))],
        {Position(4, 10): 0b1011},
        {"p": 4},
    )
    return [CursorRecord(-1, state, 9, {"a": "b"}).encode(), CursorRecord(12, state).encode()]


def snapshot_seeds() -> list[bytes]:
    info = mledger_pb2.PositionInfo(ledgerId=4, entryId=5)
    put_common(info, {"p": 4}, {Position(4, 10): 0b1011})
    plain = info.SerializeToString()
    one = info.individualDeletedMessages.add()
    one.lowerEndpoint.ledgerId, one.lowerEndpoint.entryId = 4, 6
    one.upperEndpoint.ledgerId, one.upperEndpoint.entryId = 4, 9
    info.individualDeletedMessageRanges.add(key=5, values=[3, 1 << 62])
    return [plain, info.SerializeToString()]


JSON = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"null",
    b"-1",
    b"1e999",
    b"NaN",
    b"9" * 40,
    b"true",
    b"0.5",
    b"[" * 3000,
]
JSON_SEEDS = {
    records.Tenant: [b'{"adminRoles":["adm"],"allowedClusters":["standalone"]}'],
    records.Cluster: [b'{"brokerServiceUrl":"pulsar://h:1","brokerClientTlsEnabled":false}'],
    records.LocalPolicies: [
        b'{"bundles":{"boundaries":["0x00000000","0xffffffff"],"numBundles":1},"migrated":false}',
        b'{"bundles":{"numBundles":4}}',
    ],
    records.PartitionedTopic: [b'{"partitions":3,"deleted":false,"properties":{"a":"b"}}'],
    records.BundleOwner: [
        b'{"nativeUrl":"pulsar://h:1","httpUrl":"http://h:2","disabled":false,"advertisedListeners":{}}'
    ],
    records.LoadReport: [b'{"webServiceUrl":"http://h:1","numTopics":3,"lastStats":{}}'],
    records.Leader: [b'{"brokerId":"h:1","serviceUrl":"http://h:1"}'],
}
COOKIE = b'5\nbookieHost: "127.0.0.1:1"\njournalDir: "/a"\nledgerDirs: "1\\t/b"\ninstanceId: "97d9-\\001"\n'
REGISTRATION = bytes.fromhex(
    "32230a06626f6f6b696510b390011a093132372e302e302e31220a626f6f6b69652d727063"
)
STREAMS = recorded("C>B")

TARGETS: tuple[Target, ...] = (
    Target(
        "bookie requests",
        bookie_requests,
        golden("bookkeeper_v2.jsonl", "request") + golden("bookkeeper_v3.jsonl", "request"),
        (BookieFrameError,),
    ),
    Target(
        "bookie V3 requests",
        v3_request,
        golden("bookkeeper_v3.jsonl", "request"),
        (BookieFrameError,),
    ),
    Target(
        "bookie V2 replies",
        bookie_replies,
        golden("bookkeeper_v2.jsonl", "response"),
        (BookieFrameError,),
    ),
    Target(
        "bookie V3 responses",
        v3_response,
        golden("bookkeeper_v3.jsonl", "response"),
        (BookieFrameError, availability.AvailabilityError),
    ),
    Target(
        "bookie auth", auth, golden("bookkeeper_v2.jsonl", "response")[-1:], (BookieFrameError,)
    ),
    Target(
        "lists of entries",
        entry_list,
        [availability.encode([(0, 4), (10, 11), (13, 14), (99, 99)])],
        (availability.AvailabilityError,),
    ),
    Target("Pulsar requests", pulsar_requests, [*STREAMS, b"".join(STREAMS[:30])]),
    Target("Pulsar handshake", pulsar_handshake, STREAMS[:3]),
    Target("SEND kernel", send_kernel, [s for s in STREAMS if s[8:9] == b"\x08"][:60]),
    Target("ACK kernel", ack_kernel, [s for s in STREAMS if s[8:11] == b"\x08\x0a\x52"][:20]),
    Target("Pulsar frames of a broker", pulsar_requests, recorded("B>C")[:200]),
    Target(
        "batches",
        stored_entry,
        [e for s in STREAMS for e in [s[s.find(b"\x0e\x01") :]] if e[:2] == b"\x0e\x01"][:60],
        (batches.BatchFormatError,),
        seal_entry,
    ),
    Target(
        "compressed payloads",
        compressed,
        [bytes((kind, 0, 0, 40)) + b"abcdefgh" * 5 for kind in range(6)],
        (CompressionError,),
    ),
    Target(
        "journal files",
        journal_file,
        [
            journal_group(3) + journal_group(4, journal_format.lac_record(1, KEY, LAC)),
            journal_group(3),
        ],
        (JournalDamagedError, ValueError),
        seal_groups,
    ),
    Target(
        "journal records",
        journal_record,
        [
            b"\1" + frames(1, 0, [4, 4]) + frames(2, 9, [1]),
            b"\2" + bytes(journal_format.fence_record(1, KEY).body),
            b"\3" + bytes(journal_format.lac_record(1, KEY, LAC).body),
        ],
        (ValueError,),
    ),
    Target(
        "journal heads",
        journal_heads,
        [HEADER.encode(), journal_format.Mark(1, 2, 3).encode(), journal_group(3)],
    ),
    Target(
        "entry log blocks",
        log_block,
        [a_block(), entry_log_format.encode_file_header(9)],
        (),
        seal_block,
    ),
    Target("manifests", manifest_file, [a_manifest()], (DamagedError,), seal_manifest),
    Target(
        "ledger metadata",
        ledger_record,
        [
            a_ledger(),
            a_ledger(state=ledger_metadata.LedgerState.OPEN, last_entry=-1, length=0),
            LEDGER_V2,
            LEDGER_V1,
        ],
        (MetadataFormatError,),
        words=[b"CLOSED", b"segment {", b"}\n", b"-102", b'"\\777"', b"9" * 40],
    ),
    Target("text records", text_record, [LEDGER_V2[30:], COOKIE[2:]], (ValueError,)),
    Target(
        "cookies",
        record(records.Cookie),
        [COOKIE],
        (RecordFormatError,),
        words=[b'"\\x4"', b'"\\777"', b"ledgerDirs:", b"{", b"7"],
    ),
    Target("bookie registrations", registration, [REGISTRATION], (RecordFormatError,)),
    Target(
        "bookie racks",
        racks,
        [b'{"g":{"h:1":{"rack":"r1","hostname":"h"}}}'],
        (RecordFormatError,),
        words=JSON,
    ),
    Target(
        "namespace policies",
        namespace,
        [b'{"bundles":{"numBundles":4},"replication_clusters":["c"],"deleted":true}'],
        (RecordFormatError,),
        words=JSON,
    ),
    *(
        Target(kind.__name__, record(kind), seeds, (RecordFormatError,), words=JSON)
        for kind, seeds in JSON_SEEDS.items()
    ),
    Target("topic records", record(TopicRecord), topic_seeds(), (ManagedFormatError,)),
    Target("cursor records", record(CursorRecord), cursor_seeds(), (ManagedFormatError,)),
    Target("cursor snapshots", cursor_state, snapshot_seeds(), (ManagedFormatError,)),
)
