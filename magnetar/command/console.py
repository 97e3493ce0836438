"""``magnetar console``: the console alone, in front of clusters of Apache Pulsar."""

import os
from pathlib import Path

import click

from magnetar.command.exits import CommandFailed, Exit

DATA_DIR = "~/.local/share/magnetar/console"
FILES = ("token_file", "tls_trust_certs", "tls_certificate", "tls_key")


def _pair(text: str, option: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not (name and value):
        raise click.BadParameter(f"must be NAME=VALUE, not {text!r}", param_hint=option)
    return name, value


def cluster_settings(clusters: tuple[str, ...], options: dict[str, tuple[str, ...]]) -> str:
    """Return the setting ``apache_clusters``. An option's value is ``VALUE`` for all clusters, or ``NAME=VALUE``.

    Raises click.BadParameter.
    """
    urls = dict(_pair(text, "--cluster") for text in clusters)
    if len(urls) < len(clusters):
        raise click.BadParameter("must name each cluster once", param_hint="--cluster")
    lines = []
    for name, url in urls.items():
        parts = [f"{name}={url}"]
        for key, values in options.items():
            if value := _value(name, values, urls):
                file = str(Path(value).expanduser().absolute()) if key in FILES else value
                parts.append(f"{key}={file}")
        lines.append("|".join(parts))
    for line in lines:
        if any(mark.isspace() for mark in line):
            raise click.BadParameter(f"must not contain blanks: {line!r}", param_hint="--cluster")
    return " ".join(lines)


def _value(name: str, values: tuple[str, ...], urls: dict[str, str]) -> str:
    """Return the value of an option for a cluster: the last that is for it, else the last for all."""
    for_all = ""
    for text in values:
        of, marked, value = text.partition("=")
        if marked and of in urls:
            if of == name:
                return value
        else:
            for_all = text
    return for_all


@click.command(
    "console",
    epilog="Exit status: 0 after a stop on request, 1 after a failure, 2 for wrong usage, 78 for an invalid setting.",
)
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    required=True,
    metavar="NAME=URL",
    help="A cluster by its name and the URL of its REST interface, such as us=http://pulsar:8080; repeatable.",
)
@click.option(
    "--token-file",
    multiple=True,
    metavar="[NAME=]FILE",
    help="File of the token that is presented to the clusters, or to one of them.",
)
@click.option(
    "--tls-trust-certs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="PEM file of the CAs that sign their certificates; without it those of the operating system.",
)
@click.option(
    "--tls-certificate",
    multiple=True,
    metavar="[NAME=]FILE",
    help="PEM file of the certificate to present.",
)
@click.option("--tls-key", multiple=True, metavar="[NAME=]FILE", help="PEM file of its key.")
@click.option(
    "--service-url",
    multiple=True,
    metavar="[NAME=]URL",
    help="The address for clients, such as pulsar://proxy:6650, where those that a cluster states cannot be reached.",
)
@click.option(
    "--remote-name",
    "remote",
    multiple=True,
    metavar="NAME=CLUSTER",
    help="The name that a cluster has itself, where NAME is another.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DATA_DIR,
    show_default=True,
    help="Holds people, audit log, history and alerts.",
)
def command(
    clusters: tuple[str, ...], host: str, port: int, data_dir: Path, **options: tuple[str, ...]
) -> None:
    """Run the console alone, in front of clusters of Apache Pulsar.

    No broker, bookie, metadata server, Redis or worker of ours is needed. Credentials are read from files, which may
    be replaced while it runs. Ctrl-C stops it.
    """
    os.environ["MAGNETAR_APACHE_CLUSTERS"] = cluster_settings(clusters, options)
    os.environ["MAGNETAR_SERVES_OWN_CLUSTER"] = "false"
    os.environ["MAGNETAR_DATA_DIR"] = str(data_dir.expanduser().absolute())
    os.environ.setdefault("MAGNETAR_HTTP_PORT", str(port))
    try:
        from gateway.serve import main
    except ModuleNotFoundError as error:
        raise CommandFailed(f"the console is not installed: {error}", Exit.FAILED) from error
    main(["--host", host, "--port", str(port)])
