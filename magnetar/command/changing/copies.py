"""``magnetar copies``: copy, move and redrive messages between topics, and stop, resume or undo that."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import click

from magnetar.command.cluster.calls import (
    call,
    cluster_path,
    confirm,
    confirmed,
    path_of,
    topic_tail,
)
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.output import emit, json_option, safe, table

POLL_S = 0.5
_ENDED = ("stopped", "succeeded", "failed")
FILTERS = (
    ("--key", "key", "Only messages with this key."),
    ("--text", "text", "Only messages whose value has this text, in any case."),
    ("--first", "first", "From this position on, ledger:entry, of a topic without partitions."),
    ("--last", "last", "Up to this position, which is included."),
    ("--reason", "reason", "Only dead letters with this reason, as groups show it."),
    ("--origin", "origin", "Only dead letters that come from this topic."),
)


@click.group(name="copies", short_help="Copy, move and redrive messages between topics.")
def command() -> None:
    """Copy, move and redrive messages between topics. A gateway with a worker does it, and goes on after a failure.

    Example: magnetar copies redrive orders-billing-DLQ --subscription triage
    """


def _selecting(work: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose messages."""
    for flag, name, text in reversed(FILTERS):
        work = click.option(flag, name, help=text)(work)
    work = click.option(
        "--property", "properties", multiple=True, metavar="NAME[=VALUE]", help="May be repeated."
    )(work)
    work = click.option(
        "--rate", type=click.IntRange(1, 100_000), default=1_000, show_default=True,
        help="Messages a second.",
    )(work)  # fmt: skip
    work = click.option("--no-wait", is_flag=True, help="Do not wait for its end.")(work)
    return work


@command.command("start")
@click.argument("topic")
@click.argument("target")
@click.option("--move-from", "subscription", help="Move what this subscription has not consumed.")
@_selecting
@confirmed
@json_option
@connection_options
def start(connection: ClusterAddress, topic: str, target: str, **given: Any) -> None:
    """Copy messages of TOPIC to TARGET, as they are stored now, after a preview."""
    _start(connection, topic, path_of(target)[0], **given)


@command.command()
@click.argument("topic")
@click.option("--subscription", help="Move what this subscription has not consumed.")
@_selecting
@confirmed
@json_option
@connection_options
def redrive(connection: ClusterAddress, topic: str, **given: Any) -> None:
    """Publish the dead letters of TOPIC to the topics that they come from, after a preview."""
    _start(connection, topic, None, **given)


def _start(
    connection: ClusterAddress,
    topic: str,
    target: str | None,
    *,
    subscription: str | None,
    properties: tuple[str, ...],
    rate: int,
    no_wait: bool,
    yes: bool,
    as_json: bool,
    **filters: str | None,
) -> None:
    name, _ = path_of(topic)
    group = {key: filters.pop(key) for key in ("reason", "origin")}
    if group["origin"]:
        group["origin"] = path_of(group["origin"])[0]
    conditions = {**filters, "properties": list(properties), "group": group}
    body = {"target": target, "subscription": subscription, "rate": rate}
    path = f"{topic_tail(name)}/copies"

    async def preview(admin: Any) -> tuple[str, Any]:
        base = await cluster_path(admin)
        wanted = {"preview": True, **body, "conditions": conditions}
        return base, await admin.call("POST", f"{base}/{path}", wanted)

    base, seen = call(connection, preview)
    confirm(f"{_preview_text(seen)} Start it?", yes)

    async def begin(admin: Any) -> Any:
        row = await admin.call("POST", f"{base}/{path}", {"token": seen["token"]})
        return row if no_wait else await _followed(admin, base, row, quiet=as_json)

    _end(call(connection, begin), as_json)


def _preview_text(seen: Mapping[str, Any]) -> str:
    least = "at least " if seen["stopped"] == "bound" else ""
    lines = [f"{least}{seen['matched']:,} messages would be {_done(seen['mode'])}:"]
    for row in seen["targets"]:
        problem = f" NOT: {row['problem']}" if row["problem"] else ""
        lines.append(f"  {row['messages']:,} to {safe(row['topic'])}{problem}")
    if seen["without_origin"]:
        lines.append(f"  {seen['without_origin']:,} name no origin and stay")
    if seen["at_least_once"]:
        lines.append("  at least once: a target has no deduplication")
    return "\n".join(lines) + "\n"


