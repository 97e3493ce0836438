"""What the ASGI server alone costs: an application that answers every request, and every frame, with a constant.

Run by the bench: ``python tests/bench/gateway/floor.py --server daphne --port N``, on 127.0.0.1, until SIGTERM.
"""

import argparse
from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

BODY = b'["public","pulsar"]'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
RECEIPT = '{"result":"ok","messageId":"CAAQADAA","context":"1","errorCode":0,"schemaVersion":0}'


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """An ASGI application."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": BODY})
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": RECEIPT})


def serve_daphne(port: int) -> None:
    from daphne.endpoints import build_endpoint_description_strings
    from daphne.server import Server

    endpoints = build_endpoint_description_strings(host="127.0.0.1", port=port)
    Server(application=application, endpoints=endpoints, verbosity=0).run()


def serve_uvicorn(port: int) -> None:
    import uvicorn

    uvicorn.run(application, port=port, lifespan="off", access_log=False, log_level="error")


SERVERS = {"daphne": serve_daphne, "uvicorn": serve_uvicorn}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=SERVERS, default="daphne")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    SERVERS[args.server](args.port)
