"""Takeover of the metadata that earlier versions of an instance stored in ZooKeeper's own format.

It happens once, before the first start with the embedded metadata server. ZooKeeper's files stay as a backup.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial as bound
from pathlib import Path

from engine.base.disk.files import SystemDisk
from gateway.standalone import plan
from gateway.standalone.leftovers import die_with_parent
from gateway.standalone.programs import ProgramMissingError, java_home, zookeeper_classpath
from gateway.standalone.storage import ServerNotReadyError, server_process

OLD, NEW = "zookeeper", "metadata"
PARTIAL, BACKUP = "metadata.partial", "zookeeper.backup"
READY_S = 60.0
STOP_S = 20.0


class TakeoverError(Exception):
    """The metadata could not be taken over. The text is one line; nothing was changed."""


def take_over(data_dir: Path, host: str, report: Callable[[str], None]) -> None:
    """Copy ZooKeeper's data of this instance into the embedded server's; do nothing when there is none.

    Raises TakeoverError.

    Killed at any moment, it begins anew at the next start, or finishes when the copy was complete.
    """
    old, new, partial = (data_dir / name for name in (OLD, NEW, PARTIAL))
    if not (old / "version-2").is_dir():
        return
    if not new.exists():
        report("moving this instance's metadata from ZooKeeper to the embedded server, once")
        shutil.rmtree(partial, ignore_errors=True)
        report(_copy(data_dir, host, partial))
        partial.rename(new)
        SystemDisk().sync_dir(str(data_dir))
    # After the new one is in place: a start in between finds both and only sets the old one aside.
    backup = _unused(data_dir / BACKUP)
    old.rename(backup)
    SystemDisk().sync_dir(str(data_dir))
    report(f"ZooKeeper's data stays in {backup}; it is not needed any more")


def refusal(data_dir: Path) -> str:
    """Return the reason why ZooKeeper cannot serve this instance; empty when it can."""
    if not (data_dir / NEW).exists():
        return ""
    return (
        f"--metadata zookeeper: this instance's metadata is in {data_dir / NEW}, which the embedded server reads."
        " Copy it with magnetar metadata copy, or choose another folder with MAGNETAR_DATA_DIR=/some/folder"
    )


def _copy(data_dir: Path, host: str, partial: Path) -> str:
    """Run both servers on free ports and copy from one to the other; return what was copied."""
    try:
        java, classpath = java_home(data_dir / "java"), zookeeper_classpath()
    except ProgramMissingError as error:
        raise TakeoverError(
            f"{data_dir / OLD} holds metadata in ZooKeeper's format, which is read once with Java: {error}"
        ) from error
    from_port, to_port = _free_ports(host, 2)
    config = data_dir / OLD / "takeover.cfg"
    config.write_text(plan.zookeeper_config(data_dir / OLD, host, from_port))
    apache = plan.apache_zookeeper(data_dir, java, classpath, config)
    embedded = plan.embedded_metadata(partial, host, to_port)
    with (
        _server("ZooKeeper", apache, {**os.environ, **plan.JAVA_LOCALE}, host, from_port, data_dir),
        _server(
            "metadata", embedded, {**os.environ, **plan.python_path()}, host, to_port, data_dir
        ),
    ):
        command = (*plan.PYTHON, "engine", "metadata", "copy")
        urls = (f"zk:{host}:{from_port}", f"zk:{host}:{to_port}")
        copied = subprocess.run(
            [*command, *urls],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **plan.python_path()},
            preexec_fn=bound(die_with_parent, os.getpid()),
        )
    if copied.returncode:
        raise TakeoverError(f"the metadata cannot be copied: {copied.stderr.strip()[-500:]}")
    return copied.stdout.strip()


@contextmanager
def _server(
    name: str, argv: Sequence[str], env: Mapping[str, str], host: str, port: int, data_dir: Path
) -> Iterator[None]:
    """Run a metadata server for the length of the block. Raises TakeoverError when it does not become ready."""
    path = data_dir / "logs" / "takeover.log"
    ready = plan.Ready("zookeeper", port)
    with ExitStack() as running:
        try:
            running.enter_context(
                server_process(name, argv, env, ready, host, path, ready_s=READY_S, stop_s=STOP_S)
            )
        except ServerNotReadyError as error:
            raise TakeoverError(str(error)) from error
        yield


def _free_ports(host: str, count: int) -> list[int]:
    probes = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((host, 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _unused(path: Path) -> Path:
    """Return ``path``, or with a number if there is such a folder of an earlier takeover."""
    number = 1
    candidate = path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
