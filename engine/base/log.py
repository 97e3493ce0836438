"""The one log of all programs: a record a line, for people (logfmt) or for machines (JSON).

For people: ``2026-01-31T12:00:00.000Z INFO engine.broker rolled ledger=7 reason="the disk is full"``. A value with
blanks, quotes or control characters is quoted, control characters of a message are escaped, and a traceback follows
indented, so that nobody whose names we log can make up a record. For machines: an object with ``time``, ``level``,
``logger``, ``message``, ``facts``, the message's values by their keys, and ``error``, the traceback, where there are
such. Levels by etcd's rule: info is rarer than every few seconds.
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
# What ends a line for somebody: controls, the line and paragraph separators, what turns the direction of text.
_CONTROLS = {
    code: json.dumps(chr(code))[1:-1]
    for code in (*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
}


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Of every program's log, which goes to standard error."""

    log_level: str = text("INFO", "what is logged, from this level up", choices=LEVELS)
    log_format: str = text("text", "logfmt for people, or a JSON object a line", choices=FORMS)


REPEAT_S = 5.0
TEXTS_MAX = 64
OTHERS = 0o077
"""The permissions of everybody but a file's own user."""


def keep_private() -> None:
    """Have files and folders that this process and its children make be its user's alone: logs, journals, indexes and
    databases hold what was sent. For starts of programs."""
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
    """Pass a message of the logger ``name``, and of those below it, once in REPEAT_S: a ZooKeeper that is away is
    tried several times a second. Records of other loggers pass."""

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
    """``form`` is one of FORMS."""
    return JsonFormatter() if form == "json" else TextFormatter()


class TextFormatter(logging.Formatter):
    """``time level logger message key=value …``, a traceback below it, indented."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record)} {record.levelname} {record.name} {_message(record)}"
        return "\n    ".join(map(one_line, [head, *_traceback(record).splitlines()]))


class JsonFormatter(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if facts := _facts(record):
            said["facts"] = facts
        if error := _traceback(record):
            said["error"] = error
        return json.dumps(said)


def one_line(said: str) -> str:
    """``said`` with its control characters escaped."""
    return said if said.isprintable() else said.translate(_CONTROLS)


def bound(name: str, **context: object) -> "logging.LoggerAdapter[logging.Logger]":
    """A logger that appends ``key=value`` of ``context`` to each message; bind once per connection or topic."""
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
    """The message; what fills in ``key=%s`` is quoted where needed."""
    args = record.args
    if isinstance(args, tuple) and isinstance(record.msg, str) and args:
        values = _values(record.msg)
        if len(values) == len(args):
            args = tuple(map(_quoted, args, values))
    said = str(record.msg)
    return said % args if args else said


@lru_cache(maxsize=1024)
def _values(template: str) -> tuple[bool, ...]:
    """For each argument of a template whether it is the whole value of a key."""
    found = [match for match in _SPECIFIER.finditer(template) if match[2] != "%"]
    return tuple(
        bool(match[1]) and match[2] == "s" and not template[match.end() : match.end() + 1].strip()
        for match in found
    )


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """What fills in ``key=%…`` by key: numbers, truths and None as such, all else as text."""
    args = record.args
    if not isinstance(args, tuple) or not isinstance(record.msg, str):
        return {}
    keys = _keys(record.msg)
    if len(keys) != len(args):
        return {}
    return {key: _plain(arg) for key, arg in zip(keys, args, strict=True) if key}


@lru_cache(maxsize=1024)
def _keys(template: str) -> tuple[str, ...]:
    """For each argument of a template its key, empty without one."""
    found = (match for match in _SPECIFIER.finditer(template) if match[2] != "%")
    return tuple((match[1] or "").removesuffix("=") for match in found)


def _plain(arg: object) -> object:
    return arg if arg is None or isinstance(arg, bool | int | float) else str(arg)


def _quoted(arg: object, is_value: bool) -> object:
    if not is_value or isinstance(arg, int | float):
        return arg
    said = str(arg)
    return said if said.isprintable() and _BARE(said) else json.dumps(said, ensure_ascii=False)


def _traceback(record: logging.LogRecord) -> str:
    """The traceback and stack of a record, empty without."""
    if record.exc_info and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    return "\n".join(part for part in (record.exc_text, record.stack_info) if part)
