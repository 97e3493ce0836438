"""Parsers of what lies in the metadata store and in cursor ledgers."""

import json
from collections.abc import Callable
from typing import Any

from engine.base.ids import Position
from engine.base.names import NamespaceName
from engine.ledger import ledger_metadata
from engine.ledger.errors import MetadataFormatError
from engine.managed.errors import StoredRecordError
from engine.managed.positions import LedgerSpan
from engine.managed.stored.records import CursorRecord, CursorState, LogRecord, put_common
from engine.metadata import records
from engine.metadata.protobuf import prototext
from engine.metadata.records import RecordFormatError, encode_json
from engine.metadata.server.codec import UnknownRequestError, decode_connect, decode_request
from engine.metadata.server.jute import JuteError
from engine.ownership.load.recent_moves import RecentMoves
from engine.ownership.load.report import decode_report
from engine.ownership.owner import OwnerRecord
from engine.ownership.registration import BrokerRecord
from engine.tenancy.bundles import Bundles
from engine.wire import (
    mledger_pb2,
)
from tests.fuzz.target import GOLDEN, Target
from tests.support.zookeeper.client_codec import encode_connect_request, encode_request


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
    """Return a check that records of ``kind`` that can be decoded are the same after they are encoded and decoded."""

    def run(data: bytes) -> None:
        written = kind.decode(data).encode()
        assert kind.decode(written).encode() == written

    return run


def registration(data: bytes) -> None:
    decoded = records.BookieRegistration.decode(data)
    decoded.http_url()
    decoded.address("host:3181")
    assert records.BookieRegistration.decode(decoded.encode()) == decoded


def racks(data: bytes) -> None:
    for bookie, rack in records.BookieRacks.decode(data).racks.items():
        assert isinstance(bookie, str)
        assert rack.startswith("/")


def cursor_state(data: bytes) -> None:
    CursorState.decode(data)


def topic_seeds() -> list[bytes]:
    ledgers = [LedgerSpan(4, 10, 1000, 99, b""), LedgerSpan(9, 0, 0, 0, b"")]
    return [b"", LogRecord(ledgers, Position(4, 9), {"k": "v"}).encode()]


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
    deleted = info.individualDeletedMessages.add()
    deleted.lowerEndpoint.ledgerId, deleted.lowerEndpoint.entryId = 4, 6
    deleted.upperEndpoint.ledgerId, deleted.upperEndpoint.entryId = 4, 9
    info.individualDeletedMessageRanges.add(key=5, values=[3, 1 << 62])
    return [plain, info.SerializeToString()]


def bundles(data: bytes) -> None:
    decoded = Bundles.decode(NamespaceName.parse("t/n"), data)
    if decoded is not None:
        assert decoded.of_hash(0).lower == 0
        decoded.of_hash(0xFFFFFFFF)


def bytes_of(data: bytes) -> None:
    assert isinstance(data, bytes)


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
COOKIE = b'5\nbookieHost: "127.0.0.1:1"\njournalDir: "/a"\nledgerDirs: "1\\t/b"\ninstanceId: "97d9-\\001"\n'
REGISTRATION = bytes.fromhex(
    "32230a06626f6f6b696510b390011a093132372e302e302e31220a626f6f6b69652d727063"
)


def zookeeper_request(data: bytes) -> None:
    xid, request = decode_request(data)
    again = encode_request(xid, request)
    assert decode_request(again[4:]) == (xid, request)


def zookeeper_connect_request(data: bytes) -> None:
    request = decode_connect(data)
    assert decode_connect(encode_connect_request(request)[4:]) == request


def zookeeper_seeds(connect: bool) -> list[bytes]:
    """Return recorded requests; ``connect``: the first ones of connections."""
    lines = (GOLDEN / "metadata" / "zookeeper_frames.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "request" in row]
    return [bytes.fromhex(row["request"]) for row in rows if (row["op"] == "CONNECT") == connect]


METADATA: tuple[Target, ...] = (
    Target(
        "ZooKeeper requests",
        zookeeper_request,
        zookeeper_seeds(connect=False),
        (JuteError, UnknownRequestError),
        words=[b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x0e"],
    ),
    Target(
        "ZooKeeper connect requests",
        zookeeper_connect_request,
        zookeeper_seeds(connect=True),
        (JuteError,),
    ),
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
    Target("topic records", record(LogRecord), topic_seeds(), (StoredRecordError,)),
    Target("cursor records", record(CursorRecord), cursor_seeds(), (StoredRecordError,)),
    Target("cursor snapshots", cursor_state, snapshot_seeds(), (StoredRecordError,)),
    Target(
        "bundles of a namespace",
        bundles,
        [b'{"bundles":{"boundaries":["0x00000000","0x80000000","0xffffffff"],"numBundles":2}}'],
        (ValueError,),
        words=JSON,
    ),
    Target(
        "bundle owners",
        lambda data: bytes_of(OwnerRecord.decode(data).encode()),
        [
            b'{"nativeUrl":"pulsar://h:1","httpUrl":"http://h:2","disabled":false,"advertisedListeners":{}}'
        ],
        (ValueError,),
        words=JSON,
    ),
    Target(
        "broker reports",
        lambda data: bytes_of(BrokerRecord.decode("h:1", data).encode()),
        [b'{"pulsarServiceUrl":"pulsar://h:1","webServiceUrl":"http://h:2","startTimestamp":5}'],
        (ValueError,),
        words=JSON,
    ),
    Target(
        "loads in broker reports",
        lambda data: bytes_of(encode_json(decode_report("h:1", data).document())),
        [
            b'{"cpu":{"usage":5.0,"limit":100.0},"lastUpdate":5,"lastStats":{"t/n/0x00000000_0x80000000":'
            b'{"msgRateIn":1.0,"msgThroughputIn":1.0,"msgRateOut":1.0,"msgThroughputOut":1.0,'
            b'"consumerCount":1,"producerCount":1,"topics":1}},"numBundles":1,'
            b'"bundles":["t/n/0x00000000_0x80000000"],"hotTopics":{}}'
        ],
        (),
        words=JSON,
    ),
    Target(
        "moves of bundles",
        lambda data: bytes_of(RecentMoves.decode(data).encode()),
        [
            b'{"leader":"h:1","cycleMs":5,"moves":[{"bundle":"t/n/0x00000000_0x80000000","source":"a:1",'
            b'"destination":"b:1","reason":"r","atMs":5,"result":"moved"}]}'
        ],
        (ValueError,),
        words=JSON,
    ),
)
