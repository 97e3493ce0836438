"""TLS in front of a server that has none: what a client sends is passed on once it was decrypted."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from engine.net.tls import ServerFiles
from tests.support.net.certificates import Files


@asynccontextmanager
async def tls_before(
    target: str | tuple[str, int], files: Files, *, client_ca: str = ""
) -> AsyncIterator[int]:
    """Yield the port of 127.0.0.1 whose connections end at ``target``, a Unix socket or an address. With ``client_ca``
    clients must present a certificate of it."""
    context = ServerFiles(
        files.cert, files.key, client_ca=client_ca, client_cert_required=bool(client_ca)
    ).context()

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if isinstance(target, str):
            behind_reader, behind_writer = await asyncio.open_unix_connection(target)
        else:
            behind_reader, behind_writer = await asyncio.open_connection(*target)
        await asyncio.gather(_copied(reader, behind_writer), _copied(behind_reader, writer))

    server = await asyncio.start_server(passed_on, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, ssl.SSLError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
