"""Calls of the REST interface by commands of a few requests each."""

import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import click

from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed, Exit

confirmed = click.option("--yes", "-y", is_flag=True, help="Do not ask for a confirmation.")
"""The option of commands that remove or move something."""


def call(connection: ClusterAddress, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Return the result of ``work``, which is called with the REST interface. Raises CommandFailed."""
    from magnetar.command.connecting.admin import administered
    from magnetar.command.connecting.client import run

    async def with_admin() -> Any:
        async with administered(connection) as admin:
            return await work(admin)

    return run(with_admin(), connection)


def path_of(topic: str) -> tuple[str, str]:
    """Return the full name of a topic and its path. Raises CommandFailed."""
    from magnetar.command.connecting.admin import topic_path
    from magnetar.command.connecting.client import full_name

    name = full_name(topic)
    return name, topic_path(name)


def confirm(question: str, yes: bool) -> None:
    """Ask before something is lost. Raises CommandFailed when the answer is no, or there is no terminal to ask at."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(f"not confirmed: {question}", Exit.USAGE, "Confirm with --yes")
    if not click.confirm(question, err=True):
        raise CommandFailed("not confirmed: nothing was changed")


async def partition_count(admin: Any, path: str) -> int:
    """Return the number of a topic's partitions, 0 without. Raises CommandFailed."""
    answer = await admin.call("GET", f"{path}/partitions")
    return int(answer["partitions"]) if isinstance(answer, dict) else 0


def subscription_type(stats: dict[str, Any]) -> str:
    """Return the type of a subscription by its statistics; ``-`` before its first consumer."""
    kind = stats.get("type")
    return "-" if kind in (None, "None", "") else str(kind)


async def cluster_path(admin: Any) -> str:
    """Return the path, in the console API, of the cluster that the address is of."""
    environment = await admin.call("GET", "/api/v1/environment")
    return f"/api/v1/clusters/{quote(environment['cluster'], safe='')}"


def topic_tail(topic: str) -> str:
    """Return the path of a topic with this full name behind that of its cluster."""
    from engine.base.names import split_topic

    parts = split_topic(topic)
    named = (parts.domain, parts.tenant, parts.namespace, parts.topic)
    return "/".join(("topics", *(quote(part, safe="") for part in named)))
