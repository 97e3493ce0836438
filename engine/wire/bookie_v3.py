"""BookKeeper V3 frames, one at a time: u32 length | protobuf Request or Response (``bookkeeper.proto``). Pure.

A V3 request begins with byte 0x0A, which no V2 frame does (``bookie_commands.is_v3``), so both kinds may be mixed on
one connection. Answers are matched with requests by transaction id. Every answer has its status twice, outside and in
the operation's own message; refusals of unknown operations only outside.
"""

from collections.abc import Iterable
from typing import Final

from google.protobuf.message import DecodeError

from engine.wire import bookkeeper_pb2 as pb
from engine.wire.bookie_commands import AUTH_DISABLED, BookieFrameError, ResultCode

VERSION = pb.VERSION_THREE
HIGH_PRIORITY: Final = 100
"""Priority of recovery traffic of Apache's clients; anything above 0 is high."""
DEFERRED_SYNC: Final = 1
"""Bit of an add's write flags: the answer may be sent before the sync."""
TOTAL_DISK: Final = pb.GetBookieInfoRequest.TOTAL_DISK_CAPACITY
FREE_DISK: Final = pb.GetBookieInfoRequest.FREE_DISK_SPACE

_STATUS: Final = {
    ResultCode.EOK: pb.EOK,
    ResultCode.ENOLEDGER: pb.ENOLEDGER,
    ResultCode.ENOENTRY: pb.ENOENTRY,
    ResultCode.EBADREQ: pb.EBADREQ,
    ResultCode.EIO: pb.EIO,
    ResultCode.EUA: pb.EUA,
    ResultCode.EBADVERSION: pb.EBADVERSION,
    ResultCode.EFENCED: pb.EFENCED,
    ResultCode.EREADONLY: pb.EREADONLY,
    ResultCode.ETOOMANYREQUESTS: pb.ETOOMANYREQUESTS,
    ResultCode.EUNKNOWNLEDGERSTATE: pb.EUNKNOWNLEDGERSTATE,
}
_CODE: Final = {int(status): code for code, status in _STATUS.items()}


def status(code: int) -> "pb.StatusCode":
    """Return V3's number for a V2 result code."""
    return _STATUS[ResultCode(code)]


def code(status: int) -> ResultCode:
    """Return the V2 result code for a V3 status."""
    return _CODE[status]


def frame(message: pb.Request | pb.Response) -> bytes:
    """Build a frame: the length and the message."""
    body = message.SerializeToString()
    return len(body).to_bytes(4, "big") + body


def parse_request(buf: bytes, pos: int, stop: int) -> pb.Request:
    """Return the request in the complete frame ``buf[pos:stop]``.

    Raises BookieFrameError when it is not a request, also for an unknown operation. There is no answer for that;
    BookKeeper closes the connection then, too.
    """
    try:
        request = pb.Request.FromString(buf[pos + 4 : stop])
    except DecodeError as error:
        raise BookieFrameError(f"V3 frame of {stop - pos} bytes is no Request") from error
    if not request.IsInitialized():
        raise BookieFrameError("V3 request lacks a required field or has an unknown operation")
    return request


def parse_response(buf: bytes, pos: int, stop: int) -> pb.Response:
    """Return the response in the complete frame ``buf[pos:stop]``. Raises BookieFrameError."""
    try:
        response = pb.Response.FromString(buf[pos + 4 : stop])
    except DecodeError as error:
        raise BookieFrameError(f"V3 frame of {stop - pos} bytes is no Response") from error
    if not response.IsInitialized():
        raise BookieFrameError("V3 response lacks a required field or has an unknown status")
    return response


# Requests


def _head(operation: "pb.OperationType", txn_id: int, priority: int = 0) -> pb.BKPacketHeader:
    head = pb.BKPacketHeader(version=VERSION, operation=operation, txnId=txn_id)
    if priority:
        head.priority = priority
    return head


def add_request(
    txn_id: int,
    ledger_id: int,
    entry_id: int,
    master_key: bytes,
    entry: bytes,
    *,
    recovery: bool = False,
    write_flags: int = 0,
    priority: int = 0,
) -> bytes:
    """Build an add of a complete stored entry: 32-byte header, digest, payload."""
    add = pb.AddRequest(ledgerId=ledger_id, entryId=entry_id, masterKey=master_key, body=entry)
    if recovery:
        add.flag = pb.AddRequest.RECOVERY_ADD
    if write_flags:
        add.writeFlags = write_flags
    return frame(pb.Request(header=_head(pb.ADD_ENTRY, txn_id, priority), addRequest=add))


