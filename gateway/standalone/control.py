"""Requests to a running instance: one line of JSON to its control socket, and one line back."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPLY_MAX = 1 << 20
STOPPING = "the instance is stopping"
"""The error of a request that arrives too late."""


class NotRunningError(Exception):
    """No instance answers on the socket."""


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """Yield a short name for the socket ``path``, which is valid within the context.

    Names of Unix sockets have at most 107 bytes. The name uses a descriptor of the folder, so that the socket need not
    be in another folder such as /tmp, where another user could create it first. Raises OSError.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def send_request(
    path: Path, verb: str, child: str = "", timeout_s: float = 180.0
) -> dict[str, Any]:
    """Send ``verb`` and the name of a child; return the answer, ``{"children": […]}`` or ``{"error": …}``.

    Blocks up to ``timeout_s``. Raises NotRunningError when no instance listens or answers.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(timeout_s)
        try:
            with reachable(path) as name:
                link.connect(name)
            link.sendall(json.dumps({"verb": verb, "name": child}).encode() + b"\n")
            reply = b""
            while not reply.endswith(b"\n") and len(reply) < REPLY_MAX:
                part = link.recv(65536)
                if not part:
                    break
                reply += part
        except OSError as error:
            raise NotRunningError(f"no instance answers at {path}: {error}") from error
    if not reply:
        raise NotRunningError(f"the instance at {path} closed the connection without an answer")
    answer: dict[str, Any] = json.loads(reply)
    return answer
