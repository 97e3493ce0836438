"""Free ports for servers of tests.

Below those that the system gives to outgoing connections: a server must find its port free when it comes back, and who
waits for one could else meet itself. Processes of one test run have ranges of their own.
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
    """Ports nobody listens on, each with ``gap - 1`` more behind it. None comes again before all had their turn."""
    global _next
    found: list[int] = []
    for _ in _ours:
        if len(found) == count:
            return found
        if _next + gap > _ours.stop:
            _next = _ours.start
        if all(map(_free, range(_next, _next + min(gap, 4)))):
            found.append(_next)
        _next += gap
    raise RuntimeError(f"too few free ports from {_ours.start} to {_ours.stop}")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
