"""Every kind of bookie frame, V2 and V3, both ways, against bytes recorded from Apache BookKeeper 4.17.2 or computed by
hand (``tests/golden/bookkeeper_v*.jsonl``, ``source``): parsed and built again, and as a conversation with a bookie."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.wire import availability
from engine.wire import bookie_commands as v2
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb
from engine.wire.kernels import NEED, take_add_replies, take_read_replies
from tests.support.bookies import Machine

GOLDEN = Path(__file__).parents[1]


def rows(name: str) -> list[dict[str, Any]]:
    lines = (GOLDEN / name).read_text().splitlines()
    return [json.loads(line) for line in lines]


V2 = rows("bookkeeper_v2.jsonl")
V3 = rows("bookkeeper_v3.jsonl")


def note(row: dict[str, Any]) -> str:
    return str(row["note"])


def is_v3(row: dict[str, Any]) -> bool:
    return bytes.fromhex(row["request"])[4] == 0x0A


@pytest.mark.parametrize("row", [r for r in V2 if r["response"] != "connection closed"], ids=note)
def test_v2_frames_are_parsed_and_built_to_the_same_bytes(row: dict[str, Any]) -> None:
    request, reply = bytes.fromhex(row["request"]), bytes.fromhex(row["response"])
    asked = v2.parse_request(request, 0, len(request))
    built = {
        v2.AddRequest: rebuilt_add,
        v2.ReadRequest: rebuilt_read,
        v2.BatchReadRequest: rebuilt_batch,
        v2.AuthRequest: rebuilt_auth,
    }[type(asked)](asked, reply)
    if asked.version == v2.VERSION:
        assert built[0] == request
    assert built[1] == reply


def rebuilt_add(asked: v2.AddRequest, reply: bytes) -> tuple[bytes, bytes]:
    if asked.version == v2.VERSION:
        end, why, answers = take_add_replies(reply, 0, len(reply))
        assert (end, why) == (len(reply), NEED)
        [(rc, ledger_id, entry_id, count)] = answers
        assert (ledger_id, entry_id, count) == (asked.ledger_id, asked.entry_id, 1)
    else:
        rc = int.from_bytes(reply[8:12], "big")
    return (
        v2.add_request(asked.ledger_id, asked.entry_id, asked.master_key, asked.entry, asked.flags),
        v2.add_reply(rc, asked.ledger_id, asked.entry_id, asked.version),
    )


def rebuilt_read(asked: v2.ReadRequest, reply: bytes) -> tuple[bytes, bytes]:
    rc, entry = int.from_bytes(reply[8:12], "big"), reply[28:]
    if asked.version == v2.VERSION:
        end, why, answers = take_read_replies(reply, 0, len(reply))
        assert (end, why) == (len(reply), NEED)
        assert answers == [(rc, asked.ledger_id, asked.entry_id, 28, len(reply))]
    return (
        v2.read_request(
            asked.ledger_id, asked.entry_id, flags=asked.flags, master_key=asked.master_key
        ),
        v2.read_reply(rc, asked.ledger_id, asked.entry_id, entry, asked.version),
    )


def rebuilt_batch(asked: v2.BatchReadRequest, reply: bytes) -> tuple[bytes, bytes]:
    answer = v2.parse_batch_read_reply(reply, 0, len(reply))
    spans = iter(answer.spans)
    entries = [reply[a:b] for a, b in zip(spans, spans, strict=True)]
    return (
        v2.batch_read_request(
            asked.ledger_id,
            asked.first_entry,
            asked.request_id,
            asked.count_max,
            asked.bytes_max,
        ),
        b"".join(
            v2.batch_read_reply(
                answer.rc, answer.ledger_id, answer.first_entry, answer.request_id, entries
            )
        ),
    )


def rebuilt_auth(asked: v2.AuthRequest, reply: bytes) -> tuple[bytes, bytes]:
    plugin, payload = v2.parse_auth(reply, 0, len(reply))
    assert plugin == v2.AUTH_DISABLED
    return v2.auth_message(asked.plugin, asked.payload), v2.auth_message(plugin, payload)


def rebuilt_v3_request(r: pb.Request) -> bytes | None:
    """Build the request again with the builder of its kind; None when no builder makes it."""
    txn, priority = r.header.txnId, r.header.priority
    if r.header.version != v3.VERSION:
        return None
    if r.HasField("addRequest"):
        add = r.addRequest
        return v3.add_request(
            txn,
            add.ledgerId,
            add.entryId,
            add.masterKey,
            add.body,
            recovery=add.HasField("flag"),
            write_flags=add.writeFlags,
            priority=priority,
        )
    if r.HasField("readRequest"):
        read = r.readRequest
        fences = read.HasField("flag") and read.flag == pb.ReadRequest.FENCE_LEDGER
        if fences and not read.HasField("masterKey"):
            return None
        return v3.read_request(
            txn,
            read.ledgerId,
            read.entryId,
            fence_key=read.masterKey if fences else None,
            previous_lac=read.previousLAC if read.HasField("previousLAC") else None,
            timeout_ms=read.timeOut if read.HasField("timeOut") else None,
            piggyback=read.HasField("flag") and not fences,
            priority=priority,
        )
    if r.HasField("writeLacRequest"):
        write = r.writeLacRequest
        return v3.write_lac_request(txn, write.ledgerId, write.lac, write.masterKey, write.body)
    if r.HasField("readLacRequest"):
        return v3.read_lac_request(txn, r.readLacRequest.ledgerId)
    if r.HasField("forceLedgerRequest"):
        return v3.force_request(txn, r.forceLedgerRequest.ledgerId)
    if r.HasField("getBookieInfoRequest"):
        return v3.info_request(txn, r.getBookieInfoRequest.requested)
    if r.HasField("getListOfEntriesOfLedgerRequest"):
        return v3.entries_request(txn, r.getListOfEntriesOfLedgerRequest.ledgerId)
    if r.HasField("authRequest"):
        return v3.auth_request(txn, r.authRequest.authPluginName, r.authRequest.payload)
    return v3.start_tls_request(txn) if r.HasField("startTLSRequest") else None


def rebuilt_v3_reply(request: pb.Request, reply: pb.Response) -> bytes:
    code = v3.code(reply.status)
    if reply.HasField("addResponse"):
        return v3.add_reply(request, code)
    if reply.HasField("readResponse"):
        read = reply.readResponse
        return v3.read_reply(
            request,
            code,
            read.body if read.HasField("body") else None,
            entry_id=read.entryId,
            max_lac=read.maxLAC if read.HasField("maxLAC") else None,
        )
    if reply.HasField("writeLacResponse"):
        return v3.write_lac_reply(request, code)
    if reply.HasField("readLacResponse"):
        lac = reply.readLacResponse
        last = lac.lastEntryBody if lac.HasField("lastEntryBody") else None
        return v3.read_lac_reply(request, code, lac.lacBody, last)
    if reply.HasField("forceLedgerResponse"):
        return v3.force_reply(request, code)
    if reply.HasField("getBookieInfoResponse"):
        info = reply.getBookieInfoResponse
        return v3.info_reply(request, code, info.totalDiskCapacity, info.freeDiskSpace)
    if reply.HasField("getListOfEntriesOfLedgerResponse"):
        held = reply.getListOfEntriesOfLedgerResponse
        ranges = availability.decode(held.availabilityOfEntriesOfLedger) if code == 0 else []
        return v3.entries_reply(request, code, availability.encode(ranges) if code == 0 else None)
    if reply.HasField("authResponse"):
        return v3.auth_disabled_reply(request)
    return v3.refusal(request, code)


@pytest.mark.parametrize("row", [r for r in V3 if is_v3(r)], ids=note)
def test_v3_frames_are_parsed_and_built_to_the_same_bytes(row: dict[str, Any]) -> None:
    request, reply = bytes.fromhex(row["request"]), bytes.fromhex(row["response"])
    asked = v3.parse_request(request, 0, len(request))
    assert rebuilt_v3_request(asked) in (request, None)
    assert rebuilt_v3_reply(asked, v3.parse_response(reply, 0, len(reply))) == reply


def test_the_golden_frames_hold_every_kind_both_ways() -> None:
    asked = [v3.parse_request(b, 0, len(b)) for r in V3 if is_v3(r) for b in [frame(r, "request")]]
    kinds = {request.header.operation for request in asked}
    assert kinds == set(pb.OperationType.values()) - {pb.RANGE_ADD_ENTRY}
    built = {request.header.operation for request in asked if rebuilt_v3_request(request)}
    assert built == kinds - {pb.RANGE_READ_ENTRY, pb.BATCH_READ_ENTRY}
    opcodes = {frame(r, "request")[5] for r in V2 if r["response"] != "connection closed"}
    assert opcodes == {v2.ADD, v2.READ, v2.AUTH, v2.BATCH_READ}


def frame(row: dict[str, Any], side: str) -> bytes:
    return bytes.fromhex(row[side])


async def test_a_bookie_answers_every_v3_frame_as_recorded() -> None:
    async with Machine() as machine:
        client = await machine.client()
        for row in V3:
            answer = await client.ask(frame(row, "request"))
            if row["note"] == "GET_BOOKIE_INFO":
                info = v3.parse_response(answer, 0, len(answer)).getBookieInfoResponse
                assert info.status == pb.EOK
                assert 0 < info.freeDiskSpace <= info.totalDiskCapacity
                assert info.totalDiskCapacity == machine.disk.capacity_bytes
            else:
                assert answer.hex() == row["response"], row["note"]
        await client.close()


def test_lists_of_entries_of_striped_ledgers_are_decoded_as_encoded() -> None:
    striped = [(start, start + 1) for start in range(10, 100, 3)]
    for ranges in ([], [(0, 0)], [(3, 9)], striped, [(0, 4), *striped, (200, 300)], [(0, 1 << 33)]):
        data = availability.encode(ranges)
        assert availability.merged(availability.decode(data)) == ranges
    assert len(availability.encode(striped)) == 64 + 24
    assert availability.merged([(5, 9), (0, 2), (3, 4), (8, 12), (20, 20)]) == [(0, 12), (20, 20)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(63),
        b"\0\0\0\1" + bytes(60),
        b"\0\0\0\0\x7f\xff\xff\xff" + bytes(56),
        b"\0\0\0\0\0\0\0\1" + bytes(56) + bytes(24),
        b"\0\0\0\0\0\0\0\1" + bytes(56) + b"\0" * 8 + b"\x7f" * 8 + b"\0\0\0\1" * 2,
    ],
)
def test_invalid_lists_of_entries_are_refused(data: bytes) -> None:
    with pytest.raises(availability.AvailabilityError):
        availability.decode(data)
