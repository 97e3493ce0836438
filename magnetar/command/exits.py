"""The exit codes of the command, and the errors that lead to them. Those of other programs are kept: 78 of a server
that cannot start with its settings."""

from enum import IntEnum
from typing import IO, Any

import click

from magnetar.command.output import safe


class Exit(IntEnum):
    """Exit codes. The text of each stands in the command line's reference."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    MISSING = 5
    SETTINGS = 78
    INTERRUPTED = 130


MEANINGS = {
    Exit.DONE: "done; of `doctor`: no problem was found",
    Exit.FAILED: "the operation failed, or `doctor` found a problem; the message has the reason",
    Exit.USAGE: "wrong usage: an unknown option, or a value out of range",
    Exit.UNREACHABLE: "no server answers at the address, or not within the time",
    Exit.REFUSED: "not signed in, or without the right; the message names the right",
    Exit.MISSING: "what the command names does not exist",
    Exit.SETTINGS: "a server cannot start with its settings; a restart cannot help",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}


class CommandFailed(click.ClickException):
    """A command ends with ``code`` and one line: the cause and, after ``hint``, what to do."""

    def __init__(self, message: str, code: Exit = Exit.FAILED, hint: str = "") -> None:
        super().__init__(message)
        self.exit_code = int(code)  # type: ignore[misc]  # click declares it of the class
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Write ``magnetar: CAUSE. HINT`` to the standard error."""
        text = f"{self.message}. {self.hint}" if self.hint else self.message
        # It may quote what a server or a message says.
        click.echo(f"magnetar: {safe(text)}", err=True, file=file)
