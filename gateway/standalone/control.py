"""Talk to a running instance: one JSON line to its control socket, one back."""

import json
import socket
from pathlib import Path
from typing import Any

REPLY_MAX = 1 << 20


class NotRunningError(Exception):
    """No instance answers on the socket."""


def ask(path: Path, verb: str, name: str = "", timeout_s: float = 60.0) -> dict[str, Any]:
    """Send ``{"verb", "name"}`` and return the answer: ``{"children": […]}`` or ``{"error": …}``.

    Blocks up to ``timeout_s``. Raises NotRunningError when nothing listens or answers there.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(timeout_s)
        try:
            link.connect(str(path))
            link.sendall(json.dumps({"verb": verb, "name": name}).encode() + b"\n")
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
