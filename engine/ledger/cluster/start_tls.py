"""Connections to bookies in TLS: asked for in clear on a new connection (START_TLS), before anything else."""

import asyncio

from engine.base.errors import PeerError
from engine.ledger.settings import LedgerSettings
from engine.net.network import Network
from engine.net.tls import ClientFiles, ContextSource
from engine.net.transport import ClearTextError
from engine.wire import bookie_v3 as v3
from engine.wire import bookkeeper_pb2 as pb

ANSWER_BYTES_MAX = 1024
_TRANSACTION = 1


class TlsRefusedError(PeerError):
    """The bookie did not grant TLS."""


def tls_of(settings: LedgerSettings) -> ContextSource | None:
    """Return the source of contexts for connections to bookies; None when they are in clear. Raises TlsFileError."""
    if not settings.bookie_tls_provider:
        return None
    shows = settings.bookkeeper_tls_client_authentication
    files = ClientFiles(
        settings.bookkeeper_tls_trust_certs_file_path,
        settings.bookkeeper_tls_certificate_file_path if shows else "",
        settings.bookkeeper_tls_key_file_path if shows else "",
        verify_hostname=settings.bookkeeper_tls_hostname_verification_enabled,
    )
    return files.reloaded(settings.bookkeeper_tls_cert_files_refresh_duration_seconds)


async def connect_in_tls(
    network: Network, host: str, port: int, protocol: asyncio.Protocol, tls: ContextSource
) -> None:
    """Connect ``protocol`` to a bookie in TLS; it is not called before TLS is complete (T1).

    Raises OSError, and PeerError when the bookie refuses TLS or sends something else. Cancel-safe.
    """
    transport, made = await network.connect(host, port, _Asking)
    assert isinstance(made, _Asking)
    try:
        await made.granted
    except BaseException:
        transport.abort()
        raise
    await network.start_tls(transport, protocol, tls(), host=host)


class _Asking(asyncio.Protocol):
    """Asks for TLS on a connection in clear; ``granted`` completes with the bookie's answer."""

    def __init__(self) -> None:
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(v3.start_tls_request(_TRANSACTION))

    def data_received(self, data: bytes) -> None:
        if self.granted.done():
            return
        self._answer += data
        try:
            complete = self._is_granted()
        except PeerError as error:
            self.granted.set_exception(error)
        else:
            if complete:
                self._transport.pause_reading()  # until the handshake reads
                self.granted.set_result(None)

    def _is_granted(self) -> bool:
        """Return whether the answer is complete and grants TLS. Raises PeerError."""
        answer = bytes(self._answer)
        size = 4 + int.from_bytes(answer[:4], "big") if len(answer) >= 4 else 4
        if size > ANSWER_BYTES_MAX:
            raise TlsRefusedError(f"answer of {size} bytes to START_TLS")
        if len(answer) <= 4 or len(answer) < size:
            return False
        if len(answer) > size:
            raise ClearTextError("bytes in clear behind the answer to START_TLS")
        response = v3.parse_response(answer, 0, size)
        if response.header.txnId != _TRANSACTION or response.status != pb.EOK:
            raise TlsRefusedError(f"START_TLS is answered with status {response.status}")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.granted.done():
            self.granted.set_exception(ConnectionResetError("the bookie closed at START_TLS"))
