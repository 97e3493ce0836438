"""``magnetar transactions``: list coordinators and open transactions, show one, abort one."""

import re
from typing import Any

import click

from magnetar.command.cluster.calls import call, confirm, confirmed
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.output import emit, json_option, safe, table

BASE = "/admin/v3/transactions"
_ID = re.compile(r"\(?([0-9]{1,19})[,:]([0-9]{1,19})\)?")


@click.group(name="transactions", short_help="List open transactions, and abort one.")
def command() -> None:
    """List transactions that are not ended, with the topics that they hold back, and abort one.

    Example: magnetar transactions list --older 60
    """


@command.command()
@json_option
@connection_options
def coordinators(connection: ClusterAddress, as_json: bool) -> None:
    """List the coordinators with their brokers and numbers of open transactions."""

    async def work(admin: Any) -> tuple[Any, Any]:
        brokers = await admin.call("GET", f"{BASE}/coordinators")
        return brokers, await admin.call("GET", f"{BASE}/coordinatorStats")

    brokers, stats = call(connection, work)
    urls = {str(row["id"]): row["brokerServiceUrl"] for row in brokers}
    rows = [
        {
            "coordinator": id_,
            "broker": urls.get(id_, "-"),
            "state": row["state"],
            "open": row["ongoingTxnSize"],
            "newest": row["leastSigBits"],
        }
        for id_, row in sorted(stats.items(), key=lambda item: int(item[0]))
    ]
    emit(rows, as_json, lambda: table(rows, list(rows[0])) if rows else "no coordinators")


@command.command("list")
@click.option(
    "--older",
    type=click.IntRange(min=0),
    default=0,
    metavar="SECONDS",
    help="Only those that were begun so long ago.",
)
@json_option
@connection_options
def list_transactions(connection: ClusterAddress, older: int, as_json: bool) -> None:
    """List the transactions that are not ended, the oldest first."""

    async def work(admin: Any) -> Any:
        return await admin.call("GET", f"{BASE}/slowTransactions/{1000 * older}")

    rows = sorted(call(connection, work).values(), key=lambda row: row["openTimestamp"])
    shown = [row_of(row) for row in rows]
    emit(rows, as_json, lambda: table(shown, list(shown[0])) if shown else "no open transactions")


@command.command()
@click.argument("transaction")
@json_option
@connection_options
def show(connection: ClusterAddress, transaction: str, as_json: bool) -> None:
    """Show TRANSACTION, such as 0,12, with its topics and subscriptions."""
    path = f"{BASE}/transactionMetadata/{id_path(transaction)}"

    async def work(admin: Any) -> Any:
        return await admin.call("GET", path)

    row = call(connection, work)
    emit(row, as_json, lambda: text_of(row))


@command.command()
@click.argument("transaction")
@confirmed
@connection_options
def abort(connection: ClusterAddress, transaction: str, yes: bool) -> None:
    """Abort TRANSACTION, such as 0,12: its messages are never delivered, and what it acknowledged is again."""
    tail = id_path(transaction)

    async def preview(admin: Any) -> Any:
        return await admin.call("GET", f"{BASE}/transactionMetadata/{tail}")

    row = call(connection, preview)
    confirm(f"{text_of(row)}\nAbort this transaction?", yes)

    async def work(admin: Any) -> Any:
        return await admin.call("POST", f"{BASE}/abortTransaction/{tail}")

    call(connection, work)
    click.echo(f"aborted {safe(row['txnId'])}")


def id_path(transaction: str) -> str:
    """Return the path of an id as it is shown, with or without its brackets. Raises CommandFailed."""
    parsed = _ID.fullmatch(transaction.replace(" ", ""))
    if parsed is None:
        raise CommandFailed(
            f"{transaction!r} is no id of a transaction", Exit.USAGE, "An id is COORDINATOR,NUMBER"
        )
    return f"{parsed[1]}/{parsed[2]}"


def row_of(row: dict[str, Any]) -> dict[str, Any]:
    from engine.base.clock import SystemClock

    now_ms = SystemClock().wall_ms()
    return {
        "transaction": safe(row["txnId"]),
        "state": row["status"],
        "age": f"{max(now_ms - row['openTimestamp'], 0) / 1000:,.0f} s",
        "topics": len(row["producedPartitions"]),
        "subscriptions": sum(len(of) for of in row["ackedPartitions"].values()),
        "owner": safe(row.get("owner") or "-"),
    }


def text_of(row: dict[str, Any]) -> str:
    """Return a transaction with the topics and subscriptions that it has to do with, one a line."""
    first = "  ".join(f"{name} {value}" for name, value in row_of(row).items())
    topics = [f"  publishes to {topic}" for topic in row["producedPartitions"]]
    acked = [
        f"  acknowledges {subscription} of {topic}"
        for topic, subscriptions in row["ackedPartitions"].items()
        for subscription in subscriptions
    ]
    return "\n".join(map(safe, [first, *topics, *acked]))