def _done(mode: str) -> str:
    return "moved" if mode == "move" else "copied"


@command.command("list")
@json_option
@connection_options
def list_copies(connection: ClusterAddress, as_json: bool) -> None:
    """List copies with their progress, the newest first."""

    async def work(admin: Any) -> Any:
        return (await admin.call("GET", f"{await cluster_path(admin)}/copies"))["rows"]

    rows = call(connection, work)
    shown = [
        {"copy": row["id"], "mode": row["mode"], "state": row["state"],
         "read": f"{row['counts']['entries']:,} of {row['entries']:,}",
         "stored": f"{row['counts']['copied']:,}", "topic": safe(row["topic"])}
        for row in rows
    ]  # fmt: skip
    columns = ["copy", "mode", "state", "read", "stored", "topic"]
    emit(rows, as_json, lambda: table(shown, columns) if rows else "no copies")


@command.command()
@click.argument("copy_id", metavar="COPY")
@json_option
@connection_options
def stop(connection: ClusterAddress, copy_id: str, as_json: bool) -> None:
    """Stop COPY after what it is sending. It can be resumed."""
    _change(connection, copy_id, "stop", as_json)


@command.command()
@click.argument("copy_id", metavar="COPY")
@json_option
@connection_options
def resume(connection: ClusterAddress, copy_id: str, as_json: bool) -> None:
    """Continue a stopped or failed COPY where it came to."""
    _change(connection, copy_id, "resume", as_json)


def _change(connection: ClusterAddress, copy_id: str, verb: str, as_json: bool) -> None:
    async def work(admin: Any) -> Any:
        return await admin.call("POST", f"{await cluster_path(admin)}/{_copy(copy_id)}/{verb}", {})

    row = call(connection, work)
    emit(row, as_json, lambda: _text(row))


@command.command()
@click.argument("copy_id", metavar="COPY")
@confirmed
@json_option
@connection_options
def undo(connection: ClusterAddress, copy_id: str, yes: bool, as_json: bool) -> None:
    """Skip the messages of COPY for each subscription of its targets that has not acknowledged them yet."""

    async def preview(admin: Any) -> tuple[str, Any]:
        path = f"{await cluster_path(admin)}/{_copy(copy_id)}/undo"
        return path, await admin.call("POST", path, {"preview": True})

    path, seen = call(connection, preview)
    rows = [
        f"  {safe(row['subscription'])} of {safe(row['topic'])}: {row['held']:,} skipped, {row['consumed']:,} consumed"
        for row in seen["subscriptions"]
    ]
    confirm("\n".join([f"{seen['copies']:,} copies were found:", *rows, "Undo?"]), yes)

    async def work(admin: Any) -> Any:
        row = await admin.call("POST", path, {"token": seen["token"]})
        return await _followed(admin, path.rpartition("/copies/")[0], row, quiet=as_json)

    _end(call(connection, work), as_json)


async def _followed(admin: Any, base: str, row: Any, *, quiet: bool) -> Any:
    """Return the copy once it has ended; print its progress."""
    shown = ""
    while row["state"] not in _ENDED:
        if not quiet and (text := _text(row)) != shown:
            shown = text
            click.echo(text, err=True)
        await asyncio.sleep(POLL_S)
        row = await admin.call("GET", f"{base}/{_copy(row['id'])}")
    return row


def _end(row: Mapping[str, Any], as_json: bool) -> None:
    emit(row, as_json, lambda: _text(row))
    if row["state"] in ("failed", "stopped"):
        raise CommandFailed(f"the copy has {row['state']}: {row['error'] or ''}", Exit.FAILED)


def _text(row: Mapping[str, Any]) -> str:
    counts = row["counts"]
    what = (
        f"{counts['acknowledged']:,} skipped, {counts['consumed']:,} were consumed"
        if row["mode"] == "undo"
        else f"{counts['copied']:,} stored"
    )
    why = row["problem"] or row["stage"]
    line = f"{row['id']} {row['state']}: {counts['entries']:,} of {row['entries']:,} read, {what}"
    return safe(f"{line} ({why})" if why else line)


def _copy(copy_id: str) -> str:
    return f"copies/{quote(copy_id, safe='')}"
