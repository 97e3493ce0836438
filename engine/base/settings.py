"""The one loader of settings, for every program: defaults, ``magnetar.toml``, ``MAGNETAR_*`` variables, command line.

A program is told a dataclass of groups; a group is a frozen dataclass beside the code that reads it, its fields are
made by ``count``, ``size``, ``number``, ``port``, ``flag``, ``text`` and ``folder``, which hold range and meaning, or
by ``internal`` where they are no settings. ``docs/settings.md`` is written from these declarations (``page``).

A setting ``http_port`` of the program ``gateway`` is the variable ``MAGNETAR_HTTP_PORT``, else a key of ``[gateway]``,
else one at the top of the file, which all programs share. Settings of a *private* group are of one program alone:
``MAGNETAR_<PROGRAM>_<NAME>``, else a key of its table. What is unreadable, unknown or out of range is a SettingsError.
"""

import difflib
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

from engine.base.errors import MagnetarError, MisuseError

PREFIX = "MAGNETAR_"
CONFIG = "MAGNETAR_CONFIG"
"""Names another file than ``magnetar.toml``, which must then exist."""
DEFAULT_FILE = "magnetar.toml"
OFFSET = "port_offset"
COUNT_MAX = (1 << 31) - 1
SIZE_MAX = 1 << 50
PORT_MAX = 65535
PRIVATE: Mapping[str, bool] = {"private": True}
"""Metadata of a program's private group."""
PRIVATE_VARIABLES = ("MAGNETAR_BOOKIE_",)
"""Variables of a program of which the others know nothing."""

_NO_VALUES: Mapping[str, Any] = {}
_FOREIGN_NAME = re.compile(r"\(([a-z]\w+)\)$")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")

T = TypeVar("T")


class SettingsError(MagnetarError, ValueError):
    """A setting is unknown, unreadable or out of range, or the file cannot be read; the process must not start.

    The message is one line that names the setting, what it may be, and the value given.
    """


def count(default: int, help: str, *, low: int = 0, high: int = COUNT_MAX, name: str = "") -> int:
    """A whole number. ``name``: the setting's, where it is not the field's."""
    return _setting(default, help, low=low, high=high, name=name)


def size(default: int, help: str, *, low: int = 0, high: int = SIZE_MAX) -> int:
    """A number of bytes."""
    return _setting(default, help, low=low, high=high, bytes=True)


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


def live(setting: T) -> T:
    """A setting, made by one of the others, that may change while the process runs."""
    made = cast("Field[Any]", setting)
    return cast(T, field(default=made.default, metadata={**made.metadata, "live": True}))


def internal(default: T) -> T:
    """A field that is no setting: others decide it."""
    return field(default=default, metadata={"internal": True})


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
    def pulsar_name(self) -> str:
        """Pulsar's or BookKeeper's name of it; empty where it has none."""
        found = _FOREIGN_NAME.search(self.item.metadata["help"])
        return found[1] if found is not None else ""

    @property
    def meaning(self) -> str:
        """As the page shows it."""
        return f"{self.item.metadata['help']}{'; *live*' if self.is_live else ''}"

    @property
    def is_live(self) -> bool:
        """Whether it may change while the process runs."""
        return bool(self.item.metadata.get("live"))

    @property
    def allowed(self) -> str:
        """What it may be, in words that follow "must be"."""
        if self.kind is Path:
            return "the name of a folder"
        if self.kind in (int, float):
            return f"a {'whole ' if self.kind is int else ''}number from {self.range}"
        return f"one of {self.range}" if self.item.metadata.get("choices") else self.range

    @property
    def range(self) -> str:
        """The same in as few words as the page has room for."""
        if self.kind in (int, float):
            return f"{_plain(self.item.metadata['low'])} to {_plain(self.item.metadata['high'])}"
        if choices := self.item.metadata.get("choices"):
            return ", ".join(choices)
        return {bool: "true or false", Path: "a folder", str: "text"}[self.kind]

    @property
    def default(self) -> str:
        """As the page shows it."""
        default: Any = self.item.default
        if self.item.metadata.get("port"):
            return f"{default} + {OFFSET}"
        if isinstance(default, bool):
            return str(default).lower()
        if default is None or default == "":
            return str(self.item.metadata.get("shown", "empty"))
        units = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
        if self.item.metadata.get("bytes") and default > 0:
            return next((f"{default // u} {unit}" for u, unit in units if not default % u), default)
        return _plain(default) if isinstance(default, int | float) else f"`{default}`"

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
    """Raises MisuseError for a field that was not declared by one of the functions above."""
    hints = typing.get_type_hints(group)
    for item in fields(group):
        if item.metadata.get("internal"):
            continue
        if "help" not in item.metadata:
            raise MisuseError(f"{group.__name__}.{item.name} is neither a setting nor internal")
        kind = hints[item.name]
        if isinstance(kind, types.UnionType):
            kind = next(one for one in kind.__args__ if one is not types.NoneType)
        yield Setting(program, private, item, kind)


