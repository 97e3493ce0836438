"""The one loader of settings, for every program: defaults, ``magnetar.toml``, ``MAGNETAR_*`` variables, command line.

A program is told a dataclass of groups; a group is a frozen dataclass beside the code that reads it, and its fields are
made by ``count``, ``number``, ``port``, ``flag``, ``text`` and ``folder``, which hold range and meaning. Fields made
otherwise are no settings. A setting ``broker_port`` of the program ``broker`` is the variable ``MAGNETAR_BROKER_PORT``,
else a key of ``[broker]``, else one at the top of the file, which all programs share. Settings of a *private* group
are of one program alone: ``MAGNETAR_<PROGRAM>_<NAME>``, else a key of its table. Whatever is unreadable, unknown or out
of range raises SettingsError. ``docs/settings.md`` is written from the same declarations (``page``).
"""

import difflib
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from engine.base.errors import MagnetarError, MisuseError

PREFIX = "MAGNETAR_"
CONFIG = "MAGNETAR_CONFIG"
"""Names another file than ``magnetar.toml``, which must then exist."""
DEFAULT_FILE = "magnetar.toml"
OFFSET = "port_offset"
COUNT_MAX = (1 << 31) - 1
PORT_MAX = 65535
PRIVATE: Mapping[str, bool] = {"private": True}
"""Metadata of a program's private group."""
PRIVATE_VARIABLES = ("MAGNETAR_BOOKIE_",)
"""Variables of a program of which the others know nothing."""

_NO_VALUES: Mapping[str, Any] = {}
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")

T = TypeVar("T")


class SettingsError(MagnetarError, ValueError):
    """A setting is unknown, unreadable or out of range, or the file cannot be read; the process must not start.

    The message is one line that names the setting, what it may be, and the value given.
    """


def count(default: int, help: str, *, low: int = 0, high: int = COUNT_MAX, name: str = "") -> int:
    """A whole number. ``name``: the setting's, where it is not the field's."""
    return _setting(default, help, low=low, high=high, name=name)


def number(default: float, help: str, *, low: float = 0.0, high: float = 1e9) -> float:
    """A number with a fraction; a time in seconds, mostly."""
    return _setting(default, help, low=low, high=high)


def port(default: int, help: str, *, low: int = 1) -> int:
    """A port, moved by ``port_offset`` unless given; ``low`` 0 lets the system choose."""
    return _setting(default, help, low=low, high=PORT_MAX, port=True)


def flag(default: bool, help: str) -> bool:
    """``true`` or ``false``."""
    return _setting(default, help)


def text(default: str, help: str, *, choices: tuple[str, ...] = (), name: str = "") -> str:
    """Any text, or one of ``choices``."""
    return _setting(default, help, choices=choices, name=name)


def folder(default: str, help: str) -> Path:
    """A folder, relative to where the process was started."""
    return _setting(Path(default), help)


def maybe_port(help: str, *, low: int = 1, shown: str = "none") -> int | None:
    """A port, None unless given; ``shown``: what the page says of that."""
    return _setting(None, help, low=low, high=PORT_MAX, shown=shown)


def _setting(default: T, help: str, **metadata: Any) -> T:
    return field(default=default, metadata={"help": help, **metadata})


class Setting(NamedTuple):
    """One setting of one program."""

    program: str
    private: bool
    item: Field[Any]
    kind: Any

    @property
    def name(self) -> str:
        return self.item.metadata.get("name") or self.item.name

    @property
    def variable(self) -> str:
        """The environment's."""
        own = f"{self.program}_" if self.private else ""
        return f"{PREFIX}{own}{self.name}".upper()

    @property
    def allowed(self) -> str:
        """What it may be, in words that follow "must be"."""
        low, high = self.item.metadata.get("low"), self.item.metadata.get("high")
        if self.kind is bool:
            return "true or false"
        if choices := self.item.metadata.get("choices"):
            return f"one of {', '.join(choices)}"
        if low is not None and high is not None:
            return f"a {'whole ' if self.kind is int else ''}number from {_plain(low)} to {_plain(high)}"
        return "the name of a folder" if self.kind is Path else "text"

    def read(self, raw: Any) -> Any:
        """Its value from what stands in the environment, the file or on the command line. Raises SettingsError."""
        value = _parsed(self.kind, raw)
        self.check(value, raw)
        return value

    def check(self, value: Any, raw: Any) -> None:
        """Raises SettingsError when ``value``, given as ``raw``, is None or out of range."""
        low, high = self.item.metadata.get("low"), self.item.metadata.get("high")
        choices = self.item.metadata.get("choices")
        if (
            value is None
            or (low is not None and not low <= value <= high)
            or (choices and value not in choices)
        ):
            raise SettingsError(f"{self.name} must be {self.allowed}, not {raw!r}")


def check_ranges(group: Any) -> None:
    """For ``__post_init__`` of groups that tests and jobs make themselves. Raises SettingsError."""
    for setting in settings_of(type(group), "", False):
        value = getattr(group, setting.item.name)
        if value is not None:
            setting.check(value, value)


def settings_of(group: type, program: str, private: bool) -> Iterator[Setting]:
    hints = typing.get_type_hints(group)
    for item in fields(group):
        if "help" in item.metadata:
            kind = hints[item.name]
            if isinstance(kind, types.UnionType):
                kind = next(one for one in kind.__args__ if one is not types.NoneType)
            yield Setting(program, private, item, kind)


