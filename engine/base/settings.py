"""Loader of settings for all programs: defaults, ``magnetar.toml``, ``MAGNETAR_*`` variables, command line.

The settings of a program are a dataclass of groups. A group is a frozen dataclass beside the code that reads it. Its
fields are declared by ``count``, ``size``, ``number``, ``port``, ``flag``, ``text`` and ``folder`` with range and
meaning, or by ``internal`` if they are not settings. ``docs/settings.md`` is generated from these declarations
(``page``).

A setting ``http_port`` of the program ``gateway`` is read from the variable ``MAGNETAR_HTTP_PORT``, else from a key of
``[gateway]``, else from a key at the top of the file, which all programs share. Settings of a *private* group belong to
one program: they are read from ``MAGNETAR_<PROGRAM>_<NAME>``, else from a key of its table. Unreadable, unknown and
out-of-range settings raise SettingsError.
"""

import argparse
import difflib
import os
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, cast

from engine.base.errors import MagnetarError, MisuseError

PREFIX = "MAGNETAR_"
CONFIG = "MAGNETAR_CONFIG"
"""Variable that names another file than ``magnetar.toml``; the file must exist then."""
DEFAULT_FILE = "magnetar.toml"
OFFSET = "port_offset"
COUNT_MAX = (1 << 31) - 1
SIZE_MAX = 1 << 50
PORT_MAX = 65535
PRIVATE: Mapping[str, bool] = {"private": True}
"""Metadata of a private group in a program's dataclass."""
HIDDEN = "********"
"""Shown instead of the value of a secret setting, unless that is empty."""
PRIVATE_VARIABLES = (
    "MAGNETAR_BOOKIE_",
    "MAGNETAR_FUNCTIONS_WORKER_",
    "MAGNETAR_METADATA_SERVER_",
    "MAGNETAR_PROVIDER_",
    "MAGNETAR_PROXY_",
)
"""Prefixes of variables that only one program reads."""

PACKAGES = Path(__file__).resolve().parents[2]
"""Folder of our packages: the checkout, or ``magnetar/lib`` of an installed wheel."""
SHOWN_DATA_FOLDER = "`~/.local/share/magnetar`; of a checkout its `data`"

RESEMBLING = frozenset(
    {
        *("broker_client_authentication_plugin", "bookkeeper_client_authentication_plugin"),
        *("database_tls_certificate_file_path", "database_tls_trust_certs_file_path"),
        *("redis_tls_certificate_file_path", "redis_tls_trust_certs_file_path"),
        "broker_http_port_tls",
    }
)
"""Settings at the top of the file whose names resemble those of other programs: these do not refuse them."""

_NO_VALUES: Mapping[str, Any] = {}
_FOREIGN_NAME = re.compile(r"\(([a-z]\w+)\)$")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")

T = TypeVar("T")


class SettingsError(MagnetarError, ValueError):
    """An unknown, unreadable or out-of-range setting, or an unreadable file; the process must not start.

    The message is one line with the setting, its allowed values, and the given value.
    """


def count(default: int, help: str, *, low: int = 0, high: int = COUNT_MAX, name: str = "") -> int:
    """Declare a whole number. ``name`` is the name of the setting if it differs from the field's."""
    return _setting(default, help, low=low, high=high, name=name)


def size(default: int, help: str, *, low: int = 0, high: int = SIZE_MAX) -> int:
    """Declare a number of bytes."""
    return _setting(default, help, low=low, high=high, bytes=True)


def number(default: float, help: str, *, low: float = 0.0, high: float = 1e9) -> float:
    """Declare a number with a fraction, such as a time in seconds."""
    return _setting(default, help, low=low, high=high)


def port(default: int, help: str, *, low: int = 1) -> int:
    """Declare a port, to which ``port_offset`` is added unless it is given; ``low`` 0 lets the system choose."""
    return _setting(default, help, low=low, high=PORT_MAX, port=True)


