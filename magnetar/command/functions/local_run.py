"""``magnetar functions localrun``: one instance of a function on this machine, against any cluster, until Ctrl-C."""

import asyncio
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.functions.components import functions
from magnetar.command.functions.forms import DEFAULT, config_of
from magnetar.command.functions.trying import try_function
from magnetar.command.output import safe

functions.add_command(try_function)
POLL_S = 0.3
GRACE_S = 5.0


@functions.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--class", "class_name", metavar="MODULE.CLASS", help="The class in FILE.")
@click.option("--input", "inputs", multiple=True, metavar="TOPIC", help="An input topic.")
@click.option("--output", metavar="TOPIC", help="The output topic.")
@click.option("--name", default="localrun", show_default=True, help="The function's name.")
@click.option("--config", metavar="FILE", help="YAML or JSON file with fields of the config.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A field of it.")
@connection_options
def localrun(connection: ClusterAddress, file: str, name: str, **options: Any) -> None:
    """Run the function in FILE on this machine until Ctrl-C, and print its log.

    The cluster stores nothing of it but its subscription. Example: magnetar functions localrun ex.py --class ex.Ex
    --input in --output out
    """
    from engine.base.errors import InvalidRequest
    from engine.functions.definitions.configs import details_of, parse_config
    from magnetar.command.connecting.client import run

    config = config_of(
        options["config"],
        options["settings"],
        className=options["class_name"],
        inputs=list(options["inputs"]),
        output=options["output"],
    )
    tenant, _, namespace = DEFAULT.partition("/")
    config = {"tenant": tenant, "namespace": namespace, "name": name, **config}
    try:
        details = details_of("function", parse_config("function", config), file)
    except InvalidRequest as error:
        raise CommandFailed(error.reason, Exit.USAGE) from error
    run(_run(connection, details, Path(file).resolve()), connection)


async def _run(connection: ClusterAddress, details: Any, package: Path) -> None:
    """Run an instance until it ends or the call is cancelled. Raises CommandFailed when it ended by itself."""
    from engine.base.tasks import TaskScope
    from engine.functions.definitions.functions_pb2 import FunctionMetaData
    from engine.functions.runtime.ports import InstanceSpec
    from engine.functions.runtime.runtime_kinds import runtime_of

    with tempfile.TemporaryDirectory(prefix="magnetar-localrun-") as place:
        folder = Path(place) / "instance"
        spec = InstanceSpec(
            FunctionMetaData(functionDetails=details),
            0,
            package,
            folder,
            ",".join(connection.urls),
            web_url=connection.admin_url,
            token_file=_token_file(connection, Path(place)),
            trust_certs_file=_file(connection.tls_trust_certs),
            verify_hostname=not connection.tls_any_host,
            environment=_environment(os.environ),
        )
        instance = await runtime_of("process", Path(place) / "environments").start(spec)
        tasks = TaskScope("localrun")
        tasks.spawn("log", _follow(folder / "log.txt"))
        try:
            reason = await instance.wait()
        finally:
            await tasks.close()
            await instance.stop(GRACE_S)
        if not reason.expected:
            raise CommandFailed(safe(reason.text.strip().rpartition("\n")[2]) or "it has ended")


def _token_file(connection: ClusterAddress, place: Path) -> Path | None:
    from magnetar.command.connecting.client import token

    text = token(connection)
    if not text:
        return None
    path = place / "token"
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def _file(path: str) -> Path | None:
    return Path(path).resolve() if path else None


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the function sees: none of the caller's credentials."""
    return {name: environ[name] for name in ("LC_ALL",) if name in environ}


async def _follow(path: Path) -> None:
    """Print what is appended to a log, which begins again when it is full."""
    offset = 0
    while True:
        offset = _print_from(path, offset)
        await asyncio.sleep(POLL_S)


def _print_from(path: Path, offset: int) -> int:
    """Print a file from a position on and return its end."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        if path.stat().st_size < offset:
            offset = 0
        file.seek(offset)
        data = file.read()
        for line in data.decode(errors="replace").splitlines():
            click.echo(safe(line))
        return offset + len(data)
    return offset
