"""The same frames to a bookie of Apache's and to one of ours: every answer must be the same, byte for byte.

Ledgers here exist for the bookies alone. What is no promise (disk sizes, times) is taken out of the answers before.
"""

import asyncio
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.ledger.digest import Digest, DigestType
from engine.wire import bookie_commands as v2
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb
from tests.oracle.servers import ApacheBookies, OurBookies

pytestmark = [pytest.mark.slow]

GOLDEN = Path(__file__).parents[1] / "golden" / "wire" / "bookie_answers.json"
KEY, OTHER_KEY = bytes.fromhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f"), b"x" * 20
SILENCE_S = 1.5
Row = tuple[str, bytes]
DIGEST = Digest(DigestType.CRC32C, b"")


def entry(ledger: int, number: int, payload: bytes = b"hello", lac: int | None = None) -> bytes:
    """Return a stored entry."""
    before = number - 1 if lac is None else lac
    head = struct.pack(">qqqq", ledger, number, before, 5 * (number + 1))
    return head + DIGEST.compute(head, payload) + payload


def add(ledger: int, number: int, *, key: bytes = KEY, flags: int = 0, text: bytes = b"") -> bytes:
    return v2.add_request(ledger, number, key, entry(ledger, number, text or b"hello"), flags)


def read(ledger: int, number: int, *, fence: bytes | None = None, flags: int = 0) -> bytes:
    flags |= v2.DO_FENCING if fence is not None else 0
    return v2.read_request(ledger, number, flags=flags, master_key=fence)


def batch(ledger: int, first: int, count: int, size: int) -> bytes:
    return v2.batch_read_request(ledger, first, 99, count, size)


def old(frame: bytes, version: int) -> bytes:
    """Return the frame with another version."""
    return frame[:4] + bytes([version]) + frame[5:]


def v2_conversations() -> Iterator[list[Row]]:
    first, second, third = 0x7A000001, 0x7A000002, 0x7A000003
    yield [
        ("read, unknown ledger", read(first, 0)),
        ("read last, unknown ledger", read(first, -1)),
        ("batch read, unknown ledger", batch(first, 0, 5, 0)),
        ("add 0", add(first, 0)),
        ("add 1", add(first, 1)),
        ("read 0", read(first, 0)),
        ("read last", read(first, -1)),
        ("read what is not there", read(first, 2)),
        ("add with another key", add(first, 2, key=OTHER_KEY)),
        ("add 1 again", add(first, 1)),
        ("add 7, with a gap", add(first, 7)),
        ("read last after a gap", read(first, -1)),
        ("read in the gap", read(first, 4)),
        ("batch read up to the gap", batch(first, 0, 10, 0)),
        ("batch read of one", batch(first, 0, 1, 0)),
        ("batch read without a count", batch(first, 0, 0, 100_000)),
        ("batch read of few bytes: one entry", batch(first, 0, 10, 1)),
        ("batch read of bytes for two", batch(first, 0, 10, 36 + 2 * 45)),
        ("batch read in the gap", batch(first, 3, 10, 0)),
        ("an empty entry", v2.add_request(first, 8, KEY, entry(first, 8, b""))),
        ("read the empty entry", read(first, 8)),
    ]
    yield [
        ("add 0", add(second, 0)),
        ("fence with another key", read(second, -1, fence=OTHER_KEY)),
        ("add after that", add(second, 1)),
        ("fence and read last", read(second, -1, fence=KEY)),
        ("add to a fenced ledger", add(second, 2)),
        ("recovery read", read(second, 1, fence=KEY, flags=v2.HIGH_PRIORITY)),
        ("recovery read of nothing", read(second, 2, fence=KEY, flags=v2.HIGH_PRIORITY)),
        ("recovery add", add(second, 2, flags=v2.RECOVERY_ADD | v2.HIGH_PRIORITY)),
        ("recovery add with another key", add(second, 3, key=OTHER_KEY, flags=v2.RECOVERY_ADD)),
        ("read last", read(second, -1)),
    ]
    yield [
        ("fence an unknown ledger", read(third, -1, fence=KEY)),
        ("add to it", add(third, 0)),
        ("recovery add to it", add(third, 0, flags=v2.RECOVERY_ADD)),
        ("read it", read(third, 0)),
    ]
    yield [
        ("version 1 add", old(add(third + 1, 0), 1)),
        ("version 1 read", old(read(third + 1, 0), 1)),
        ("version 3 add", old(add(third + 1, 1), 3)),
        ("version 3 read", old(read(third + 1, 0), 3)),
        ("authentication", v2.auth_message("some plugin", b"secret")),
    ]
    yield [("unknown operation", struct.pack(">II", 4, 0x02630000))]
    yield [("operation 4", struct.pack(">IIqq", 20, 0x02040000, first, 0))]
    yield [("fencing without a key", struct.pack(">IIqq", 20, 0x02020001, first, -1))]
    yield [("a frame of nothing", struct.pack(">I", 0))]


def head(operation: int, txn: int = 7, version: int = 3) -> "pb.BKPacketHeader":
    return pb.BKPacketHeader(version=version, operation=operation, txnId=txn)  # type: ignore[arg-type]


