"""``magnetar tiers``: where the ledgers of a topic are, moving them to tiered storage, and objects of no topic."""

from typing import Any
from urllib.parse import urlencode

import click

from magnetar.command.cluster.calls import call, cluster_path, confirm, confirmed, topic_tail
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.output import emit, json_option, safe, table

PLACES = {
    "bookies": "bookies",
    "both": "both",
    "store": "tiered storage",
    "unreadable": "not readable here",
}


@click.group(name="tiers", short_help="Show and move ledgers between bookies and tiered storage.")
def command() -> None:
    """Show where the ledgers of a topic are, move them to tiered storage, and find objects that no topic names.

    Example: magnetar tiers show orders --keep 1000000
    """


def _path(topic: str) -> tuple[str, str]:
    from magnetar.command.connecting.client import full_name

    name = full_name(topic)
    return name, topic_tail(name)


@command.command()
@click.argument("topic")
@click.option("--keep", type=click.IntRange(-1), metavar="BYTES", help="Preview: bytes to keep.")
@click.option("--age", type=click.IntRange(-1), metavar="SECONDS", help="Preview: least age.")
@json_option
@connection_options
def show(
    connection: ClusterAddress, topic: str, keep: int | None, age: int | None, as_json: bool
) -> None:
    """Show where the ledgers of TOPIC are, and which its thresholds, or the given ones, would move."""
    name, tail = _path(topic)
    given = {"threshold_bytes": keep, "threshold_s": age}
    asked = urlencode({key: value for key, value in given.items() if value is not None})

    async def work(admin: Any) -> Any:
        return await admin.call("GET", f"{await cluster_path(admin)}/{tail}/tiers?{asked}")

    answer = call(connection, work)
    emit(answer, as_json, lambda: _text(name, answer))


def _text(name: str, answer: dict[str, Any]) -> str:
    policy, preview = answer["policy"], answer["preview"]
    lines = [f"{safe(name)}: {safe(policy['store']) if policy else 'no tiered storage'}"]
    lines += [
        f"  {PLACES[row['tier']]}: {row['bytes']} bytes in {row['ledgers']} ledgers"
        for row in answer["sums"]
    ]
    cost = preview["store_cost"]
    price = "" if cost is None else f", {cost:g} a month"
    lines.append(f"would be moved: {preview['bytes']} bytes in {preview['ledgers']} ledgers{price}")
    for state in answer["states"]:
        error, progress = state["error"], f"{state['done_ledgers']} of {state['ledgers']} ledgers"
        lines.append(
            f"{safe(state['topic'])}: {state['status']} {progress}"
            + (f", {safe(state['trouble'])}: {safe(error)}" if error else "")
        )
        if state["read_error"]:
            lines.append(f"  not read: {safe(state['read_error'])}")
    rows = [
        {
            "ledger": row["ledger_id"],
            "bytes": row["bytes"],
            "entries": row["entries"],
            "place": PLACES[row["tier"]],
            "due": "yes" if row["due"] else "no",
        }
        for row in answer["ledgers"]
    ]
    return "\n".join([*lines, table(rows, list(rows[0])) if rows else "no ledgers"])


@command.command()
@click.argument("topic")
@click.option(
    "--keep", type=click.IntRange(0), default=0, metavar="BYTES", help="Newest bytes to keep (0)."
)
@json_option
@connection_options
def move(connection: ClusterAddress, topic: str, keep: int, as_json: bool) -> None:
    """Start to move closed ledgers of TOPIC to tiered storage. `magnetar tiers show` has the progress."""
    name, tail = _path(topic)

    async def work(admin: Any) -> Any:
        path = f"{await cluster_path(admin)}/{tail}/offload"
        return await admin.call("POST", path, {"keep_bytes": keep})

    answer = call(connection, work)
    text = f"{len(answer['started'])} started" if answer["started"] else "nothing to move"
    emit(answer, as_json, lambda: f"{safe(name)}: {text}")


@command.command()
@click.option("--remove", is_flag=True, help="Delete them; else they are only counted.")
@click.option("--age", type=click.IntRange(3600), default=86_400, metavar="SECONDS")
@confirmed
@json_option
@connection_options
def orphans(connection: ClusterAddress, remove: bool, age: int, yes: bool, as_json: bool) -> None:
    """Compare all buckets with the records of topics: find objects that no topic names."""
    if remove:
        confirm("Delete all objects of this cluster that no topic names?", yes)

    async def work(admin: Any) -> Any:
        path = f"{await cluster_path(admin)}/tiered-storage/orphans"
        return await admin.call("POST", path, {"remove": remove, "age_s": age})

    buckets = call(connection, work)["buckets"]
    emit(buckets, as_json, lambda: "\n".join(map(_scanned, buckets)) or "no tiered storage")


def _scanned(row: dict[str, Any]) -> str:
    name = safe(row["bucket"])
    if row["error"]:
        return f"{name}: {safe(row['error'])}"
    done = "removed" if row["removed"] else "that no topic names"
    return (
        f"{name}: {row['objects']} objects of {row['bytes']} bytes; {row['orphans']} of "
        f"{row['orphan_bytes']} bytes {done}; {row['foreign']} of other clusters"
    )
