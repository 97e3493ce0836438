"""``magnetar subscriptions holders``, ``who-has`` and ``acknowledge``: who holds messages, and one acknowledged."""

from typing import Any
from urllib.parse import quote, urlencode

import click

from magnetar.command.cluster.calls import call, cluster_path, confirm, confirmed, topic_tail
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed
from magnetar.command.output import emit, json_option, safe, table

ROWS_MAX = 500


async def _topic_path(admin: Any, topic: str) -> str:
    """Return the path of a topic in the console API. Raises CommandFailed for a wrong name."""
    from magnetar.command.connecting.client import full_name

    return f"{await cluster_path(admin)}/{topic_tail(full_name(topic))}"


@click.command()
@click.argument("topic")
@click.argument("subscription")
@click.option("--key", default="", help="A key whose consumer is wanted, of Key_Shared.")
@click.option(
    "--rows", type=click.IntRange(1, ROWS_MAX), default=20, show_default=True, help="Most entries."
)
@json_option
@connection_options
def holders(
    connection: ClusterAddress, topic: str, subscription: str, key: str, rows: int, as_json: bool
) -> None:
    """Show who holds unacknowledged messages of SUBSCRIPTION, oldest first, and what is delayed.

    Example: magnetar subscriptions holders orders billing --key customer-17
    """
    query = urlencode({"rows": rows, **({"key": key} if key else {})})

    async def work(admin: Any) -> Any:
        path = await _topic_path(admin, topic)
        return await admin.call(
            "GET", f"{path}/subscriptions/{quote(subscription, safe='')}/holders?{query}"
        )

    answer = call(connection, work)
    for silent in answer["missing"]:
        reason = f"partition {silent['partition']} did not answer: {silent['reason']}"
        click.echo(f"magnetar: {safe(reason)}", err=True)
    emit(answer, as_json, lambda: _held(answer, key))


def _held(answer: dict[str, Any], key: str) -> str:
    parts = [
        _titled(
            f"consumers, holding {_text(answer['entries'])} entries",
            [
                _place(row)
                | {
                    "consumer": _consumer(row),
                    "entries": _text(row["entries"]),
                    "messages": _text(row["messages"]),
                    "oldest": _moment(row["oldest_at"]) if row["oldest"] else "-",
                }
                for row in answer["consumers"]
            ],
        ),
        _titled(
            "oldest unacknowledged entries",
            [
                _place(row)
                | {
                    "entry": row["id"],
                    "published": _moment(row["published"]),
                    "consumer": _consumer(row["consumer"]),
                    "given_back": row["redeliveries"],
                }
                for row in answer["unacked"]
            ],
        ),
        _titled(
            f"draining hashes, {answer['draining_total']}",
            [
                _place(row)
                | {
                    "hash": row["slot"],
                    "former_consumer": _consumer(row["consumer"]),
                    "unacknowledged": row["entries"],
                }
                for row in answer["draining"]
            ],
        ),
    ]
    delayed = answer["delayed"]
    if delayed is None:
        parts.append("delayed messages: not known to the broker")
    else:
        rows = [
            _place(row) | {"due": _moment(row["due"]), "entry": row["id"]}
            for row in delayed["rows"]
        ]
        parts.append(_titled(f"delayed, {_text(delayed['entries'])}", rows))
    if key:
        places = [
            f"hash {row['slot']} -> {_consumer(row['consumer']) if row['consumer'] else 'no consumer'}"
            + (f", waits for {_consumer(row['waits_for'])}" if row["waits_for"] else "")
            for row in answer["keys"]
        ]
        parts.append(
            f"key {safe(key)}: {'; '.join(places) or 'the subscription is not Key_Shared'}"
        )
    return "\n".join(part for part in parts if part)


def _titled(title: str, rows: list[dict[str, Any]]) -> str:
    return f"{title}:\n{table(rows, list(rows[0]))}" if rows else ""


def _place(row: dict[str, Any]) -> dict[str, Any]:
    return {} if row["partition"] is None else {"partition": row["partition"]}


def _consumer(row: dict[str, Any]) -> str:
    return safe(f"{row['name']} ({row['address']})")


def _text(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def _moment(ms: int | None) -> str:
    from magnetar.command.messages.shown import time_text

    return "?" if ms is None else time_text(ms)


@click.command("who-has")
@click.argument("topic")
@click.argument("message")
@json_option
@connection_options
def who_has(connection: ClusterAddress, topic: str, message: str, as_json: bool) -> None:
    """Show where MESSAGE (12:0, or 12:0:3 in a batch) of TOPIC is at each of its subscriptions.

    Of a partitioned topic, name the partition: orders-partition-0.
    """

    async def work(admin: Any) -> Any:
        path = await _topic_path(admin, topic)
        return await admin.call("GET", f"{path}/messages/{quote(message, safe='')}/holders")

    answer = call(connection, work)
    for name in answer["unread"]:
        click.echo(f"magnetar: {safe(name)} cannot be read now: not known", err=True)
    rows = [
        {
            "subscription": safe(row["name"]),
            "state": row["state"],
            "consumer": _consumer(row["consumer"]) if row["consumer"] else "-",
            "given_back": row["redeliveries"],
        }
        for row in answer["subscriptions"]
    ]
    emit(answer, as_json, lambda: table(rows, list(rows[0])) if rows else "no subscriptions")


@click.command()
@click.argument("topic")
@click.argument("subscription")
@click.argument("message")
@click.option("--partition", type=click.IntRange(0), help="Of a partitioned topic.")
@confirmed
@json_option
@connection_options
def acknowledge(
    connection: ClusterAddress,
    topic: str,
    subscription: str,
    message: str,
    partition: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Acknowledge MESSAGE (12:0, or 12:0:3 in a batch) for SUBSCRIPTION: a delayed row is cancelled so."""

    async def preview(admin: Any) -> tuple[str, dict[str, Any]]:
        path = await _topic_path(admin, topic)
        path = f"{path}/subscriptions/{quote(subscription, safe='')}/acknowledge"
        body = {"preview": True, "message": message, "partition": partition}
        return path, await admin.call("POST", path, body)

    path, previewed = call(connection, preview)
    token = previewed["token"]
    if token is None:
        raise CommandFailed("it cannot be confirmed: the preview is too large")
    state = previewed["state"]
    if previewed["consumer"]:
        state += f", consumer {_consumer(previewed['consumer'])}"
    if previewed["deliver_at"] is not None:
        state += f", due {_moment(previewed['deliver_at'])}"
    question = f"Acknowledge message {message} for {safe(subscription)}, which is {state}?"
    confirm(question, yes)
    receipt = call(
        connection, lambda admin: admin.call("POST", path, {"preview": False, "token": token})
    )
    emit(
        receipt,
        as_json,
        lambda: (
            f"acknowledged {receipt['message']}"
            if receipt["was"] == "held"
            else f"{receipt['message']} was acknowledged meanwhile"
        ),
    )
