"""A line on the terminal that states how far a command is, and notices beside its output."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import click

from engine.base.tasks import TaskScope
from magnetar.command.output import safe

EVERY_S = 1.0
_CLEAR = "\r\x1b[K"


@asynccontextmanager
async def progress(text: Callable[[], str], *, shown: bool = True) -> AsyncIterator[None]:
    """Show ``text()`` once a second while the body runs, when the standard error is a terminal; then remove it."""
    if not shown or not sys.stderr.isatty():
        yield
        return

    async def show() -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            click.echo(f"{_CLEAR}{text()}", err=True, nl=False)

    tasks = TaskScope("progress")
    tasks.spawn("progress", show())
    try:
        yield
    finally:
        await tasks.close()
        click.echo(_CLEAR, err=True, nl=False)


def notice(text: str) -> None:
    """Write a line to the standard error."""
    click.echo(safe(text), err=True)


def count(number: int, noun: str = "message") -> str:
    """Return ``1 message``, ``12,000 messages``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