def flag(default: bool, help: str, *, name: str = "") -> bool:
    """Declare a boolean. ``name`` is the name of the setting if it differs from the field's."""
    return _setting(default, help, name=name)


def text(default: str, help: str, *, choices: tuple[str, ...] = (), name: str = "") -> str:
    """Declare a text, which is one of ``choices`` if there are any."""
    return _setting(default, help, choices=choices, name=name)


def secret(help: str) -> str:
    """Declare a text that is empty by default and whose value is shown nowhere (A11)."""
    return field(default="", repr=False, metadata={"help": help, "secret": True})


def folder(default: str, help: str) -> Path:
    """Declare a folder, relative to the working directory of the process."""
    return _setting(Path(default), help)


def data_folder(help: str) -> Path:
    """Declare the folder of an instance's data. By default it is that of the user; of a checkout, ``data`` in it."""
    return _setting(default_data_folder(os.environ), help, shown=SHOWN_DATA_FOLDER)


def is_installed(packages: Path = PACKAGES) -> bool:
    """Return whether this is an installed wheel, not a checkout."""
    return (packages.parent.name, packages.name) == ("magnetar", "lib")


def command() -> str:
    """Return how a user of this machine calls the command: in a checkout, from its folder."""
    return "magnetar" if is_installed() else ".venv/bin/magnetar"


def default_data_folder(environ: Mapping[str, str], packages: Path = PACKAGES) -> Path:
    """Return where an instance keeps its data unless a setting names another folder."""
    if not is_installed(packages):
        return packages / "data"
    base = Path(environ.get("XDG_DATA_HOME", ""))
    # By the XDG specification a relative path is as good as none.
    home = base if base.is_absolute() else Path(environ.get("HOME") or "/", ".local", "share")
    return home / "magnetar"


def maybe_port(help: str, *, low: int = 1, shown: str = "none") -> int | None:
    """Declare a port that is None unless given; ``shown`` is the default in docs/settings.md."""
    return _setting(None, help, low=low, high=PORT_MAX, shown=shown)


def live(setting: T) -> T:
    """Declare a setting, which another function here declared, as changeable while the process runs."""
    declared = cast("Field[Any]", setting)
    return cast(T, field(default=declared.default, metadata={**declared.metadata, "live": True}))


def internal(default: T) -> T:
    """Declare a field that is not a setting, because the program decides its value."""
    return field(default=default, metadata={"internal": True})


def _setting(default: T, help: str, **metadata: Any) -> T:
    return field(default=default, metadata={"help": help, **metadata})


class Setting(NamedTuple):
    """A setting of one program."""

    program: str
    private: bool
    item: Field[Any]
    kind: Any

    @property
    def name(self) -> str:
        return self.item.metadata.get("name") or self.item.name

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        own = f"{self.program}_" if self.private else ""
        return f"{PREFIX}{own}{self.name}".upper()

    @property
    def pulsar_name(self) -> str:
        """Pulsar's or BookKeeper's name of the setting; empty without one."""
        match = _FOREIGN_NAME.search(self.item.metadata["help"])
        return match[1] if match is not None else ""

    @property
    def meaning(self) -> str:
        """Help text for docs/settings.md."""
        marks = f"{'; *secret*' if self.is_secret else ''}{'; *live*' if self.is_live else ''}"
        return f"{self.item.metadata['help']}{marks}"

    @property
    def is_live(self) -> bool:
        """True if the setting may change while the process runs."""
        return bool(self.item.metadata.get("live"))

    @property
    def is_secret(self) -> bool:
        """True if the value must not be shown."""
        return bool(self.item.metadata.get("secret"))

    @property
    def allowed(self) -> str:
        """Allowed values, in words that follow "must be"."""
        if self.kind is Path:
            return "the name of a folder"
        if self.kind in (int, float):
            return f"a {'whole ' if self.kind is int else ''}number from {self.range}"
        return f"one of {self.range}" if self.item.metadata.get("choices") else self.range

    @property
    def range(self) -> str:
        """Allowed values in short form, for docs/settings.md."""
        if self.kind in (int, float):
            return f"{_plain(self.item.metadata['low'])} to {_plain(self.item.metadata['high'])}"
        if choices := self.item.metadata.get("choices"):
            return ", ".join(choices)
        return {bool: "true or false", Path: "a folder", str: "text"}[self.kind]

    @property
    def default(self) -> str:
        """Default value for docs/settings.md."""
        default: Any = self.item.default
        if isinstance(default, Path):
            return str(self.item.metadata.get("shown", f"`{default}`"))
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
        """Parse and check a value from the environment, the file or the command line. Raises SettingsError."""
        value = _parsed(self.kind, raw)
        self.check(value, raw)
        return value

    def check(self, value: Any, raw: Any) -> None:
        """Raise SettingsError when ``value``, given as ``raw``, is None or out of range."""
        low, high = self.item.metadata.get("low"), self.item.metadata.get("high")
        choices = self.item.metadata.get("choices")
        if (
            value is None
            or (low is not None and not low <= value <= high)
            or (choices and value not in choices)
        ):
            shown = HIDDEN if self.is_secret else repr(raw)
            raise SettingsError(f"{self.name} must be {self.allowed}, not {shown}")


