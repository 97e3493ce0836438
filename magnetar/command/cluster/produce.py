"""``magnetar produce``: publish messages and print the receipts of the broker."""

from typing import Any

import click

from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.messages.values import DURATION, PAIR
from magnetar.command.output import json_option

COMPRESSIONS = ("none", "lz4", "zlib", "zstd", "snappy")


@click.command(name="produce", short_help="Publish messages to a topic.")
@click.argument("topic")
@click.argument("messages", nargs=-1, metavar="[MESSAGE]...")
@click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    type=click.File("rb"),
    help="Send a file as one message.",
)
@click.option("--key", "-k", help="Key of all messages.")
@click.option(
    "--key-separator", metavar="TEXT", help="Each line has its key in front of this text."
)
@click.option("--property", "-p", "properties", type=PAIR, multiple=True, help="May be repeated.")
@click.option("--event-time", metavar="TIME", help="Such as 2027-01-31T12:00:00Z, or now.")
@click.option("--delay", type=DURATION, help="Deliver to shared subscriptions after this time.")
@click.option("--rate", type=click.FloatRange(0.001, 10_000_000), help="Messages a second at most.")
@click.option(
    "--repeat", type=click.IntRange(1, 1_000_000_000), default=1, help="Send them so often."
)
@click.option(
    "--compression", type=click.Choice(COMPRESSIONS, case_sensitive=False), default="none"
)
@click.option("--chunks", is_flag=True, help="Send messages above the broker's limit in parts.")
@click.option(
    "--raw", is_flag=True, help="Send the bytes as they are, whatever the topic's schema."
)
@click.option("--timeout", type=DURATION, default="30s", show_default=True, help="For a receipt.")
@click.option("--quiet", "-q", is_flag=True, help="Print no message ids, only errors.")
@json_option
@connection_options
def command(connection: ClusterAddress, topic: str, **options: Any) -> None:
    """Publish each MESSAGE to TOPIC; without any, each line of the standard input.

    Prints the id of each message after the broker has confirmed it, in the order of the receipts. Where the topic has a
    schema, a message is written as text, such as JSON, and checked and encoded by the schema.

    Example: magnetar produce orders '{"id": 1}' --key anna
    """
    from magnetar.command.connecting.client import full_name, run
    from magnetar.command.messages.publishing import PublishOptions, publish

    name = full_name(topic)
    run(publish(connection, name, PublishOptions.of(**options)), connection, name)
