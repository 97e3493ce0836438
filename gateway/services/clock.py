"""The wall clock of the gateway's figures."""

import time


def now_ms() -> int:
    """Return the wall clock's time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