def read_request(
    txn_id: int,
    ledger_id: int,
    entry_id: int,
    *,
    fence_key: bytes | None = None,
    previous_lac: int | None = None,
    timeout_ms: int | None = None,
    piggyback: bool = False,
    priority: int = 0,
) -> bytes:
    """Build a read. With ``fence_key`` it fences first. With ``previous_lac`` it waits up to ``timeout_ms`` for a
    greater last confirmed entry; then ``piggyback`` (entry id -1) requests the entry after ``previous_lac``."""
    read = pb.ReadRequest(ledgerId=ledger_id, entryId=entry_id)
    if fence_key is not None:
        read.masterKey = fence_key
        read.flag = pb.ReadRequest.FENCE_LEDGER
    elif piggyback:
        read.flag = pb.ReadRequest.ENTRY_PIGGYBACK
    if previous_lac is not None:
        read.previousLAC = previous_lac
    if timeout_ms is not None:
        read.timeOut = timeout_ms
    return frame(pb.Request(header=_head(pb.READ_ENTRY, txn_id, priority), readRequest=read))


def write_lac_request(
    txn_id: int, ledger_id: int, lac: int, master_key: bytes, body: bytes
) -> bytes:
    """Build a write of an explicit LAC. ``body`` is ledger id i64 | lac i64 | digest over both with the ledger's digest
    type."""
    write = pb.WriteLacRequest(ledgerId=ledger_id, lac=lac, masterKey=master_key, body=body)
    return frame(pb.Request(header=_head(pb.WRITE_LAC, txn_id), writeLacRequest=write))


def read_lac_request(txn_id: int, ledger_id: int) -> bytes:
    """Build a request for the explicit LAC and the last entry."""
    read = pb.ReadLacRequest(ledgerId=ledger_id)
    return frame(pb.Request(header=_head(pb.READ_LAC, txn_id), readLacRequest=read))


def force_request(txn_id: int, ledger_id: int) -> bytes:
    """Build a request that is answered when every add answered so far is synced."""
    force = pb.ForceLedgerRequest(ledgerId=ledger_id)
    return frame(pb.Request(header=_head(pb.FORCE_LEDGER, txn_id), forceLedgerRequest=force))


def info_request(txn_id: int, requested: int = TOTAL_DISK | FREE_DISK) -> bytes:
    """Build a request for disk sizes."""
    info = pb.GetBookieInfoRequest(requested=requested)
    return frame(pb.Request(header=_head(pb.GET_BOOKIE_INFO, txn_id), getBookieInfoRequest=info))


def entries_request(txn_id: int, ledger_id: int) -> bytes:
    """Build a request for the list of a ledger's entries that the bookie has; see ``availability``."""
    head = _head(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, txn_id)
    listing = pb.GetListOfEntriesOfLedgerRequest(ledgerId=ledger_id)
    return frame(pb.Request(header=head, getListOfEntriesOfLedgerRequest=listing))


def auth_request(txn_id: int, plugin: str, payload: bytes = b"") -> bytes:
    """Build the first or next message of an authentication."""
    auth = pb.AuthMessage(authPluginName=plugin, payload=payload)
    return frame(pb.Request(header=_head(pb.AUTH, txn_id), authRequest=auth))


def start_tls_request(txn_id: int) -> bytes:
    """Build a request to continue in TLS."""
    head = _head(pb.START_TLS, txn_id)
    return frame(pb.Request(header=head, startTLSRequest=pb.StartTLSRequest()))


# Responses. The operation and transaction id of ``request`` are echoed, its priority is not.


def _response(request: pb.Request, code: int) -> pb.Response:
    head = request.header
    return pb.Response(header=_head(head.operation, head.txnId), status=status(code))


def refusal(request: pb.Request, code: int) -> bytes:
    """Build a response with a status alone, without the operation's own message."""
    return frame(_response(request, code))


def start_tls_reply(request: pb.Request) -> bytes:
    """Build the answer behind which both sides continue in TLS."""
    response = _response(request, ResultCode.EOK)
    response.startTLSResponse.SetInParent()
    return frame(response)


