"""``magnetar demo``: example messages in a namespace of their own, or traffic for a while."""

import click

from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.output import json_option

RATE = 50.0


@click.command(name="demo", short_help="Publish example messages, or traffic for a while.")
@click.option("--minutes", type=click.FloatRange(0), help="Traffic for this time; 0: until Ctrl-C.")
@click.option(
    "--rate",
    type=click.FloatRange(1, 5000),
    help=f"Messages a second of traffic.  [default: {RATE:g}]",
)
@click.option(
    "--replicate",
    is_flag=True,
    help="Replicate public/demo between all clusters of the tenant public.",
)
@json_option
@connection_options
def command(
    connection: ClusterAddress,
    minutes: float | None,
    rate: float | None,
    replicate: bool,
    as_json: bool,
) -> None:
    """Publish 22,000 example messages to topics of the namespace public/demo, which takes a few seconds.

    With --minutes or --rate there is traffic instead: orders, payments, clicks and sensor readings. Its subscriptions
    are those that an operator meets: `billing` keeps up, `archive` is slower than the producers, `stuck` acknowledges
    nothing, and `fraud-check` refuses some payments, which become dead letters. A later run continues.

    Example: magnetar demo --minutes 2
    """
    if replicate:
        _replicate(connection)
    if minutes is None and rate is None:
        _fill(connection, as_json)
        return
    from magnetar.command.connecting.client import run
    from magnetar.command.messages.traffic import DemoOptions, demo

    options = DemoOptions(rate or RATE, (minutes or 0) * 60, as_json)
    run(demo(connection, options), connection, "public/demo")


def _replicate(connection: ClusterAddress) -> None:
    """Replicate the namespace of the demo. Raises CommandFailed."""
    from gateway.standalone import demo
    from magnetar.command.connecting.client import token
    from magnetar.command.exits import CommandFailed
    from magnetar.command.messages.progress import notice

    try:
        demo.replicate(connection.admin_url, notice, token(connection))
    except demo.DemoError as error:
        raise CommandFailed(str(error)) from None


def _fill(connection: ClusterAddress, as_json: bool) -> None:
    """Publish the messages of ``standalone demo``. Raises CommandFailed."""
    from gateway.standalone import demo
    from magnetar.command.connecting.client import run, token
    from magnetar.command.exits import CommandFailed, Exit
    from magnetar.command.messages.progress import notice
    from magnetar.command.messages.traffic import check_reachable
    from magnetar.command.output import emit

    if connection.url.startswith("pulsar+ssl") or connection.admin_url.startswith("https"):
        raise CommandFailed(
            "the example messages are published without TLS", Exit.USAGE, "Use --minutes"
        )
    run(check_reachable(connection), connection)
    try:
        demo.fill(connection.admin_url, connection.urls[0], notice, token(connection))
    except demo.DemoError as error:
        raise CommandFailed(str(error)) from None
    row = {"namespace": demo.NAMESPACE, "messages": sum(topic.count for topic in demo.TOPICS)}
    emit(row, as_json, lambda: f"look at {connection.admin_url}, at the topics of {demo.NAMESPACE}")
