"""The metadata server and the bookies of an instance that does not run, for a command that reads or writes its data."""

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial as bound
from pathlib import Path

from gateway.standalone import plan
from gateway.standalone.children.log_file import LogFile
from gateway.standalone.children.readiness import is_ready
from gateway.standalone.data_folder import DataFolderError
from gateway.standalone.leftovers import die_with_parent

READY_S = 120.0
STOP_S = 30.0
ATTEMPTS = 50
WITHOUT_REPAIR = {"MAGNETAR_AUTO_RECOVERY_DAEMON_ENABLED": "false"}
"""Variables of bookies whose data the command alone changes."""


def instance_children(options: plan.InstanceOptions) -> list[plan.Child]:
    """Return the specifications of an instance's processes, without programs of other projects. Raises PlanError."""
    return plan.children(options, java_home=Path(), classpath="", redis="redis-server")


def client_environment(children: Sequence[plan.Child]) -> Mapping[str, str]:
    """Return the variables with which a broker of the instance reaches metadata and bookies."""
    broker = next(child for child in children if child.name.startswith("broker-"))
    return broker.env


@contextmanager
def storage(options: plan.InstanceOptions) -> Iterator[Mapping[str, str]]:
    """Run metadata server and bookies for the length of the block, and yield the variables of their clients.

    They listen on free ports of their own, so that no client of the instance reaches them. The caller holds the folder.
    Raises DataFolderError.
    """
    data = options.data_dir
    if (data / "zookeeper" / "version-2").is_dir() and not (data / "metadata").exists():
        raise DataFolderError(
            f"the metadata in {data} is ZooKeeper's: start the instance, and call this while it runs"
        )
    (data / "logs").mkdir(exist_ok=True, mode=0o700)
    try:
        children = instance_children(_on_free_ports(options))
    except plan.PlanError as error:
        raise DataFolderError(str(error)) from error
    with ExitStack() as running:
        for child in children:
            if child.name == "zookeeper" or child.name.startswith("bookie-"):
                env = {**os.environ, **child.env, **WITHOUT_REPAIR}
                path = data / "logs" / f"{child.name}.log"
                try:
                    running.enter_context(
                        server_process(child.name, child.argv, env, child.ready, options.host, path)
                    )
                except ServerNotReadyError as error:
                    raise DataFolderError(str(error)) from error
        yield client_environment(children)


def _on_free_ports(options: plan.InstanceOptions) -> plan.InstanceOptions:
    """Return the options with unused ports for the metadata server and the bookies."""
    first = _free_block(options.host, 1 + 2 * options.bookies)
    instance = replace(
        options.settings.instance,
        zookeeper_port=first,
        bookie_port=first + 1,
        bookie_http_port=first + 1 + options.bookies,
    )
    return replace(options, settings=replace(options.settings, instance=instance))


def _free_block(host: str, count: int) -> int:
    """Return the first of ``count`` consecutive ports that nothing uses now. Raises DataFolderError."""
    for _ in range(ATTEMPTS):
        with ExitStack() as probes:
            probe = probes.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            probe.bind((host, 0))
            first: int = probe.getsockname()[1]
            if all(_is_free(host, first + i) for i in range(1, count)):
                return first
    raise DataFolderError(f"{host} has no {count} consecutive free ports")


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, port))
        except (OSError, OverflowError):
            return False
    return True


class ServerNotReadyError(Exception):
    """A server does not become ready. The message names it, its last words and its log."""


@contextmanager
def server_process(
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    ready: plan.Ready,
    host: str,
    log_path: Path,
    *,
    ready_s: float = READY_S,
    stop_s: float = STOP_S,
) -> Iterator[None]:
    """Run a server for the length of the block; it ends with this process at the latest.

    ``ready_s`` is the time in which it must be ready, ``stop_s`` that after which it is killed. Raises
    ServerNotReadyError.
    """
    with log_path.open("ab") as log:
        # Two servers on the same files, one of them left behind, would damage them.
        process = subprocess.Popen(
            argv,
            env=env,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            preexec_fn=bound(die_with_parent, os.getpid()),
        )
    try:
        until = time.monotonic() + ready_s
        while not asyncio.run(is_ready(ready, host)):
            if process.poll() is not None or time.monotonic() > until:
                raise ServerNotReadyError(
                    f"{name} does not start: {LogFile(log_path).last_message()}; log: {log_path}"
                )
            time.sleep(0.05)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(stop_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