def check_ranges(group: Any) -> None:
    """Check the values of a group, for ``__post_init__`` of groups that tests and jobs create. Raises SettingsError."""
    for setting in settings_of(type(group), "", False):
        value = getattr(group, setting.item.name)
        if value is not None:
            setting.check(value, value)


def settings_of(group: type, program: str, private: bool) -> Iterator[Setting]:
    """Yield the settings of a group. Raises MisuseError for a field that no function above declared."""
    hints = typing.get_type_hints(group)
    for item in fields(group):
        if item.metadata.get("internal"):
            continue
        if "help" not in item.metadata:
            raise MisuseError(f"{group.__name__}.{item.name} is neither a setting nor internal")
        kind = hints[item.name]
        if isinstance(kind, types.UnionType):
            kind = next(member for member in kind.__args__ if member is not types.NoneType)
        yield Setting(program, private, item, kind)


def overridden(group: T, values: Mapping[str, Any]) -> tuple[T, dict[str, str]]:
    """Return the group with the live settings in ``values``, by Pulsar's names.

    The second result has the reasons why values were refused, by name.
    """
    kind: type = type(group)
    live, changed, refused = _live_settings(kind), group, {}
    for name, raw in values.items():
        setting = live.get(name)
        if setting is not None:
            try:
                changed = replace(changed, **{setting.item.name: setting.read(raw)})  # type: ignore[type-var]
            except ValueError as error:
                refused[name] = str(error).removeprefix(f"{setting.name} ")
    return changed, refused


@lru_cache
def _live_settings(group: type) -> Mapping[str, Setting]:
    """Return the settings that may change while a process runs, by Pulsar's names."""
    return {
        setting.pulsar_name: setting
        for setting in settings_of(group, "", False)
        if setting.is_live and setting.pulsar_name
    }


@dataclass(frozen=True, slots=True)
class Program(Generic[T]):
    """A kind of process. ``name`` is the name of its table, ``kind`` the dataclass of its groups.

    ``elsewhere`` has the keys at the top of the file that only other programs read; any other unknown key there is
    refused. Without ``elsewhere``, only keys similar to the program's own are refused. A ``partial`` program refuses no
    names: it is a command that reads some settings of a program, which checks all names itself.
    """

    name: str
    kind: type[T]
    elsewhere: frozenset[str] | None = None
    partial: bool = False

    def groups(self) -> Iterator[tuple[str, type, bool]]:
        """Yield the name and dataclass of each group, and whether the group is private."""
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
        """Load the settings. ``directory`` contains the file.

        ``given`` has the values of the command line by name, None for those that are not given. Raises SettingsError.
        """
        source = _Source(self.name, environ, directory, given)
        groups: dict[str, Any] = {
            name: source.fill(group, private) for name, group, private in self.groups()
        }
        if not self.partial:
            source.refuse_unknown(self.settings(), self.elsewhere)
        return self.kind(**groups)


