"""Log of all programs, with one record per line, as logfmt for people or as JSON for machines.

Text: ``2026-01-31T12:00:00.000Z INFO engine.broker rolled ledger=7 reason="the disk is full"``. A value with blanks,
quotes or control characters is quoted, control characters of a message are escaped, and a traceback follows indented,
so that a logged name cannot forge a record. JSON: an object with ``time``, ``level``, ``logger``, ``message``,
optionally ``facts`` (the message's values by key) and ``error`` (the traceback). Levels follow etcd's rule: info
records are rarer than one in a few seconds.
"""

import json
import logging
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from engine.base.settings import text

FORMS = ("text", "json")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_SPECIFIER = re.compile(r"(\w+=)?%(%|[-#0 +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?[a-zA-Z])")
_BARE = re.compile(r"[^\s\"\\=]+").fullmatch
# Characters that may end a line in a viewer or change its direction: controls, line and paragraph separators,
# directional formatting.
_CONTROLS = {
    code: json.dumps(chr(code))[1:-1]
    for code in (*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Settings of the log, which every program writes to standard error."""

    log_level: str = text("INFO", "lowest level that is logged", choices=LEVELS)
    log_format: str = text("text", "logfmt for people, or one JSON object per line", choices=FORMS)


REPEAT_S = 5.0
"""Seconds in which ``Seldom`` passes a message once."""
TEXTS_MAX = 64
"""Number of messages that ``Seldom`` remembers."""
OTHERS = 0o077
"""Permission bits of all users but a file's owner."""


def keep_private() -> None:
    """Restrict new files and folders of this process and its children to its user; called at program start.

    Logs, journals, indexes and databases contain messages.
    """
    os.umask(OTHERS)


def configure(settings: LogSettings | None = None) -> None:
    """Send records of this process to standard error."""
    settings = settings or LogSettings()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(settings.log_format))
    handler.addFilter(Seldom("kazoo"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    logging.getLogger("kazoo").setLevel(logging.WARNING)


class Seldom(logging.Filter):
    """Filter that passes each message of the logger ``name`` and its children once in REPEAT_S.

    kazoo logs several attempts per second while ZooKeeper is unavailable. Records of other loggers pass.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._passed_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether ``record`` is to be written."""
        if not super().filter(record):
            return True
        text = record.getMessage()
        if abs(record.created - self._passed_s.get(text, -REPEAT_S)) < REPEAT_S:
            return False
        if len(self._passed_s) >= TEXTS_MAX:
            self._passed_s.clear()
        self._passed_s[text] = record.created
        return True


def formatter(form: str) -> logging.Formatter:
    """Return the formatter of ``form``, which is one of FORMS."""
    return JsonFormatter() if form == "json" else TextFormatter()


class TextFormatter(logging.Formatter):
    """Formatter of lines ``time level logger message key=value …``, with an indented traceback below."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record)} {record.levelname} {record.name} {_message(record)}"
        return "\n    ".join(map(one_line, [head, *_traceback(record).splitlines()]))


class JsonFormatter(logging.Formatter):
    """Formatter of one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if facts := _facts(record):
            document["facts"] = facts
        if error := _traceback(record):
            document["error"] = error
        return json.dumps(document)


def one_line(text: str) -> str:
    """Return ``text`` with its control characters escaped."""
    return text if text.isprintable() else text.translate(_CONTROLS)


def bound(name: str, **context: object) -> "logging.LoggerAdapter[logging.Logger]":
    """Return a logger that appends ``key=value`` of ``context`` to each message; bind once per connection or topic."""
    return _Bound(logging.getLogger(name), context)


class _Bound(logging.LoggerAdapter):  # type: ignore[type-arg]
    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            context = self.extra or {}
            template = str(msg) if args else str(msg).replace("%", "%%")
            template += "".join(f" {key}=%s" for key in context)
            self.logger.log(level, template, *args, *context.values(), **kwargs)


def _time(record: logging.LogRecord) -> str:
    second, fraction = divmod(record.created, 1)
    return f"{_second(int(second))}.{int(fraction * 1000):03}Z"


@lru_cache(maxsize=16)
def _second(since_epoch: int) -> str:
    return f"{datetime.fromtimestamp(since_epoch, UTC):%Y-%m-%dT%H:%M:%S}"


def _message(record: logging.LogRecord) -> str:
    """Return the message, in which arguments of ``key=%s`` are quoted where needed."""
    args = record.args
    if isinstance(args, tuple) and isinstance(record.msg, str) and args:
        values = _values(record.msg)
        if len(values) == len(args):
            args = tuple(map(_quoted, args, values))
    template = str(record.msg)
    return template % args if args else template


@lru_cache(maxsize=1024)
def _values(template: str) -> tuple[bool, ...]:
    """Return for each argument of a template whether it is the complete value of a key."""
    specifiers = [match for match in _SPECIFIER.finditer(template) if match[2] != "%"]
    return tuple(
        bool(match[1]) and match[2] == "s" and not template[match.end() : match.end() + 1].strip()
        for match in specifiers
    )


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """Return the arguments of ``key=%…`` by key; numbers, booleans and None unchanged, all others as text."""
    args = record.args
    if not isinstance(args, tuple) or not isinstance(record.msg, str):
        return {}
    keys = _keys(record.msg)
    if len(keys) != len(args):
        return {}
    return {key: _plain(arg) for key, arg in zip(keys, args, strict=True) if key}


@lru_cache(maxsize=1024)
def _keys(template: str) -> tuple[str, ...]:
    """Return for each argument of a template its key, empty without one."""
    specifiers = (match for match in _SPECIFIER.finditer(template) if match[2] != "%")
    return tuple((match[1] or "").removesuffix("=") for match in specifiers)


def _plain(arg: object) -> object:
    return arg if arg is None or isinstance(arg, bool | int | float) else str(arg)


def _quoted(arg: object, is_value: bool) -> object:
    if not is_value or isinstance(arg, int | float):
        return arg
    value = str(arg)
    return value if value.isprintable() and _BARE(value) else json.dumps(value, ensure_ascii=False)


def _traceback(record: logging.LogRecord) -> str:
    """Return the traceback and stack of a record, empty without them."""
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    return "\n".join(part for part in (record.exc_text, record.stack_info) if part)