@dataclass(frozen=True, slots=True)
class Program(Generic[T]):
    """A kind of process. ``name`` is its table's, ``kind`` the dataclass of its groups.

    ``elsewhere``: keys at the top of the file that only other programs read. With it an unknown key there is refused;
    without, only one that is nearly ours.
    """

    name: str
    kind: type[T]
    elsewhere: frozenset[str] | None = None

    def groups(self) -> Iterator[tuple[str, type, bool]]:
        """Name, dataclass, and whether it is private."""
        hints = typing.get_type_hints(self.kind)
        for item in fields(self.kind):  # type: ignore[arg-type]
            yield item.name, hints[item.name], bool(item.metadata.get("private"))

    def settings(self) -> list[Setting]:
        return [
            setting
            for _, group, private in self.groups()
            for setting in settings_of(group, self.name, private)
        ]

    def load(
        self,
        environ: Mapping[str, str],
        directory: Path,
        given: Mapping[str, Any] = _NO_VALUES,
    ) -> T:
        """The settings; ``given`` by name on the command line, None for what was not. ``directory`` has the file.

        Raises SettingsError.
        """
        source = _Source(self.name, environ, directory, given)
        made: dict[str, Any] = {
            name: source.fill(group, private) for name, group, private in self.groups()
        }
        source.refuse_unknown(self.settings(), self.elsewhere)
        return self.kind(**made)


@dataclass(frozen=True, slots=True)
class PortOffset:
    """What moves an instance's ports; every program reads it, so that a second instance needs one variable."""

    port_offset: int = count(0, "added to every port that is not given", high=PORT_MAX)


class _Source:
    """Where values come from: command line, environment, the program's table, the top of the file."""

    def __init__(
        self, program: str, environ: Mapping[str, str], directory: Path, given: Mapping[str, Any]
    ) -> None:
        self._program = program
        self._environ = environ
        self._given = {name: value for name, value in given.items() if value is not None}
        self._path = directory / environ.get(CONFIG, DEFAULT_FILE)
        self._top, self._table = self._read()
        self._offset = 0
        self._offset = self.fill(PortOffset, private=False).port_offset

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            document = tomllib.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if CONFIG in self._environ:
                raise SettingsError(f"{CONFIG} names {self._path}, which is missing") from None
            return {}, {}
        except (OSError, ValueError) as error:
            raise SettingsError(f"cannot read {self._path}: {error}") from error
        table = document.get(self._program, {})
        if not isinstance(table, dict):
            raise SettingsError(f"{self._path}: [{self._program}] must be a table")
        # Other tables belong to other programs.
        return {key: raw for key, raw in document.items() if not isinstance(raw, dict)}, table

    def _find(self, setting: Setting) -> tuple[Any, str]:
        """What was given for it and by what; None when nothing was."""
        name, variable = setting.name, setting.variable
        if name in self._given:
            return self._given[name], "the command line"
        if variable in self._environ:
            return self._environ[variable], variable
        if name in self._table:
            return self._table[name], f"[{self._program}] of {self._path}"
        if name in self._top and not setting.private:
            return self._top[name], str(self._path)
        return None, ""

    def fill(self, group: type[T], private: bool) -> T:
        values: dict[str, Any] = {}
        for setting in settings_of(group, self._program, private):
            raw, origin = self._find(setting)
            default: Any = setting.item.default
            if raw is None and self._offset and setting.item.metadata.get("port"):
                raw, origin = default + self._offset, f"{OFFSET} {self._offset}"
            if raw is not None:
                try:
                    values[setting.item.name] = setting.read(raw)
                except SettingsError as error:
                    raise SettingsError(f"setting {error} (from {origin})") from None
        try:
            return group(**values)
        except (ValueError, MisuseError) as error:
            raise SettingsError(f"setting {error}") from error

    def refuse_unknown(self, settings: Iterable[Setting], elsewhere: frozenset[str] | None) -> None:
        """A key of our table must be ours; one at the top, which others share, and a variable must not nearly be."""
        names = {setting.name for setting in settings}
        shared = {setting.name for setting in settings if not setting.private} | {OFFSET}
        variables = {setting.variable for setting in settings}
        own = f"{PREFIX}{self._program.upper()}_"
        for key in self._table.keys() - names:
            self._refuse(f"{key} in [{self._program}] of {self._path}", _nearest(key, names))
        for key in self._top.keys() - shared - (elsewhere or frozenset()):
            if (near := _nearest(key, shared)) or elsewhere is not None:
                self._refuse(f"{key} in {self._path}", near)
        for key in self._environ.keys() - variables:
            theirs = key.startswith(PRIVATE_VARIABLES) or elsewhere is None
            if not key.startswith(own) and theirs:
                continue  # who does not know the others' variables cannot tell a slip from one of them
            known = elsewhere is not None and key.removeprefix(PREFIX).lower() in elsewhere
            if key.startswith(PREFIX) and not known and (near := _nearest(key, variables)):
                self._refuse(key, near)

    def _refuse(self, what: str, near: str) -> None:
        raise SettingsError(f"unknown setting {what}{near and f', did you mean {near}?'}")


def _plain(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:.12g}"


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.88)
    return near[0] if near else ""


def _parsed(kind: Any, raw: Any) -> Any:
    """``raw`` as a ``kind``, None when it is none; the environment gives text, the file also numbers and truth."""
    if kind is bool:
        word = raw.lower() if isinstance(raw, str) else raw
        return (
            True
            if word in _TRUE or word is True
            else False
            if word in _FALSE or word is False
            else None
        )
    if kind is Path or kind is str:
        usable = isinstance(raw, str | Path) and (kind is str or str(raw))
        return kind(raw) if usable else None
    if isinstance(raw, bool) or not isinstance(
        raw, (int, str) if kind is int else (int, float, str)
    ):
        return None
    try:
        return kind(raw)
    except ValueError:
        return None