@dataclass(frozen=True, slots=True)
class PortOffset:
    """Offset of an instance's ports, so that a second instance on a machine needs one variable."""

    port_offset: int = count(0, "added to every port that is not given", high=PORT_MAX)


_PAGE = """# Settings

Generated by `manage.py settings_reference` from the declarations beside the code that reads them; do not edit.

The sources of a setting `broker_port`, the first that has it:

1. the command line;
2. the variable `MAGNETAR_BROKER_PORT`;
3. a key of the program's table in `magnetar.toml` (`MAGNETAR_CONFIG` may name another file);
4. a key at the top of that file, which all programs share. A setting with its program's name in its variable is not
   read from there.

An unreadable, unknown or out-of-range setting stops the process with one line that names it (status 78). Pulsar's or
BookKeeper's name of a setting is in brackets. The value of a *secret* setting is shown nowhere. A *live* setting may
be changed by that name while brokers run, for all of them: `/admin/v2/brokers/configuration` and
`pulsar-admin brokers update-dynamic-config`.
"""
_HEAD = "| setting | default | may be | meaning | variable |\n|---|---|---|---|---|"


def page(programs: Iterable[Program[Any]]) -> str:
    """Return the text of ``docs/settings.md``: first the groups that several programs read, then those of each."""
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
            f"| `{setting.name}` | {setting.default} | {setting.range} | {setting.meaning} | `{setting.variable}` |"
            for setting in tables[group]
        ]
        parts.append("\n".join([_HEAD, *rows, ""]))
    return "\n".join(parts)


class _Source:
    """Sources of values, in this order: command line, environment, the program's table, the top of the file."""

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
        """Return the value given for a setting and its origin, None without one."""
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
        """Raise SettingsError for keys and variables that are misspelt.

        A key of the program's table must be one of its settings. A key at the top must be one of these or of
        ``elsewhere``. A program without ``elsewhere`` does not know the settings of other programs, so it refuses only
        those names that are similar to its own.
        """
        private = {setting.name for setting in settings if setting.private}
        shared = {setting.name for setting in settings if not setting.private} | {OFFSET}
        for key in sorted(self._table.keys() - private - shared):
            near = _nearest(key, private | shared)
            self._refuse(f"{key} in [{self._program}] of {self._path}", near)
        for key in sorted(self._top.keys() - shared - (elsewhere or frozenset())):
            near = "" if key in RESEMBLING else _nearest(key, shared)
            if near or elsewhere is not None:
                self._refuse(f"{key} in {self._path}", near)
        own = f"{PREFIX}{self._program}_".upper()
        self._refuse_similar(own, private, ())
        if elsewhere is not None:
            self._refuse_similar(PREFIX, shared | elsewhere, PRIVATE_VARIABLES)

    def _refuse_similar(self, prefix: str, names: set[str], passed: tuple[str, ...]) -> None:
        """Refuse variables that begin with ``prefix``, but not with one of ``passed``, and are similar to a name."""
        for key in sorted(self._environ):
            name = key.removeprefix(prefix).lower()
            if not key.startswith(prefix) or key.startswith(passed) or name in names:
                continue
            if near := _nearest(name, names):
                self._refuse(key, f"{prefix}{near}".upper())

    def _refuse(self, setting: str, near: str) -> None:
        raise SettingsError(f"unknown setting {setting}{near and f', did you mean {near}?'}")


def _plain(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:.12g}"


def _nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.88)
    return near[0] if near else ""


def _parsed(kind: Any, raw: Any) -> Any:
    """Return ``raw`` as a ``kind``, None when it cannot be converted.

    The environment has texts; the file also has numbers and booleans.
    """
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


class ProgramParser(argparse.ArgumentParser):
    """Parser of a program's command line.

    Wrong usage is reported in one line, and ends the process with status 2; ``--help`` has the usage.
    """

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())}. See {self.prog} --help\n")
