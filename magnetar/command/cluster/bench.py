"""``magnetar bench``: rates and latencies of a cluster, as one client of one process sees them."""

import click

from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.messages.values import DURATION
from magnetar.command.output import json_option

SECONDS_MAX = 3600


@click.command(name="bench", short_help="Measure rates and latencies of a cluster.")
@click.option(
    "--seconds", type=DURATION, default="10s", show_default=True, help="Time of each part."
)
@click.option(
    "--size",
    type=click.IntRange(16, 1 << 20),
    default=1024,
    show_default=True,
    help="Bytes of a message.",
)
@click.option(
    "--rate",
    type=click.IntRange(1, 10_000),
    default=200,
    show_default=True,
    help="Messages a second while latencies are measured.",
)
@click.option("--namespace", default="public/default", show_default=True)
@click.option("--partitions", type=click.IntRange(0, 100), default=0, show_default=True)
@click.option(
    "--non-persistent", is_flag=True, help="A topic in memory, whose messages are not stored."
)
@json_option
@connection_options
def command(
    connection: ClusterAddress,
    seconds: float,
    size: int,
    rate: int,
    namespace: str,
    partitions: int,
    non_persistent: bool,
    as_json: bool,
) -> None:
    """Publish to a new topic and consume from it: first at a low rate, for latencies, then as fast as possible.

    The topic is deleted at the end. It takes twice --seconds, and ten more at most. The client is one Python process,
    which limits the rate: a cluster can do more than one client measures.

    Example: magnetar bench --seconds 5
    """
    from magnetar.command.connecting.client import full_name, run
    from magnetar.command.messages.measuring import BenchOptions, bench

    if not 1 <= seconds <= SECONDS_MAX:
        raise click.BadParameter(f"must be from 1s to {SECONDS_MAX}s", param_hint="--seconds")
    domain = "non-persistent" if non_persistent else "persistent"
    base = full_name(f"{domain}://{namespace}/magnetar-bench")
    options = BenchOptions(base, seconds, size, rate, partitions, as_json)
    run(bench(connection, options), connection, base)