def overridden(group: T, values: Mapping[str, Any]) -> tuple[T, dict[str, str]]:
    """The group with those of ``values``, by Pulsar's names, that may change while a process runs; and why some of
    them are left out, by name."""
    kind: type = type(group)
    live, found, refused = _live_settings(kind), group, {}
    for name, raw in values.items():
        setting = live.get(name)
        if setting is not None:
            try:
                found = replace(found, **{setting.item.name: setting.read(raw)})  # type: ignore[type-var]
            except ValueError as error:
                refused[name] = str(error).removeprefix(f"{setting.name} ")
    return found, refused


@lru_cache
def _live_settings(group: type) -> Mapping[str, Setting]:
    """Those that may change while a process runs, by Pulsar's names."""
    settings = settings_of(group, "", False)
    return {one.pulsar_name: one for one in settings if one.is_live and one.pulsar_name}


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
    """What moves the ports of an instance, so that a second one needs one variable."""

    port_offset: int = count(0, "added to every port that is not given", high=PORT_MAX)


_PAGE = """# Settings

Written by `manage.py settings_reference` from the declarations beside the code that reads them; do not edit.

A setting `broker_port` is the variable `MAGNETAR_BROKER_PORT`, else a key of the program's table in `magnetar.toml`
(`MAGNETAR_CONFIG` may name another file), else a key at the top of that file, which all programs share. What stands on
a command line goes before all of them. A setting that has its program's name in its variable is not taken from the top
of the file. What is unreadable, unknown or out of range stops the process with one line that names it (status 78).
Pulsar's or BookKeeper's name of a setting stands in brackets. What is *live* may be changed while brokers run, for all
of them, by that name: `/admin/v2/brokers/configuration` and `pulsar-admin brokers update-dynamic-config`.
"""
_HEAD = "| setting | default | may be | meaning | variable |\n|---|---|---|---|---|"


def page(programs: Iterable[Program[Any]]) -> str:
    """``docs/settings.md``: first what several programs are told, then what each of them is told alone."""
    readers: dict[type, list[str]] = {}
    tables: dict[type, list[Setting]] = {}
    for program in programs:
        for _, group, private in (("", PortOffset, False), *program.groups()):
            if program.name not in readers.setdefault(group, []):
                readers[group].append(program.name)
            tables[group] = list(settings_of(group, program.name, private))
    parts, title = [_PAGE], ""
    for group, names in sorted(readers.items(), key=lambda item: len(item[1]) == 1):
        heading = names[0] if len(names) == 1 else "several programs"
        if heading != title:
            title = heading
            parts.append(f"## {title}\n")
        about = " ".join((group.__doc__ or "").split()).replace("``", "`")
        parts.append(f"{about} Read by {', '.join(names)}.\n" if len(names) > 1 else f"{about}\n")
        rows = [
            f"| `{one.name}` | {one.default} | {one.range} | {one.meaning} | `{one.variable}` |"
            for one in tables[group]
        ]
        parts.append("\n".join([_HEAD, *rows, ""]))
    return "\n".join(parts)


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

    def refuse_unknown(self, settings: list[Setting], elsewhere: frozenset[str] | None) -> None:
        """A key of our table must be ours, one at the top that or one of ``elsewhere``; a variable must not nearly be
        ours. Who does not know the others' settings cannot tell a slip from one of them."""
        private = {setting.name for setting in settings if setting.private}
        shared = {setting.name for setting in settings if not setting.private} | {OFFSET}
        for key in sorted(self._table.keys() - private - shared):
            near = _nearest(key, private | shared)
            self._refuse(f"{key} in [{self._program}] of {self._path}", near)
        for key in sorted(self._top.keys() - shared - (elsewhere or frozenset())):
            if (near := _nearest(key, shared)) or elsewhere is not None:
                self._refuse(f"{key} in {self._path}", near)
        own = f"{PREFIX}{self._program}_".upper()
        self._refuse_slips(own, private, ())
        if elsewhere is not None:
            self._refuse_slips(PREFIX, shared | elsewhere, PRIVATE_VARIABLES)

    def _refuse_slips(self, prefix: str, names: set[str], passed: tuple[str, ...]) -> None:
        """Variables that begin with ``prefix``, but not with one of ``passed``, and nearly name one of ``names``."""
        for key in sorted(self._environ):
            name = key.removeprefix(prefix).lower()
            if not key.startswith(prefix) or key.startswith(passed) or name in names:
                continue
            if near := _nearest(name, names):
                self._refuse(key, f"{prefix}{near}".upper())

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
