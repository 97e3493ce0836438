"""Settings of the engine, loaded once at process start: defaults, ``magnetar.toml``, then ``MAGNETAR_*`` variables.

Each package keeps its own frozen dataclass beside the code that reads it; here they are gathered and filled. A field
``broker_port`` is the key ``broker_port`` of the file (top level or in ``[broker]``) and the variable
``MAGNETAR_BROKER_PORT``. A field's metadata may hold ``setting`` (another name), ``low``, ``high``, ``choices``, and
``port`` (the default is moved by ``MAGNETAR_PORT_OFFSET``). Anything unreadable, unknown or out of range raises
SettingsError, whose text is one line naming the setting and its range.
"""

import difflib
import typing
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from engine.base.errors import MisuseError
from engine.base.settings_file import SettingsError, read_settings, settings_path
from engine.broker.settings import DataPathSettings, LedgerDefaults, NodeSettings
from engine.ledger.settings import LedgerSettings
from engine.managed.settings import ManagedSettings
from engine.tenancy.settings import PolicySettings

PREFIX = "MAGNETAR_"
TABLE = "broker"
OFFSET = "port_offset"
# Shared with the other processes of an instance, which read them on their own.
ELSEWHERE = frozenset(
    f"config control_socket http_port {OFFSET} redis_port redis_url spark_port bookie_port bookie_http_port"
    " allowed_hosts secret_key".split()
)
_PORT_MAX = 65535
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a broker process is told from outside."""

    node: NodeSettings
    data_path: DataPathSettings
    defaults: LedgerDefaults
    policies: PolicySettings
    managed: ManagedSettings
    ledger: LedgerSettings


def load(environ: Mapping[str, str], directory: Path) -> Settings:
    """Settings from the environment and the file ``MAGNETAR_CONFIG`` or ``magnetar.toml`` in ``directory``.

    Raises SettingsError.
    """
    source = _Source(environ, directory)
    settings = Settings(
        node=source.fill(NodeSettings),
        data_path=source.fill(DataPathSettings),
        defaults=source.fill(LedgerDefaults),
        policies=source.fill(PolicySettings),
        managed=source.fill(ManagedSettings),
        ledger=source.fill(LedgerSettings),
    )
    source.refuse_unknown()
    return settings


class _Source:
    """Values by setting name, the environment before the file; remembers which names were asked for."""

    def __init__(self, environ: Mapping[str, str], directory: Path) -> None:
        self._environ = {
            name.removeprefix(PREFIX).lower(): value
            for name, value in environ.items()
            if name.startswith(PREFIX)
        }
        self._path = settings_path(environ, directory)
        shared, own = read_settings(environ, directory, TABLE)
        self._file = {**shared, **own}
        self._known: set[str] = set()
        self._offset = _whole(OFFSET, self._value(OFFSET, 0), 0, _PORT_MAX)

    def _value(self, name: str, default: Any) -> Any:
        return self._environ.get(name, self._file.get(name, default))

    def fill(self, kind: type[T]) -> T:
        """An instance of the dataclass ``kind``."""
        hints = typing.get_type_hints(kind)
        values: dict[str, Any] = {}
        for item in fields(kind):  # type: ignore[arg-type]
            name = str(item.metadata.get("setting", item.name))
            self._known.add(name)
            raw = self._value(name, None)
            if raw is not None:
                values[item.name] = _converted(name, raw, hints[item.name], item)
            elif item.metadata.get("port") and self._offset:
                default = _whole(name, item.default, 1, _PORT_MAX)
                what = f"{name} (moved by {OFFSET})"
                values[item.name] = _whole(what, default + self._offset, 1, _PORT_MAX)
        try:
            return kind(**values)
        except (ValueError, MisuseError) as error:
            raise SettingsError(f"setting {error}") from error

    def refuse_unknown(self) -> None:
        """Keys of the file must be ours or another program's; a variable that nearly is ours is a slip."""
        for name in sorted(self._file.keys() - self._known - ELSEWHERE):
            raise SettingsError(f"unknown setting {name} in {self._path}{self._meant(name)}")
        for name in sorted(self._environ.keys() - self._known - ELSEWHERE):
            if self._meant(name):
                raise SettingsError(f"unknown setting {PREFIX}{name.upper()}{self._meant(name)}")

    def _meant(self, name: str) -> str:
        near = difflib.get_close_matches(name, sorted(self._known), n=1, cutoff=0.88)
        return f", did you mean {near[0]}?" if near else ""


def _converted(name: str, raw: Any, kind: Any, item: Field[Any]) -> Any:
    low, high = item.metadata.get("low"), item.metadata.get("high")
    if kind is bool:
        return _boolean(name, raw)
    if kind is int:
        return _whole(name, raw, low, high)
    if kind is float:
        return _number(name, raw, low, high)
    if not isinstance(raw, str):
        raise SettingsError(f"setting {name} must be text, not {raw!r}")
    choices = item.metadata.get("choices")
    if choices is not None and raw not in choices:
        raise SettingsError(f"setting {name} must be one of {', '.join(choices)}, not {raw!r}")
    return Path(raw) if kind is Path else raw


def _boolean(name: str, raw: Any) -> bool:
    text = str(raw).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise SettingsError(f"setting {name} must be true or false, not {raw!r}")


def _whole(name: str, raw: Any, low: int | None, high: int | None) -> int:
    try:
        value = int(raw) if isinstance(raw, (int, str)) and not isinstance(raw, bool) else None
    except ValueError:
        value = None
    if value is None or not _within(value, low, high):
        raise SettingsError(
            f"setting {name} must be a whole number{_range(low, high)}, not {raw!r}"
        )
    return value


def _number(name: str, raw: Any, low: float | None, high: float | None) -> float:
    try:
        value = float(raw) if isinstance(raw, (int, float, str)) else None
    except ValueError:
        value = None
    if value is None or not _within(value, low, high):
        raise SettingsError(f"setting {name} must be a number{_range(low, high)}, not {raw!r}")
    return value


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _range(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f" of at least {low}"
    return f" from {low} to {high}" if low is not None else f" of at most {high}"
