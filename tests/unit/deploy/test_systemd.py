"""The units of systemd: systemd accepts them, they are closed, and their rules fit the programs; the example of the
settings' file is one that every program accepts."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bookie.settings import PROGRAM as BOOKIE
from engine.metadata.server.settings import PROGRAM as METADATA
from engine.programs.commands.cluster_metadata import PROGRAM as COMMAND
from engine.proxy.settings import PROGRAM as PROXY
from engine.settings import PROGRAM as BROKER
from gateway.environment import PROGRAM as GATEWAY
from gateway.standalone.plan import MALLOC
from tests.support.import_graph import ROOT

UNITS = ROOT / "deploy" / "systemd"
PARTS = ("metadata", "bookie@", "broker@", "proxy@", "functions-worker", "gateway@", "worker")
SERVICES = [UNITS / f"magnetar-{part}.service" for part in PARTS]
EXPOSURE_MAX = 20
"""Limit of what a service may do by systemd's measure, in tenths: 100 is everything."""


def entries(unit: Path) -> dict[str, list[str]]:
    """Return the values of a unit's keys."""
    values: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            values.setdefault(key, []).append(value)
    return values


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the paths of the units with a program that exists, of templates those of an instance."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: it is in Debian's package systemd")
    folder = tmp_path_factory.mktemp("units")
    paths = []
    for unit in (UNITS / "magnetar.target", *SERVICES):
        text = unit.read_text().replace("/opt/magnetar/bin/magnetar ", "/bin/true ")
        (folder / unit.name).write_text(text)
        path = folder / unit.name.replace("@", "@1")
        if path.name != unit.name:
            path.symlink_to(unit.name)
        paths.append(str(path))
    return paths


def test_systemd_accepts_the_units(installed: list[str]) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--generators=no", *installed],
        capture_output=True,
        text=True,
    )
    of_ours = [line for line in done.stderr.splitlines() if "magnetar" in line]
    assert (done.returncode, of_ours) == (0, [])


def test_the_services_may_do_little_on_their_machine(installed: list[str]) -> None:
    services = [path for path in installed if path.endswith(".service")]
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", *services],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_a_service_ends_at_wrong_settings_and_otherwise_starts_again(unit: Path) -> None:
    values = entries(unit)
    assert values["Type"] == ["notify"]
    assert values["Restart"] == ["on-failure"]
    assert values["RestartPreventExitStatus"] == [str(os.EX_CONFIG)]
    assert values["StartLimitIntervalSec"] == ["0"]
    assert values["WantedBy"] == values["PartOf"] == ["magnetar.target"]
    # The worker's main process has no event loop whose turns it could report.
    assert ("WatchdogSec" in values) == (unit.stem != "magnetar-worker")


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.stem)
def test_a_service_runs_the_program_of_its_name(unit: Path) -> None:
    (command,) = entries(unit)["ExecStart"]
    program, subcommand, *_ = command.split()
    assert program == "/opt/magnetar/bin/magnetar"
    assert subcommand == re.sub("magnetar-|@", "", unit.stem)


def test_the_parts_with_large_buffers_have_the_memory_settings_of_an_instance() -> None:
    for part in ("bookie@", "broker@", "proxy@"):
        given = " ".join(entries(UNITS / f"magnetar-{part}.service")["Environment"]).split()
        assert dict(item.split("=") for item in given if item.startswith("MALLOC")) == MALLOC


def loaded(program: Any, environ: Mapping[str, str], folder: Path) -> Any:
    return program.load({"MAGNETAR_CONFIG": str(folder / "magnetar.toml"), **environ}, folder)


def test_every_program_accepts_the_example_and_serves_other_machines_with_credentials(
    tmp_path: Path,
) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    password.chmod(0o600)
    text = (UNITS / "magnetar.toml").read_text()
    text = re.sub(r'"file:///etc/magnetar/[a-z/.-]*password"', f'"{password.as_uri()}"', text)
    (tmp_path / "magnetar.toml").write_text(text)
    metadata = loaded(METADATA, {"MAGNETAR_METADATA_SERVER_DATA_DIR": "/x"}, tmp_path)
    bookie = loaded(BOOKIE, {"MAGNETAR_BOOKIE_DATA_DIR": "/x"}, tmp_path)
    broker, proxy, gateway = (loaded(program, {}, tmp_path) for program in (BROKER, PROXY, GATEWAY))
    assert loaded(COMMAND, {}, tmp_path).metadata.metadata_tls_enabled
    assert metadata.server.authenticates
    assert bookie.bookie.roles
    for served in (broker, proxy, gateway):
        assert served.identity.general.authentication_enabled
        assert served.identity.authorization.authorization_enabled
    hosts = (metadata.server.host, bookie.bookie.listening_host, broker.node.bind_address)
    assert {*hosts, proxy.proxy.bind_address} == {"0.0.0.0"}


def test_the_user_and_the_folders_are_those_of_the_services() -> None:
    created = (UNITS / "magnetar.sysusers").read_text().splitlines()[-1].split()
    assert created[:2] == ["u", "magnetar"]
    folders = {
        line.split()[1] for line in (UNITS / "magnetar.tmpfiles").read_text().splitlines()[1:]
    }
    assert folders == {"/etc/magnetar", "/var/lib/magnetar"}
    for unit in SERVICES:
        values = entries(unit)
        assert (values["User"], values["Group"], values["StateDirectory"]) == (["magnetar"],) * 3
        assert values["UMask"] == ["0077"]
