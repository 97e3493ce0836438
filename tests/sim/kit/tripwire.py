"""A guard that fails simulated code that reaches past the seams: real time, chance, threads, sockets, files."""

import builtins
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.sim.kit.loop import NODE, WORLD

ALLOWED = ("logging", "linecache", "tokenize", "traceback", "importlib", "prometheus_client")
"""Modules that may reach past them: what they read never reaches the code under test."""
WIRED: tuple[tuple[Any, str], ...] = (
    (time, "time"),
    (time, "time_ns"),
    (time, "monotonic"),
    (time, "monotonic_ns"),
    (time, "perf_counter"),
    (time, "sleep"),
    (os, "urandom"),
    (os, "open"),
    (builtins, "open"),
    (threading.Thread, "start"),
    (socket, "socket"),
)


class Escaped(AssertionError):
    """Simulated code used something that no seed controls."""


def _wired(real: Callable[..., Any], name: str) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if NODE.get() is not WORLD:
            caller = str(sys._getframe(1).f_globals.get("__name__", ""))
            if not caller.startswith(ALLOWED):
                raise Escaped(f"{name} called by {caller} in node {NODE.get().name}")
        return real(*args, **kwargs)

    return guarded


@contextlib.contextmanager
def armed() -> Iterator[None]:
    """Replace the functions of WIRED for the time of the block."""
    kept = [(owner, name, getattr(owner, name)) for owner, name in WIRED]
    try:
        for owner, name, real in kept:
            label = f"{getattr(owner, '__name__', owner)}.{name}"
            setattr(owner, name, _wired(real, label))
        yield
    finally:
        for owner, name, real in kept:
            setattr(owner, name, real)
