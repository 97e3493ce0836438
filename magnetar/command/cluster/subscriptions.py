"""``magnetar subscriptions``: list, create, delete, skip and reset subscriptions of a topic. See also ``holders``."""

from typing import Any
from urllib.parse import quote

import click

from magnetar.command.cluster.calls import (
    call,
    confirm,
    confirmed,
    partition_count,
    path_of,
    subscription_type,
)
from magnetar.command.cluster.holders import acknowledge, holders, who_has
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.output import emit, json_option, table


@click.group(name="subscriptions", short_help="List, create, delete and move subscriptions.")
def command() -> None:
    """List, create, delete and move the subscriptions of a topic.

    Example: magnetar subscriptions reset orders billing --to -1h
    """


for _more in (holders, who_has, acknowledge):
    command.add_command(_more)


async def _stats(admin: Any, path: str) -> dict[str, Any]:
    is_partitioned = await partition_count(admin, path)
    tail = "partitioned-stats?perPartition=false" if is_partitioned else "stats"
    answer = await admin.call("GET", f"{path}/{tail}")
    return dict(answer.get("subscriptions") or {})


async def _backlog(admin: Any, path: str, subscription: str) -> int | None:
    """Return the backlog, None when it is not known. Raises CommandFailed when there is no such subscription."""
    subscriptions = await _stats(admin, path)
    if subscription not in subscriptions:
        raise CommandFailed(
            f"the topic has no subscription {subscription!r}",
            Exit.MISSING,
            "`magnetar subscriptions list` shows them",
        )
    backlog = subscriptions[subscription].get("msgBacklog")
    return None if backlog is None else int(backlog)


@command.command("list")
@click.argument("topic")
@json_option
@connection_options
def list_subscriptions(connection: ClusterAddress, topic: str, as_json: bool) -> None:
    """List the subscriptions of TOPIC with their backlogs. An unknown number is ?."""
    from magnetar.command.messages.shown import safe

    _, path = path_of(topic)
    answer = call(connection, lambda admin: _stats(admin, path))
    rows = [
        {"subscription": name, "type": subscription_type(values), "backlog": values.get("msgBacklog"),
         "consumers": len(values.get("consumers") or ())}
        for name, values in sorted(answer.items())
    ]  # fmt: skip
    shown = [row | {"subscription": safe(str(row["subscription"]))} for row in rows]
    columns = ["subscription", "type", "backlog", "consumers"]
    emit(rows, as_json, lambda: table(shown, columns) if rows else "no subscriptions")


@command.command()
@click.argument("topic")
@click.argument("subscription")
@click.option(
    "--from",
    "start",
    type=click.Choice(["earliest", "latest"]),
    default="latest",
    show_default=True,
)
@json_option
@connection_options
def create(
    connection: ClusterAddress, topic: str, subscription: str, start: str, as_json: bool
) -> None:
    """Create SUBSCRIPTION of TOPIC."""
    name, path = path_of(topic)

    async def work(admin: Any) -> None:
        await admin.call("PUT", _at(path, subscription), start)

    call(connection, work)
    row = {"topic": name, "subscription": subscription, "from": start}
    emit(row, as_json, lambda: f"created {subscription} of {name}")


@command.command()
@click.argument("topic")
@click.argument("subscription")
@click.option("--force", is_flag=True, help="Also when consumers are connected.")
@confirmed
@json_option
@connection_options
def delete(
    connection: ClusterAddress, topic: str, subscription: str, force: bool, yes: bool, as_json: bool
) -> None:
    """Delete SUBSCRIPTION of TOPIC."""
    name, path = path_of(topic)
    confirm(f"Delete the subscription {subscription} of {name}?", yes)

    async def work(admin: Any) -> None:
        await admin.call("DELETE", f"{_at(path, subscription)}?force={str(force).lower()}")

    call(connection, work)
    row = {"topic": name, "subscription": subscription, "deleted": True}
    emit(row, as_json, lambda: f"deleted {subscription} of {name}")


@command.command()
@click.argument("topic")
@click.argument("subscription")
@click.argument("count", type=click.IntRange(1), required=False)
@click.option("--all", "skip_all", is_flag=True, help="Skip the whole backlog.")
@confirmed
@json_option
@connection_options
def skip(
    connection: ClusterAddress,
    topic: str,
    subscription: str,
    count: int | None,
    skip_all: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Acknowledge the next COUNT messages of SUBSCRIPTION, or --all, without delivering them."""
    if (count is None) is not skip_all:
        raise click.UsageError("give either COUNT or --all")
    tail = "skip_all" if skip_all else f"skip/{count}"
    what = "all messages" if skip_all else f"{count:,} messages"
    _move(connection, topic, subscription, tail, None, f"skip {what}", yes, as_json)


@command.command()
@click.argument("topic")
@click.argument("subscription")
@click.option(
    "--to",
    "place",
    required=True,
    metavar="PLACE",
    help="earliest, latest, a message id such as 12:0, or a time such as 2027-01-31T12:00:00Z or -10m.",
)
@confirmed
@json_option
@connection_options
def reset(
    connection: ClusterAddress, topic: str, subscription: str, place: str, yes: bool, as_json: bool
) -> None:
    """Move SUBSCRIPTION to a place. Later messages are delivered again, earlier ones not any more."""
    from engine.base.clock import SystemClock
    from magnetar.command.messages.starts import EARLIEST, LATEST, parse_start

    try:
        start = parse_start(place, SystemClock().wall_ms())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from None
    body = None
    if start == EARLIEST:
        tail = "resetcursor/0"
    elif start == LATEST:
        tail = "skip_all"
    elif start.since_ms is not None:
        tail = f"resetcursor/{start.since_ms}"
    else:
        position, partition = start.message_id.position, start.message_id.partition
        tail = "resetcursor"
        body = {
            "ledgerId": position.ledger_id,
            "entryId": position.entry_id,
            "partitionIndex": partition,
        }
    _move(connection, topic, subscription, tail, body, f"move to {place}", yes, as_json)


def _move(
    connection: ClusterAddress,
    topic: str,
    subscription: str,
    tail: str,
    body: Any,
    what: str,
    yes: bool,
    as_json: bool,
) -> None:
    """Move a subscription after a confirmation that states its backlog, and report the backlog then."""
    name, path = path_of(topic)
    before = call(connection, lambda admin: _backlog(admin, path, subscription))
    confirm(f"{subscription} of {name}, backlog {_text(before)}: {what}?", yes)

    async def work(admin: Any) -> int | None:
        await admin.call("POST", f"{_at(path, subscription)}/{tail}", body)
        return await _backlog(admin, path, subscription)

    after = call(connection, work)
    row = {"topic": name, "subscription": subscription, "backlog_before": before, "backlog": after}
    emit(row, as_json, lambda: f"{subscription}: backlog {_text(before)} -> {_text(after)}")


def _text(backlog: int | None) -> str:
    return "?" if backlog is None else f"{backlog:,}"


def _at(path: str, subscription: str) -> str:
    return f"{path}/subscription/{quote(subscription, safe='')}"