def add_reply(request: pb.Request, code: int) -> bytes:
    """Build the answer to an add."""
    response = _response(request, code)
    add, body = response.addResponse, request.addRequest
    add.status, add.ledgerId, add.entryId = (
        response.status,
        body.ledgerId,
        body.entryId,
    )
    return frame(response)


def read_reply(
    request: pb.Request,
    code: int,
    entry: bytes | None = None,
    *,
    entry_id: int | None = None,
    max_lac: int | None = None,
    lac_updated_ms: int | None = None,
) -> bytes:
    """Build the answer to a read. ``entry_id``: when it differs from that of the request."""
    response = _response(request, code)
    read, body = response.readResponse, request.readRequest
    read.status, read.ledgerId = response.status, body.ledgerId
    read.entryId = body.entryId if entry_id is None else entry_id
    if entry is not None:
        read.body = entry
    if max_lac is not None:
        read.maxLAC = max_lac
    if lac_updated_ms is not None:
        read.lacUpdateTimestamp = lac_updated_ms
    return frame(response)


def write_lac_reply(request: pb.Request, code: int) -> bytes:
    """Build the answer to an explicit LAC."""
    response = _response(request, code)
    write = response.writeLacResponse
    write.status, write.ledgerId = response.status, request.writeLacRequest.ledgerId
    return frame(response)


def read_lac_reply(
    request: pb.Request, code: int, lac: bytes = b"", last_entry: bytes | None = None
) -> bytes:
    """Build the answer to a LAC read: the explicit LAC's body and the last entry, as far as they exist."""
    response = _response(request, code)
    read = response.readLacResponse
    read.status, read.ledgerId = response.status, request.readLacRequest.ledgerId
    if lac:
        read.lacBody = lac
    if last_entry is not None:
        read.lastEntryBody = last_entry
    return frame(response)


def force_reply(request: pb.Request, code: int) -> bytes:
    """Build the answer to a force."""
    response = _response(request, code)
    force = response.forceLedgerResponse
    force.status, force.ledgerId = response.status, request.forceLedgerRequest.ledgerId
    return frame(response)


def info_reply(request: pb.Request, code: int, total: int = 0, free: int = 0) -> bytes:
    """Build the answer to an info request, with those of the two sizes, in bytes, that were requested."""
    response = _response(request, code)
    info, requested = response.getBookieInfoResponse, request.getBookieInfoRequest.requested
    info.status = response.status
    if code == ResultCode.EOK and requested & TOTAL_DISK:
        info.totalDiskCapacity = total
    if code == ResultCode.EOK and requested & FREE_DISK:
        info.freeDiskSpace = free
    return frame(response)


def entries_reply(request: pb.Request, code: int, entries: bytes | None = None) -> bytes:
    """Build the answer to a request for entries. ``entries``: encoded by ``availability.encode``."""
    response = _response(request, code)
    listing = response.getListOfEntriesOfLedgerResponse
    listing.status = response.status
    listing.ledgerId = request.getListOfEntriesOfLedgerRequest.ledgerId
    if entries is not None:
        listing.availabilityOfEntriesOfLedger = entries
    return frame(response)


def auth_disabled_reply(request: pb.Request) -> bytes:
    """Build the answer to AUTH of a bookie without authentication; clients take it as success."""
    response = _response(request, ResultCode.EOK)
    response.authResponse.authPluginName = AUTH_DISABLED
    response.authResponse.payload = b""
    return frame(response)


def explicit_lac_ids(body: bytes) -> tuple[int, int]:
    """Return (ledger id, last confirmed entry) of an explicit LAC's body. Raises BookieFrameError."""
    if len(body) < 16:
        raise BookieFrameError(f"explicit LAC of {len(body)} bytes, at least 16")
    return (
        int.from_bytes(body[:8], "big", signed=True),
        int.from_bytes(body[8:16], "big", signed=True),
    )


def explicit_lac(ledger_id: int, lac: int, digest: bytes) -> bytes:
    """Build the body of an explicit LAC; ``digest`` covers the first 16 bytes."""
    return ledger_id.to_bytes(8, "big", signed=True) + lac.to_bytes(8, "big", signed=True) + digest


def operation_name(operation: int) -> str:
    """Return an operation's name for counters and messages."""
    names: Iterable[tuple[str, int]] = pb.OperationType.items()
    return next((name for name, number in names if number == operation), str(operation))
