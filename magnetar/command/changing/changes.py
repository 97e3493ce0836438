"""``magnetar changes``: list and show change sets, confirm, stop and retry them."""

import asyncio
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import click

from magnetar.command.cluster.calls import call, cluster_path, confirm, confirmed
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.output import emit, json_option, safe, table

POLL_S = 0.5
PAGE_ROWS = 1_000
SHOWN_MAX = 50
WORKING = ("planning", "running")
NOT_DONE = ("refused", "failed", "unknown")


@click.group(name="changes", short_help="Confirm, stop and retry changes of many objects.")
def command() -> None:
    """List changes of many objects, confirm what was previewed, stop them, and retry what failed.

    Example: magnetar changes show 1f0c9a
    """


@command.command("list")
@json_option
@connection_options
def list_changes(connection: ClusterAddress, as_json: bool) -> None:
    """List change sets, the newest first: at most 200 are kept."""

    async def work(admin: Any) -> Any:
        path = f"{await cluster_path(admin)}/changes?limit=1000"
        return (await admin.call("GET", path))["rows"]

    rows = call(connection, work)
    shown = [
        {
            "change": row["id"],
            "kind": row["kind"],
            "state": row["state"],
            "done": f"{row['counts']['done']:,} of {row['total']:,}",
            "by": safe(row["created_by"]),
        }
        for row in rows
    ]
    emit(rows, as_json, lambda: table(shown, list(shown[0])) if shown else "no changes")


@command.command()
@click.argument("change")
@json_option
@connection_options
def show(connection: ClusterAddress, change: str, as_json: bool) -> None:
    """Show CHANGE with its objects, and why some were not changed."""

    async def work(admin: Any) -> tuple[Any, list[dict[str, Any]]]:
        base = await cluster_path(admin)
        row = await admin.call("GET", path_of_set(base, change))
        return row, await items_of(admin, base, change)

    row, items = call(connection, work)
    emit({**row, "items": items}, as_json, lambda: f"{line_of(row)}\n{items_text(items)}")


@command.command("confirm")
@click.argument("change")
@confirmed
@json_option
@connection_options
def confirm_change(connection: ClusterAddress, change: str, yes: bool, as_json: bool) -> None:
    """Make exactly what was previewed of CHANGE; continue one that was stopped."""

    async def preview(admin: Any) -> tuple[str, Any, list[dict[str, Any]]]:
        base = await cluster_path(admin)
        row = await admin.call("GET", path_of_set(base, change))
        row = await followed(admin, base, row, quiet=as_json)
        return base, row, await items_of(admin, base, change, "planned")

    base, row, items = call(connection, preview)
    if not items:
        raise CommandFailed(f"nothing is planned: {line_of(row)}")
    confirm(f"{items_text(items)}\nChange these {len(items):,} objects?", yes)

    async def work(admin: Any) -> Any:
        path = f"{path_of_set(base, change)}/confirm"
        row_then = await admin.call("POST", path, {"digest": row["digest"]})
        return await followed(admin, base, row_then, quiet=as_json)

    done = call(connection, work)
    emit(done, as_json, lambda: line_of(done))
    check_done(done)


@command.command()
@click.argument("change")
@json_option
@connection_options
def stop(connection: ClusterAddress, change: str, as_json: bool) -> None:
    """Stop CHANGE after the objects that are being changed, or cancel one that is not confirmed."""
    _post(connection, change, "stop", as_json)


@command.command()
@click.argument("change")
@json_option
@connection_options
def retry(connection: ClusterAddress, change: str, as_json: bool) -> None:
    """Preview again what failed or was refused of CHANGE. `magnetar changes confirm` then makes it."""
    _post(connection, change, "retry", as_json)


def _post(connection: ClusterAddress, change: str, verb: str, as_json: bool) -> None:
    async def work(admin: Any) -> Any:
        base = await cluster_path(admin)
        row = await admin.call("POST", f"{path_of_set(base, change)}/{verb}")
        return await followed(admin, base, row, quiet=as_json)

    row = call(connection, work)
    emit(row, as_json, lambda: line_of(row))


def path_of_set(base: str, set_id: str) -> str:
    return f"{base}/changes/{quote(set_id, safe='')}"


async def followed(admin: Any, base: str, row: Any, *, quiet: bool) -> Any:
    """Return the set when its worker has nothing more to do; print the progress."""
    shown = ""
    while row["state"] in WORKING:
        if not quiet and (text := line_of(row)) != shown:
            shown = text
            click.echo(text, err=True)
        await asyncio.sleep(POLL_S)
        row = await admin.call("GET", path_of_set(base, row["id"]))
    return row


async def items_of(admin: Any, base: str, set_id: str, state: str = "") -> list[dict[str, Any]]:
    """Return all objects of a set, or those in one state."""
    rows: list[dict[str, Any]] = []
    while True:
        window = {"offset": len(rows), "limit": PAGE_ROWS, **({"state": state} if state else {})}
        path = f"{path_of_set(base, set_id)}/items?{urlencode(window)}"
        page = await admin.call("GET", path)
        rows += page["rows"]
        if not page["rows"] or len(rows) >= page["total"]:
            return rows


def line_of(row: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count:,} {state}" for state, count in row["counts"].items() if count)
    return safe(f"{row['id']} {row['kind']} {row['state']}: {counts}")


def item_text(item: Mapping[str, Any]) -> str:
    """Return an object with its state, and with what it would become or why it is not changed."""
    name = f"{item['subscription']} of {item['topic']}" if item["subscription"] else item["topic"]
    effect = item["effect"] or {}
    lost = effect.get("messages", 0)
    parts = [f"{item['state']}  {name}"]
    if item["reason"]:
        parts.append(item["reason"])
    elif effect.get("after") is not None:
        parts.append(f"{effect.get('before')} -> {effect['after']}")
    if lost is None:
        parts.append("messages are lost, not counted")
    elif lost:
        parts.append(f"{lost:,} messages are lost")
    return safe("  ".join(parts))


def items_text(items: list[dict[str, Any]]) -> str:
    lines = [f"  {item_text(item)}" for item in items[:SHOWN_MAX]]
    if len(items) > SHOWN_MAX:
        lines.append(f"  and {len(items) - SHOWN_MAX:,} more")
    return "\n".join(lines)


def check_done(row: Mapping[str, Any]) -> None:
    """Raise CommandFailed unless all objects of a set are changed."""
    left = sum(row["counts"][state] for state in NOT_DONE)
    if row["state"] != "finished" or left:
        hint = f"`magnetar changes show {shlex.quote(row['id'])}` has the reasons"
        raise CommandFailed(f"not all was changed: {line_of(row)}", Exit.FAILED, hint)
