"""Cost of our ASGI servers alone: an application that answers every request, and every frame, with a constant.

Run by the bench: ``python -m tests.bench.gateway.floor --server daphne --port N``, on 127.0.0.1, until SIGTERM.
"""

import argparse
import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.http.socket_port import port_of
from gateway.serve import NAME, listen

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

BODY = b'["public","pulsar"]'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
RECEIPT = '{"result":"ok","messageId":"CAAQADAA","context":"1","errorCode":0,"schemaVersion":0}'


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as an ASGI application; frames by the server's port, as our endpoints have them."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": BODY})
        return
    await receive()
    await send({"type": "websocket.accept"})
    port = port_of(scope)

    def answer(texts: list[str]) -> None:
        for _ in texts:
            port.send_text(RECEIPT)

    port.listen(answer)
    await receive()


def serve_daphne(port: int) -> None:
    from gateway.servers import on_daphne

    listener = listen("127.0.0.1", port)
    on_daphne.serve(application, [listener], NAME, connections_per_address=0)


def serve_uvicorn(port: int) -> None:
    from gateway.servers import on_uvicorn

    loop = asyncio.new_event_loop()
    listener = listen("127.0.0.1", port)
    on_uvicorn.serve(application, [listener], NAME, loop, connections_per_address=0)


SERVERS = {"daphne": serve_daphne, "uvicorn": serve_uvicorn}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=SERVERS, default="daphne")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    SERVERS[args.server](args.port)
