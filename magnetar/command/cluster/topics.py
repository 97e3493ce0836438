"""``magnetar topics``: list, create, delete, grow, unload, and numbers of topics."""

from typing import Any

import click

from magnetar.command.cluster.calls import (
    call,
    confirm,
    confirmed,
    partition_count,
    path_of,
    subscription_type,
)
from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.output import emit, json_option, table


@click.group(name="topics", short_help="List, create, delete and examine topics.")
def command() -> None:
    """List, create, delete and examine topics.

    Example: magnetar topics create orders --partitions 3
    """


@command.command("list")
@click.argument("namespace", default="public/default")
@json_option
@connection_options
def list_topics(connection: ClusterAddress, namespace: str, as_json: bool) -> None:
    """List the topics of NAMESPACE; partitioned topics once, with a mark."""
    from engine.base.errors import InvalidNameError
    from engine.base.names import NamespaceName, split_partition

    try:
        name = NamespaceName.parse(namespace)
    except InvalidNameError as error:
        raise CommandFailed(" ".join(str(error).split()), Exit.USAGE) from None

    async def work(admin: Any) -> list[dict[str, Any]]:
        rows: dict[str, bool] = {}
        for domain in ("persistent", "non-persistent"):
            base = f"/admin/v2/{domain}/{name}"
            partitioned = set(await admin.call("GET", f"{base}/partitioned") or [])
            names = set(await admin.call("GET", base) or [])
            plain = {topic for topic in names if split_partition(topic)[0] not in partitioned}
            rows |= {topic: topic in partitioned for topic in partitioned | plain}
        return [{"topic": topic, "partitioned": rows[topic]} for topic in sorted(rows)]

    rows = call(connection, work)
    emit(rows, as_json, lambda: "\n".join(_name(row) for row in rows) or "no topics")


def _name(row: dict[str, Any]) -> str:
    from magnetar.command.messages.shown import safe

    return safe(row["topic"]) + ("  (partitioned)" if row["partitioned"] else "")


@command.command()
@click.argument("topic")
@click.option("--partitions", "-p", type=click.IntRange(0), default=0, help="0: not partitioned.")
@json_option
@connection_options
def create(connection: ClusterAddress, topic: str, partitions: int, as_json: bool) -> None:
    """Create TOPIC."""
    name, path = path_of(topic)

    async def work(admin: Any) -> None:
        if partitions:
            await admin.call("PUT", f"{path}/partitions", partitions)
        else:
            await admin.call("PUT", path)

    call(connection, work)
    emit({"topic": name, "partitions": partitions}, as_json, lambda: f"created {name}")


@command.command()
@click.argument("topic")
@click.option("--force", is_flag=True, help="Also when producers or consumers are connected.")
@confirmed
@json_option
@connection_options
def delete(connection: ClusterAddress, topic: str, force: bool, yes: bool, as_json: bool) -> None:
    """Delete TOPIC with its messages and subscriptions."""
    name, path = path_of(topic)
    confirm(f"Delete {name} with all its messages and subscriptions?", yes)

    async def work(admin: Any) -> None:
        tail = "/partitions" if await partition_count(admin, path) else ""
        await admin.call("DELETE", f"{path}{tail}?force={str(force).lower()}")

    call(connection, work)
    emit({"topic": name, "deleted": True}, as_json, lambda: f"deleted {name}")


@command.command()
@click.argument("topic")
@click.argument("count", type=click.IntRange(1))
@json_option
@connection_options
def partitions(connection: ClusterAddress, topic: str, count: int, as_json: bool) -> None:
    """Let the partitioned TOPIC have COUNT partitions. There can only be more."""
    name, path = path_of(topic)

    async def work(admin: Any) -> None:
        await admin.call("POST", f"{path}/partitions", count)

    call(connection, work)
    row = {"topic": name, "partitions": count}
    emit(row, as_json, lambda: f"{name} has {count} partitions")


@command.command()
@click.argument("topic")
@json_option
@connection_options
def unload(connection: ClusterAddress, topic: str, as_json: bool) -> None:
    """Let the broker close TOPIC; it is opened again by the next client. Clients connect again by themselves."""
    name, path = path_of(topic)

    async def work(admin: Any) -> None:
        await admin.call("PUT", f"{path}/unload")

    call(connection, work)
    emit({"topic": name, "unloaded": True}, as_json, lambda: f"unloaded {name}")


@command.command()
@click.argument("topic")
@json_option
@connection_options
def stats(connection: ClusterAddress, topic: str, as_json: bool) -> None:
    """Show rates, storage and the backlog of each subscription of TOPIC. An unknown number is ?."""
    name, path = path_of(topic)

    async def work(admin: Any) -> dict[str, Any]:
        if await partition_count(admin, path):
            answer = await admin.call("GET", f"{path}/partitioned-stats?perPartition=false")
        else:
            answer = await admin.call("GET", f"{path}/stats")
        result: dict[str, Any] = answer
        return result

    answer = call(connection, work)
    emit(answer, as_json, lambda: _stats_text(name, answer))


def _stats_text(name: str, answer: dict[str, Any]) -> str:
    from magnetar.command.messages.shown import safe

    publishers = answer.get("publishers")
    lines = [
        safe(name),
        f"in       {_number(answer.get('msgRateIn'))} messages/s,"
        f" {_number(answer.get('msgThroughputIn'))} bytes/s,"
        f" {'?' if publishers is None else len(publishers)} producers",
        f"out      {_number(answer.get('msgRateOut'))} messages/s,"
        f" {_number(answer.get('msgThroughputOut'))} bytes/s",
        f"storage  {_number(answer.get('storageSize'))} bytes",
    ]
    rows = [
        {
            "subscription": safe(subscription),
            "type": subscription_type(values),
            "backlog": values.get("msgBacklog"),
            "unacknowledged": values.get("unackedMessages"),
            "consumers": None if values.get("consumers") is None else len(values["consumers"]),
        }
        for subscription, values in sorted((answer.get("subscriptions") or {}).items())
    ]
    if rows:
        lines += ["", table(rows, list(rows[0]))]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
