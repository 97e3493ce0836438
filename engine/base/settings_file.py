"""``magnetar.toml``: one file of settings for every process of an instance, a table for each kind of process."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.base.errors import MagnetarError

VARIABLE = "MAGNETAR_CONFIG"
"""Names another file, which must then exist."""
DEFAULT = "magnetar.toml"


class SettingsError(MagnetarError, ValueError):
    """The file is missing though it was named, or cannot be read; or a setting is unknown, unreadable, out of range.

    The message is one line, naming it. The process must not start.
    """


def settings_path(environ: Mapping[str, str], directory: Path) -> Path:
    """The file that is read: ``MAGNETAR_CONFIG`` or ``magnetar.toml``, relative to ``directory``."""
    return directory / environ.get(VARIABLE, DEFAULT)


def read_settings(
    environ: Mapping[str, str], directory: Path, table: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keys at the top level, which all processes share, and those in ``[table]``; both empty without a file.

    Raises SettingsError.
    """
    path = settings_path(environ, directory)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if VARIABLE in environ:
            raise SettingsError(f"{VARIABLE} names {path}, which is missing") from None
        return {}, {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from error
    own = document.get(table, {})
    if not isinstance(own, dict):
        raise SettingsError(f"{path}: [{table}] must be a table")
    # Other tables belong to the other programs of the instance.
    shared = {key: value for key, value in document.items() if not isinstance(value, dict)}
    return shared, own
