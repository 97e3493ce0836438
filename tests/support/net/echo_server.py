"""A small application under a real server: ``python -m tests.support.net.echo_server uvicorn PORT [IDLE_S]``.

HTTP answers the number of body bytes; a WebSocket gets its texts back and is not read while it does not read; ``/no``
refuses.
"""

import asyncio
import logging
import sys
from typing import Any

from engine.base.loop import EventLoop
from gateway.http.refusal import refuse
from gateway.http.socket_port import port_of
from gateway.serve import NAME, listen


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await answer(receive, send)
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


async def answer(receive: Any, send: Any) -> None:
    size, more = 0, True
    while more:
        event = await receive()
        size += len(event.get("body", b""))
        more = event.get("more_body", False)
    body = str(size).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main(server: str, port: str, idle_s: str = "60") -> None:
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # as gateway.settings
    listener = listen("127.0.0.1", int(port))
    if server == "uvicorn":
        from gateway.servers import on_uvicorn

        on_uvicorn.IDLE_S = int(idle_s)
        on_uvicorn.LOOK_S = 0.1
        on_uvicorn.serve(application, [listener], NAME, EventLoop())
    else:
        from gateway.servers import on_daphne

        on_daphne.IDLE_S = int(idle_s)
        on_daphne.serve(application, [listener], NAME)


if __name__ == "__main__":
    main(*sys.argv[1:])
