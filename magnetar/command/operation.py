"""Options and failures that commands of operation have in common."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from engine.base.errors import MagnetarError
from engine.base.settings import SettingsError
from engine.programs.process import StartError
from gateway.database.copies import DatabaseCopyError
from gateway.standalone.data_folder import DataFolderError
from magnetar.command.exits import CommandFailed, Exit
from magnetar.operate.place import OperatedPlace

F = TypeVar("F", bound=Callable[..., Any])


def data_dir_option(function: F) -> F:
    """Add the option that names the data folder, as the parameter ``data_dir``."""
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="The data folder of the instance, or of the gateway; the default is that of `magnetar run`.",
    )(function)


def place_of(data_dir: Path | None) -> OperatedPlace:
    """Return what the settings of this process name. Raises CommandFailed."""
    with failures():
        return OperatedPlace.load(os.environ, Path.cwd(), data_dir)


@contextmanager
def failures() -> Iterator[None]:
    """Turn errors of the operation into CommandFailed."""
    try:
        yield
    except SettingsError as error:
        raise CommandFailed(str(error), Exit.SETTINGS) from error
    except (MagnetarError, DatabaseCopyError, DataFolderError, StartError) as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        hint = "Free space, or choose another disk" if error.errno == errno.ENOSPC else ""
        raise CommandFailed(f"{place}{error.strerror or error}", hint=hint) from error


def report(text: str) -> None:
    """Show progress, apart from the command's output."""
    click.echo(f"magnetar: {text}", err=True)
