"""``magnetar support FILE``: collect what a developer needs to find a fault, without secrets."""

from pathlib import Path

import click

from bookie.settings import PROGRAM as BOOKIE
from engine.functions.worker.settings import PROGRAM as FUNCTIONS_WORKER
from engine.metadata.server.settings import PROGRAM as METADATA
from engine.proxy.settings import PROGRAM as PROXY
from engine.settings import PROGRAM as BROKER
from gateway.environment import PROGRAM as GATEWAY
from gateway.standalone.settings import PROGRAM as STANDALONE
from magnetar.command.operation import data_dir_option, failures, place_of
from magnetar.command.output import emit, json_option
from magnetar.operate.support import LOG_BYTES, write_bundle

PROGRAMS = (STANDALONE, BROKER, BOOKIE, METADATA, PROXY, FUNCTIONS_WORKER, GATEWAY)


@click.command(
    help="""Write logs, settings, versions, numbers and the shape of the metadata into the new ZIP file FILE.

    It has no payloads, and secrets are hidden. Look into it before you send it.
    """
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--hash-names", is_flag=True, help="Hide names of tenants, topics and the like.")
@click.option(
    "--logs",
    "log_folders",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="A folder with further *.log files; may be repeated.",
)
@click.option(
    "--log-bytes",
    type=click.IntRange(1024, 1 << 30),
    default=LOG_BYTES,
    show_default=True,
    help="Bytes of the end of each log.",
)
@data_dir_option
@json_option
def command(
    file: Path,
    hash_names: bool,
    log_folders: tuple[Path, ...],
    log_bytes: int,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    place = place_of(data_dir)
    with failures():
        bundle = write_bundle(
            place,
            file,
            PROGRAMS,
            hash_names=hash_names,
            log_folders=log_folders,
            log_bytes=log_bytes,
        )
    sizes = {name: len(text.encode()) for name, text in bundle.files.items()}
    lines = [f"{file} has {len(sizes)} files:", *(f"  {name}" for name in sorted(sizes))]
    lines += [f"  not collected: {line}" for line in bundle.failures]
    lines.append("Look into it before you send it.")
    emit(
        {"file": str(file), "files": sizes, "failures": bundle.failures},
        as_json,
        lambda: "\n".join(lines),
    )