def v3_conversations() -> Iterator[list[Row]]:
    first, second, third = 0x7B000001, 0x7B000002, 0x7B000003
    blob = struct.pack(">qq", first, 1)
    lac = blob + DIGEST.compute(blob, b"")
    yield [
        ("read, unknown ledger", v3.read_request(1, first, 0)),
        ("read last, unknown ledger", v3.read_request(2, first, -1)),
        ("read LAC, unknown ledger", v3.read_lac_request(3, first)),
        ("add 0", v3.add_request(4, first, 0, KEY, entry(first, 0))),
        ("add 1", v3.add_request(5, first, 1, KEY, entry(first, 1))),
        ("add with another key", v3.add_request(6, first, 2, OTHER_KEY, entry(first, 2))),
        ("read 0", v3.read_request(7, first, 0)),
        ("read last", v3.read_request(8, first, -1)),
        ("read what is not there", v3.read_request(9, first, 9)),
        ("read LAC, none written", v3.read_lac_request(10, first)),
        ("write LAC", v3.write_lac_request(11, first, 1, KEY, lac)),
        ("write LAC with another key", v3.write_lac_request(12, first, 1, OTHER_KEY, lac)),
        ("read LAC", v3.read_lac_request(13, first)),
        ("read 1 tells the LAC", v3.read_request(14, first, 1)),
        ("force", v3.force_request(15, first)),
        ("V3 reads what V2 added", v3.read_request(16, 0x7A000001, 1)),
    ]
    yield [
        ("add 0", v3.add_request(20, second, 0, KEY, entry(second, 0))),
        ("add 1", v3.add_request(21, second, 1, KEY, entry(second, 1))),
        (
            "wait for what is known",
            v3.read_request(22, second, -1, previous_lac=-1, timeout_ms=100),
        ),
        (
            "wait for what is known, with the entry",
            v3.read_request(23, second, -1, previous_lac=-1, timeout_ms=100, piggyback=True),
        ),
        ("wait in vain", v3.read_request(24, second, -1, previous_lac=0, timeout_ms=100)),
        (
            "wait in vain, with the entry",
            v3.read_request(25, second, -1, previous_lac=0, timeout_ms=100, piggyback=True),
        ),
        ("fence with another key", v3.read_request(26, second, -1, fence_key=OTHER_KEY)),
        ("fence", v3.read_request(27, second, -1, fence_key=KEY, priority=100)),
        ("add to a fenced ledger", v3.add_request(28, second, 2, KEY, entry(second, 2))),
        ("recovery add", v3.add_request(29, second, 2, KEY, entry(second, 2), recovery=True)),
        ("recovery read of nothing", v3.read_request(30, second, 3, fence_key=KEY)),
        ("force a fenced ledger", v3.force_request(31, second)),
    ]
    yield [
        ("fence an unknown ledger", v3.read_request(40, third, -1, fence_key=KEY)),
        ("add to it", v3.add_request(41, third, 0, KEY, entry(third, 0))),
    ]
    yield [
        ("authentication", v3.auth_request(50, "some plugin", b"secret")),
        ("disk sizes", v3.info_request(51)),
        ("nothing of the sizes", v3.info_request(52, 0)),
        ("TLS", v3.start_tls_request(53)),
        ("an operation never built", v3.frame(pb.Request(header=head(pb.RANGE_READ_ENTRY)))),
        (
            "another version",
            v3.frame(
                pb.Request(
                    header=head(pb.READ_ENTRY, version=2),
                    readRequest=pb.ReadRequest(ledgerId=first, entryId=0),
                )
            ),
        ),
        ("V2 after V3", read(0x7A000001, 1)),
    ]
    yield [("list of entries", v3.entries_request(60, first))]


DIFFERENT = {
    "list of entries": "Apache's default storage has no such list and leaves the client without an answer"
}
"""Notes of answers that differ, and why."""


async def talk(port: int, rows: list[Row]) -> list[str]:
    """Return the answers in hexadecimal, ``silent`` without one, ``closed`` for the last when the bookie closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers: list[str] = []
    try:
        for _, request in rows:
            writer.write(request)
            try:
                async with asyncio.timeout(SILENCE_S):
                    size = await reader.readexactly(4)
                    body = await reader.readexactly(int.from_bytes(size, "big"))
            except TimeoutError:
                answers.append("silent")
            except (asyncio.IncompleteReadError, ConnectionResetError):
                answers.append("closed")
                break
            else:
                answers.append(steady(size + body).hex())
    finally:
        writer.close()
    return answers


def steady(frame: bytes) -> bytes:
    """Return a frame without the time a LAC was updated, and with fixed sizes of disks."""
    if not v2.is_v3(frame, 0):
        return frame
    response = v3.parse_response(frame, 0, len(frame))
    if response.readResponse.HasField("lacUpdateTimestamp"):
        response.readResponse.lacUpdateTimestamp = 1
    info = response.getBookieInfoResponse
    for name in ("totalDiskCapacity", "freeDiskSpace"):
        if info.HasField(name):
            assert getattr(info, name) > 1 << 20
            setattr(info, name, 1)
    changed = v3.frame(response)
    return changed


async def test_every_answer_is_the_same(
    our_bookies: OurBookies, apache_bookies: ApacheBookies
) -> None:
    recorded = []
    different = []
    apache_port = int(apache_bookies.each[0].id.rpartition(":")[2])
    for conversation in (*v2_conversations(), *v3_conversations()):
        theirs, mine = await asyncio.gather(
            talk(apache_port, conversation), talk(our_bookies.each[0].port, conversation)
        )
        rows = zip(conversation, theirs, strict=False)
        recorded.append(
            [
                {"note": note, "request": request.hex(), "answer": answer}
                for (note, request), answer in rows
                if note not in DIFFERENT
            ]
        )
        for (note, request), his, ours in zip(conversation, theirs, mine, strict=False):
            if (his != ours) != (note in DIFFERENT):
                different.append(f"{note}: {request.hex()}\n  Apache {his}\n  ours   {ours}")
    if "ORACLE_RECORD" in os.environ:
        GOLDEN.write_text(json.dumps(recorded, indent=1) + "\n")
    assert not different, "\n".join(different)
