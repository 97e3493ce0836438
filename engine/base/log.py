"""Logging: one line per event, ``key=value`` facts, level by etcd's rule (info is rarer than every few seconds)."""

import logging
import sys


def configure(level: str = "INFO") -> None:
    """Send records of this process to standard error, one line each, UTC time first."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = __import__("time").gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def bound(name: str, **context: object) -> "logging.LoggerAdapter[logging.Logger]":
    """A logger that appends ``key=value`` of ``context`` to each message; bind once per connection or topic."""
    return _Bound(logging.getLogger(name), context)


class _Bound(logging.LoggerAdapter):  # type: ignore[type-arg]
    def process(self, msg: object, kwargs):  # type: ignore[no-untyped-def]
        context = " ".join(f"{key}={value}" for key, value in (self.extra or {}).items())
        return f"{msg} {context}", kwargs
