"""A small application under a real server: ``python -m tests.support.net.echo_server uvicorn PORT IDLE_S ADDRESS_MAX``.

With ``TLS_PORT CERT KEY CA`` behind these, uvicorn also serves in TLS. The header X-Caller has the scheme and the
subject of the certificate. HTTP answers the number of body bytes, at most 1 MiB; an upload with a token that is not
``right`` is refused by its head, and one to a path that ends with ``slow`` is received slowly. A WebSocket gets its
texts back and is not read while it does not read; ``/no`` refuses.
"""

import asyncio
import logging
import sys
from typing import Any

from django.core.exceptions import RequestDataTooBig

from engine.base.loop import EventLoop
from engine.net.tls import ServerFiles
from gateway.http import exchange
from gateway.http.connection import certificate_of
from gateway.http.forms.uploads import is_upload
from gateway.http.refusal import refuse
from gateway.http.socket_port import port_of
from gateway.serve import NAME, listen


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await answer(scope, receive, send)
        return
    await receive()
    if scope["path"] == "/no":
        await refuse(send, 404, "not <here>")
        return
    await send({"type": "websocket.accept"})
    port = port_of(scope)
    loop = asyncio.get_running_loop()

    async def read_on() -> None:
        await port.drained()
        port.resume_reading()

    def echo(texts: list[str]) -> None:
        for text in texts:
            port.send_text(text)
        if not port.writable:
            port.pause_reading()
            waiting.append(loop.create_task(read_on()))

    waiting: list[asyncio.Task[None]] = []
    port.listen(echo)
    await receive()


async def upload(scope: dict[str, Any], receive: Any) -> tuple[int, int]:
    """Return the status of an upload, and the bytes of its body."""
    if (b"authorization", b"Bearer right") not in scope["headers"]:
        return 401, 0
    size, more = 0, True
    while more:
        if scope["path"].endswith("slow"):
            await asyncio.sleep(0.02)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise exchange.ClientGoneError
        size += len(message["body"])
        more = message.get("more_body", False)
    return 200, size


async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
    status, body = 200, b""
    try:
        if is_upload(scope):
            status, size = await upload(scope, receive)
        else:
            size = len(await exchange.read_body(scope, receive))
        body = str(size).encode()
    except RequestDataTooBig:
        status = 413
    except exchange.SlowBodyError:
        status = 408
    except exchange.ClientGoneError:
        return
    certificate = certificate_of(scope) or {}
    caller = f"{scope['scheme']} {certificate.get('subject')}".encode()
    headers = [(b"content-length", str(len(body)).encode()), (b"x-caller", caller)]
    if status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main(server: str, port: str, idle_s: str, address_max: str, *secured: str) -> None:
    most = int(address_max)
    exchange.BODY_TIMEOUT_S = int(idle_s)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # gateway.settings does the same
    listener = listen("127.0.0.1", int(port))
    if server == "uvicorn":
        from gateway.servers import on_uvicorn

        on_uvicorn.IDLE_S = int(idle_s)
        on_uvicorn.CHECK_INTERVAL_S = 0.1
        encrypted, tls = [], None
        if secured:
            tls_port, cert, key, authority = secured
            encrypted = [listen("127.0.0.1", int(tls_port))]
            tls = ServerFiles(cert, key, client_ca=authority).reloaded(0)
        on_uvicorn.serve(
            application,
            [listener],
            NAME,
            EventLoop(),
            connections_per_address=most,
            encrypted=encrypted,
            tls=tls,
        )
    else:
        from gateway.servers import on_daphne

        on_daphne.IDLE_S = int(idle_s)
        on_daphne.serve(application, [listener], NAME, connections_per_address=most)
        if listener.fileno() != -1:
            sys.exit("the listener would close the descriptor, which Twisted has closed, again")


if __name__ == "__main__":
    main(*sys.argv[1:])
