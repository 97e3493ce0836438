"""``magnetar consume``: print messages of a topic."""

import click

from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.messages.values import DURATION
from magnetar.command.output import json_option

TYPES = ("exclusive", "shared", "failover", "key-shared")


@click.command(name="consume", short_help="Print messages of a topic.")
@click.argument("topic")
@click.option(
    "--from",
    "start",
    default="earliest",
    metavar="PLACE",
    show_default=True,
    help="earliest, latest, a message id such as 12:0, or a time such as 2027-01-31T12:00:00Z or -10m.",
)
@click.option("--count", "-n", type=click.IntRange(1), help="End after so many messages.")
@click.option(
    "--subscription", "-s", help="Consume by this subscription, which is created if needed."
)
@click.option("--type", "kind", type=click.Choice(TYPES), default="exclusive", show_default=True)
@click.option("--timeout", type=DURATION, help="End when no message arrives for this time.")
@click.option("--until-end", is_flag=True, help="End at the message that is the last one now.")
@click.option(
    "--no-ack", is_flag=True, help="Acknowledge nothing: the subscription keeps all messages."
)
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
    start: str,
    count: int | None,
    subscription: str | None,
    kind: str,
    timeout: float | None,
    until_end: bool,
    no_ack: bool,
    raw: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Print the messages of TOPIC, a line for each.

    Without --subscription messages are only read: nothing is created, acknowledged or changed. With it each message is
    acknowledged after its line was written. A new subscription begins at --from, which is earliest or latest then; an
    existing one continues where it stands.

    Without --count, --timeout or --until-end it waits for further messages; Ctrl-C ends.

    Example: magnetar consume orders --from earliest --count 10
    """
    from engine.base.clock import SystemClock
    from magnetar.command.connecting.client import full_name, run
    from magnetar.command.messages.reading import ReadOptions, read
    from magnetar.command.messages.starts import parse_start

    try:
        place = parse_start(start, SystemClock().wall_ms())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--from") from None
    if raw and verbose and not as_json:
        raise click.UsageError("--raw writes payloads alone: leave --verbose out, or add --json")
    if subscription is None and (no_ack or kind != TYPES[0]):
        raise click.UsageError("--no-ack and --type are for --subscription")
    if subscription is not None and not subscription.strip():
        raise click.BadParameter("must not be blank", param_hint="--subscription")
    if subscription is not None and not place.is_named:
        raise click.UsageError(
            "--from is earliest or latest with --subscription; "
            "`magnetar subscriptions reset` moves a subscription"
        )
    if subscription is not None and until_end:
        raise click.UsageError("--until-end is for reading without --subscription; use --timeout")
    name = full_name(topic)
    options = ReadOptions(
        place,
        count=count,
        subscription=subscription,
        kind=(0, 1, 2, 3)[TYPES.index(kind)],
        timeout_s=timeout,
        acknowledge=not no_ack,
        until_end=until_end,
        verbose=verbose,
        raw=raw,
        as_json=as_json,
    )
    run(read(connection, name, options), connection, name)
