"""``magnetar clients``: list the connected clients, count them by version, library or role, and disconnect one."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import click

from magnetar.command.cluster.calls import call, cluster_path, confirm, confirmed
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed
from magnetar.command.output import emit, json_option, safe, table

PAGE_ROWS = 1_000
GROUPINGS = ("version", "library", "language", "role", "application", "broker", "host")


@click.group(name="clients", short_help="List, count and disconnect connected clients.")
def command() -> None:
    """List the connected clients of all brokers, count those that are alike, and disconnect one. A gateway answers.

    Example: magnetar clients list --library Pulsar-Java --version 2
    """


async def _base(admin: Any) -> str:
    return f"{await cluster_path(admin)}/connections"


@command.command("list")
@click.argument("words", nargs=-1)
@click.option("--library", default="", help="As Pulsar-Java.")
@click.option("--version", default="", help="Its beginning by whole parts: 2 for 2.x.")
@click.option("--role", default="", help="Exactly this role.")
@click.option("--group", type=click.Choice(GROUPINGS), help="Count those that are alike instead.")
@json_option
@connection_options
def list_clients(
    connection: ClusterAddress,
    words: tuple[str, ...],
    library: str,
    version: str,
    role: str,
    group: str | None,
    as_json: bool,
) -> None:
    """List the clients whose address, version, application, role or broker has all WORDS."""
    query = {"q": " ".join(words), "library": library, "version": version, "role": role}
    query = {name: value for name, value in query.items() if value}

    async def work(admin: Any) -> dict[str, Any]:
        path = await _base(admin)
        if group is not None:
            wanted = urlencode({**query, "group": group, "limit": 1})
            answer: dict[str, Any] = await admin.call("GET", f"{path}?{wanted}")
            return answer
        rows: list[dict[str, Any]] = []
        while True:
            window = {"sort": "address", "offset": len(rows), "limit": PAGE_ROWS}
            answer = await admin.call("GET", f"{path}?{urlencode({**query, **window})}")
            rows += answer["rows"]
            if not answer["rows"] or len(rows) >= answer["total"]:
                return {**answer, "rows": rows}

    answer = call(connection, work)
    for silent in answer["silent"]:
        reason = f"{silent['broker']} did not answer; its clients are not known: {silent['reason']}"
        click.echo(f"magnetar: {safe(reason)}", err=True)
    if group is not None:
        groups = answer["groups"]
        emit(groups, as_json, lambda: _grouped(groups, group))
    else:
        emit(answer["rows"], as_json, lambda: _listed(answer["rows"]))


def _grouped(groups: list[dict[str, Any]], group: str) -> str:
    rows = [
        {**row, group: safe(f"{row['library']} {row['value']}".strip() or "not stated")}
        for row in groups
    ]
    return table(rows, [group, "connections", "producers", "consumers"]) if rows else "no clients"


def _listed(rows: list[dict[str, Any]]) -> str:
    shown = [
        {
            "broker": safe(row["broker"]),
            "id": row["id"],
            "address": safe(row["address"]),
            "client": safe(f"{row['library']} {row['version']}".strip() or "not stated"),
            "application": safe(row["application"] or "-"),
            "role": "-" if row["role"] is None else safe(row["role"]),
            "producers": row["producers"],
            "consumers": row["consumers"],
            "since": datetime.fromtimestamp(row["since"] / 1000, UTC).isoformat(timespec="seconds"),
        }
        for row in rows
    ]
    return table(shown, list(shown[0])) if shown else "no clients"


@command.command()
@click.argument("broker")
@click.argument("id")
@confirmed
@json_option
@connection_options
def disconnect(connection: ClusterAddress, broker: str, id: str, yes: bool, as_json: bool) -> None:
    """Disconnect the client with ID of BROKER, as `magnetar clients list` prints them.

    All its producers and consumers are closed; it may connect again at once.
    """
    tail = f"/{quote(broker, safe='')}/{quote(id, safe='')}/disconnect"

    async def preview(admin: Any) -> tuple[str, dict[str, Any]]:
        path = f"{await _base(admin)}{tail}"
        return path, await admin.call("POST", path, {"preview": True})

    path, previewed = call(connection, preview)
    shown, token = previewed["connection"], previewed["token"]
    if token is None:
        raise CommandFailed("it cannot be confirmed: the preview is too large")
    confirm(
        safe(
            f"Close the connection of {shown['address']} with {shown['producers']} producers and "
            f"{shown['consumers']} consumers?"
        ),
        yes,
    )
    receipt = call(
        connection, lambda admin: admin.call("POST", path, {"preview": False, "token": token})
    )
    emit(
        receipt,
        as_json,
        lambda: (
            f"closed {safe(shown['address'])}: {receipt['producers']} producers, "
            f"{receipt['consumers']} consumers, {receipt['unacked']} messages delivered again"
        ),
    )
