"""``magnetar tail``: print the messages that arrive from now on."""

import click

from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.messages.values import DURATION
from magnetar.command.output import json_option


@click.command(name="tail", short_help="Print the messages that arrive from now on.")
@click.argument("topic")
@click.option("--count", "-n", type=click.IntRange(1), help="End after so many messages.")
@click.option("--timeout", type=DURATION, help="End when no message arrives for this time.")
@click.option(
    "--raw",
    is_flag=True,
    help="Write the bytes of payloads exactly and nothing between them; as text to a terminal.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show id, time, key and properties, too.")
@json_option
@connection_options
def command(
    connection: ClusterAddress,
    topic: str,
    count: int | None,
    timeout: float | None,
    raw: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Print the messages that arrive in TOPIC from now on, until Ctrl-C.

    It only reads: nothing is created, acknowledged or changed. A lost connection is made again, and no message that
    arrived meanwhile is left out.

    Example: magnetar tail orders --verbose
    """
    from magnetar.command.connecting.client import full_name, run
    from magnetar.command.messages.reading import ReadOptions, read
    from magnetar.command.messages.starts import LATEST

    if raw and verbose and not as_json:
        raise click.UsageError("--raw writes payloads alone: leave --verbose out, or add --json")
    name = full_name(topic)
    options = ReadOptions(
        LATEST, count=count, timeout_s=timeout, verbose=verbose, raw=raw, as_json=as_json
    )
    run(read(connection, name, options), connection, name)
