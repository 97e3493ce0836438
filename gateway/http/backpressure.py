"""How a slow reader or a busy application holds a WebSocket back.

ASGI says nothing of either: Daphne's ``send`` never waits and its queue of received frames has no bound. These look
through Daphne's reply hook to its protocol object; behind another server they do nothing and its own limits hold.
"""

import asyncio
from collections.abc import Callable
from typing import Any

POLL_S = 0.02


def protocol_of(send: Callable[..., Any]) -> Any:
    """Daphne's protocol object behind the server's own ``send``, or None."""
    return next(iter(getattr(send, "args", ())), None)


def buffered_bytes(send: Callable[..., Any]) -> int:
    """Bytes that wait in Twisted's transport for a slow reader."""
    transport = getattr(protocol_of(send), "transport", None)
    if transport is None or getattr(transport, "disconnected", False):
        return 0
    waiting = len(getattr(transport, "dataBuffer", b"")) - int(getattr(transport, "offset", 0))
    return waiting + int(getattr(transport, "_tempDataLen", 0))


async def drained(send: Callable[..., Any], bytes_max: int) -> None:
    """Wait while more than ``bytes_max`` are buffered. The polls cost only sockets that are behind."""
    while buffered_bytes(send) > bytes_max:  # noqa: ASYNC110 - the transport tells nobody
        await asyncio.sleep(POLL_S)


def bound_frames(send: Callable[..., Any], frames_max: int) -> None:
    """From now on stop reading the socket while more than ``frames_max`` received frames wait for ``frame_taken``."""
    protocol = protocol_of(send)
    if hasattr(protocol, "frames_waiting_max"):
        protocol.frames_waiting_max = frames_max


def frame_taken(send: Callable[..., Any]) -> None:
    """The application took a frame from its queue."""
    protocol = protocol_of(send)
    if hasattr(protocol, "frames_waiting_max"):
        protocol.resume_reading()
