"""The image: its root file system is built from the Containerfile and the wheel, and its programs run in it as a user
without rights, on a read-only root; the check of a container's health knows each of them."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.crash.load import quiet_client
from tests.integration.deploy.image_builder import CHROOT, ImageBuilder, debootstrap
from tests.support.import_graph import ROOT
from tests.support.ports import free_ports
from tests.support.waiting import until_blocking

pytestmark = pytest.mark.long

IN_CONTAINER = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,ro,bind "$1"
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/tmp"
mount -t tmpfs tmpfs "$1/dev"
mknod -m 666 "$1/dev/null" c 1 3
mknod -m 444 "$1/dev/urandom" c 1 9
mount --bind "$2" "$1/var/lib/magnetar"
shift 2
exec "$@"
"""
"""Arguments: the root, the data folder, the command."""


class Image:
    """The built root file system, whose programs run in namespaces of their own."""

    def __init__(self, folder: Path) -> None:
        self._builder = ImageBuilder(folder)
        self.root = self._builder.build()
        self.user = self._builder.user
        self.folder = folder

    @contextmanager
    def container(
        self, name: str, arguments: list[str], variables: dict[str, str]
    ) -> Iterator["Container"]:
        """Run the image with arguments until the end of the block."""
        data = self.folder / f"data-{name}"
        data.mkdir(mode=0o700)
        os.chown(data, *map(int, self.user.split(":")))
        environment = {**self._builder.environment, "HOME": "/var/lib/magnetar", **variables}
        inside = [CHROOT, f"--userspec={self.user}", str(self.root), "/usr/bin/env", "-i"]
        inside += ["-C", "/var/lib/magnetar", *(f"{k}={v}" for k, v in environment.items())]
        command = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        command += ["sh", "-c", IN_CONTAINER, "sh", str(self.root), str(data)]
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, *inside, *self._builder.entry, *arguments],
                stdout=output,
                stderr=output,
            )
        try:
            yield Container(process, log, self, environment)
        finally:
            process.kill()
            process.wait(30)


class Container:
    """A running program of the image."""

    def __init__(
        self, process: subprocess.Popen[bytes], log: Path, image: Image, variables: dict[str, str]
    ) -> None:
        self.process = process
        self.log = log
        self._image = image
        self._variables = variables

    @property
    def main_pid(self) -> int:
        """The process that is number 1 in the container; 0 before it exists."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int((children.read_text().split() or ["0"])[0])

    def health(self) -> tuple[int, str]:
        """Run the image's health check as a container engine does."""
        enter = ["nsenter", f"--target={self.main_pid}", "--mount", "--pid"]
        enter += [CHROOT, f"--userspec={self._image.user}", str(self._image.root)]
        variables = [f"{name}={value}" for name, value in self._variables.items()]
        command = [*enter, "/usr/bin/env", "-i", "-C", "/var/lib/magnetar", *variables]
        done = subprocess.run([*command, "magnetar-health"], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def wait_healthy(self) -> None:
        until_blocking(
            lambda: self.main_pid and self.health()[0] == 0,
            lambda: f"{self.health()}\n{self.log.read_text()[-3000:]}",
        )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if os.geteuid() != 0:
        pytest.skip("only root can build a root file system and enter it")
    if not list((ROOT / "dist").glob("magnetar-*.whl")):
        pytest.skip("no wheel in dist: make wheel")
    debootstrap()
    folder = tmp_path_factory.mktemp("image")
    try:
        yield Image(folder)
    finally:
        shutil.rmtree(folder)  # half a gigabyte


def test_all_programs_run_as_a_user_without_rights_on_a_read_only_root(image: Image) -> None:
    ports = free_ports(8)
    zk, bookie, bookie_http, broker, broker_http, http, proxy, proxy_http = map(str, ports)
    store = {"MAGNETAR_METADATA_URL": f"zk:127.0.0.1:{zk}"}
    one_copy = dict.fromkeys(
        (
            f"MAGNETAR_MANAGED_LEDGER_DEFAULT_{name}"
            for name in ("ENSEMBLE_SIZE", "WRITE_QUORUM", "ACK_QUORUM")
        ),
        "1",
    )
    token = {"MAGNETAR_INTERNAL_TOKEN": "0123456789abcdef"}
    programs = {
        "metadata": {"MAGNETAR_METADATA_SERVER_PORT": zk},
        "bookie": {
            **store,
            "MAGNETAR_BOOKIE_BOOKIE_PORT": bookie,
            "MAGNETAR_BOOKIE_HTTP_SERVER_PORT": bookie_http,
        },
        "broker": {
            **store,
            **one_copy,
            **token,
            "MAGNETAR_BROKER_PORT": broker,
            "MAGNETAR_BROKER_HTTP_PORT": broker_http,
        },
        "proxy": {
            **store,
            "MAGNETAR_PROXY_SERVICE_PORT": proxy,
            "MAGNETAR_PROXY_WEB_SERVICE_PORT": proxy_http,
        },
        "gateway": {**store, **token, "MAGNETAR_HTTP_PORT": http},
    }
    with ExitStack() as stack:
        containers = {}
        for name, variables in programs.items():
            containers[name] = stack.enter_context(image.container(name, [name], variables))
            containers[name].wait_healthy()
        for container in containers.values():
            status = Path(f"/proc/{container.main_pid}/status").read_text()
            assert f"Uid:\t{image.user.split(':')[0]}\t" in status
            assert "CapEff:\t0000000000000000" in status
        client = quiet_client(f"pulsar://127.0.0.1:{proxy}")
        consumer = client.subscribe("persistent://public/default/contained", "one")
        client.create_producer("persistent://public/default/contained").send(b"in a container")
        assert consumer.receive(20_000).data() == b"in a container"
        client.close()


def test_a_wrong_setting_ends_the_container_with_its_own_status(image: Image) -> None:
    variables = {"MAGNETAR_BIND_ADDRESS": "0.0.0.0"}
    with image.container("refused", ["broker"], variables) as container:
        assert container.process.wait(60) == os.EX_CONFIG
        assert "without authentication only loopback is served" in container.log.read_text()
