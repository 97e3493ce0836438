"""Free ports for servers of tests.

They lie below those that the system gives to outgoing connections. A server must find its port free when it starts
again, and a client that waits for a server could otherwise connect to itself. Each process of a test run has its range.
"""

import os
import random
import socket

FIRST, LAST = 12_000, 32_000
_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
_size = (LAST - FIRST) // _workers
_ours = range(FIRST + _worker * _size, FIRST + (_worker + 1) * _size)
_next = random.choice(_ours)


def free_ports(count: int, gap: int = 2) -> list[int]:
    """Return unused ports, each with ``gap - 1`` more behind it. A port is reused only after all others."""
    global _next
    ports: list[int] = []
    for _ in _ours:
        if len(ports) == count:
            return ports
        if _next + gap > _ours.stop:
            _next = _ours.start
        # After the last port of the range the first ones follow, which may be among those of this call.
        if _next not in ports and all(map(_free, range(_next, _next + min(gap, 4)))):
            ports.append(_next)
        _next += gap
    raise RuntimeError(f"too few free ports from {_ours.start} to {_ours.stop}")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
