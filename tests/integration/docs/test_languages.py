"""The programs of the guide "Publish and consume" print what it says, in each language whose tools are at hand."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench.contenders import apache_missing
from tests.integration.docs.terminal import Ports
from tests.interop.schemas.programs import UnavailableError, build_go
from tests.oracle.ledgers_java import HOME, LEAN
from tests.support.documents.pages import ROOT
from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

PROGRAMS = ROOT / "docs" / "examples"
PRINTED = [f"order {number} customer-7 web" for number in (1, 2, 3)]
RUN_S_MAX = 840.0
"""Bound of a program with its build, in seconds: Cargo compiles two hundred crates."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def python(folder: Path) -> list[str]:
    return [sys.executable, str(folder / "orders.py")]


def websocket(folder: Path) -> list[str]:
    node = tool("node")
    # Node.js 22 has WebSocket without an option, and accepts this one.
    return [node, "--experimental-websocket", str(folder / "orders.mjs")]


def java(folder: Path) -> list[str]:
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache's Java client is not at hand: {reason}")
    (jars,) = HOME.glob("apache-pulsar-*/lib")
    source = folder / "src" / "main" / "java" / "Orders.java"
    return [tool("java"), *LEAN.split(), "-cp", f"{jars}/*", str(source)]


def go(folder: Path) -> list[str]:
    try:
        return [build_go(folder, folder)]
    except UnavailableError as error:
        pytest.skip(str(error))


def rust(folder: Path) -> list[str]:
    if shutil.which("protoc") is None:
        protoc = folder / "protoc"
        protoc.write_text(f'#!/bin/sh\nexec {sys.executable} -m grpc_tools.protoc "$@"\n')
        protoc.chmod(0o755)
    return [tool("cargo"), "run", "--quiet", "--manifest-path", str(folder / "Cargo.toml")]


def cpp(folder: Path) -> list[str]:
    program = folder / "orders"
    build = [tool("g++"), "-std=c++17", "-o", str(program), str(folder / "orders.cc"), "-lpulsar"]
    built = subprocess.run(build, capture_output=True, text=True)
    if "pulsar/Client.h: No such file" in built.stderr or "cannot find -lpulsar" in built.stderr:
        pytest.skip(
            "Apache's C++ client is not at hand: install apache-pulsar-client-dev, or name its folders by CPATH,"
            " LIBRARY_PATH and LD_LIBRARY_PATH"
        )
    assert built.returncode == 0, built.stderr
    return [str(program)]


def node(folder: Path) -> list[str]:
    script = folder / "orders.cjs"
    loaded = [tool("node"), "-e", "require('pulsar-client')"]
    if subprocess.run(loaded, cwd=folder, capture_output=True).returncode:
        pytest.skip(
            "Apache's Node.js client is not at hand: npm install pulsar-client, whose library is fetched from Apache's"
            " archive or compiled, and name its node_modules by NODE_PATH"
        )
    return [tool("node"), str(script)]


def tool(name: str) -> str:
    """Return the path of a program; skip the test without it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"this machine has no {name}")
    return path


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as made:
        yield made


@pytest.mark.parametrize(
    "command",
    [
        python,
        websocket,
        pytest.param(java, marks=pytest.mark.long),
        pytest.param(go, marks=pytest.mark.long),
        pytest.param(rust, marks=pytest.mark.long),
        cpp,
        node,
    ],
    ids=lambda command: command.__name__,
)
def test_a_program_of_the_guide_prints_its_messages(
    instance: Instance, tmp_path: Path, command: Callable[[Path], list[str]]
) -> None:
    folder = shutil.copytree(PROGRAMS / command.__name__, tmp_path / "program")
    ports = Ports(instance.ports)
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_text(ports.of_instance(file.read_text()))
    words = command(folder)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=RUN_S_MAX
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    printed = [line for line in done.stdout.splitlines() if line.startswith("order ")]
    assert printed == PRINTED, done.stdout[-2000:] + done.stderr[-4000:]
