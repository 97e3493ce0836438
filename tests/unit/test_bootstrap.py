"""``bootstrap.py`` on machines that lack something: one line with the cause and the remedy."""

import ast
import os
import runpy
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bootstrap.py"


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 10, 12)])
def test_an_old_python_is_refused_with_the_version_that_is_needed(
    version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ".".join(str(part) for part in version)
    monkeypatch.setattr(sys, "version_info", (*version, "final", 0))
    monkeypatch.setattr(sys, "version", f"{text} (main)")
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert caught.value.code == (
        f"magnetar: Python 3.11 or newer is needed, this is {text}."
        " Mend it with: make PYTHON=/path/to/python3.11 run"
    )


def test_an_old_python_can_run_the_version_check() -> None:
    """Accept no syntax and no annotation evaluated at import that Python 3.7 lacks."""
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 7))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        arguments = [*function.args.args, *function.args.kwonlyargs]
        annotations = [function.returns, *(argument.annotation for argument in arguments)]
        for annotation in annotations:
            assert not isinstance(annotation, (ast.Subscript, ast.BinOp)), ast.dump(annotation)


def test_a_python_without_venv_names_the_package_to_install(tmp_path: Path) -> None:
    clone, fake, empty = tmp_path / "clone", tmp_path / "fake", tmp_path / "empty"
    for folder in (clone, fake, empty):
        folder.mkdir()
    (clone / "bootstrap.py").write_text(SCRIPT.read_text())
    (clone / "requirements.lock").write_text("")
    (fake / "venv.py").write_text("raise SystemExit('ensurepip is not available')\n")
    done = subprocess.run(
        [sys.executable, "bootstrap.py"],
        cwd=clone,
        env={**os.environ, "PATH": str(empty), "PYTHONPATH": str(fake)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "magnetar: this Python cannot create virtual environments."
        " Mend it with: sudo apt install python3-venv\n"
    )


def clone_with_uv(tmp_path: Path, uv: str) -> tuple[Path, dict[str, str]]:
    """Make a tree to set up, with a script in place of uv. Return it with the environment for the setup."""
    clone, fake = tmp_path / "clone", tmp_path / "fake"
    for folder in (clone, fake):
        folder.mkdir()
    (clone / "bootstrap.py").write_text(SCRIPT.read_text())
    (clone / "requirements.lock").write_text("")
    (fake / "uv").write_text(f"#!/bin/sh\n{uv}")
    (fake / "uv").chmod(0o755)
    return clone, {**os.environ, "PATH": f"{fake}:{os.environ['PATH']}"}


def test_another_failure_of_venv_is_reported_with_its_own_output(tmp_path: Path) -> None:
    clone, _ = clone_with_uv(tmp_path, "exit 1")
    (tmp_path / "empty").mkdir()
    package = tmp_path / "fake" / "venv"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("raise OSError('the disk is on fire')\n")
    done = subprocess.run(
        [sys.executable, "bootstrap.py"],
        cwd=clone,
        env={**os.environ, "PATH": str(tmp_path / "empty"), "PYTHONPATH": str(tmp_path / "fake")},
        capture_output=True,
        text=True,
    )
    assert "OSError: the disk is on fire" in done.stderr
    assert done.stderr.endswith("creating .tools failed (exit 1); the output is above\n")
    assert "python3-venv" not in done.stderr


@pytest.mark.parametrize("killed", [False, True])
def test_a_second_setup_waits_for_the_first_and_for_processes_of_a_killed_one(
    tmp_path: Path, killed: bool
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    os.mkfifo(begun)
    os.mkfifo(go)
    # two setups at once would collide on this folder
    steps = f"""cd {tmp_path}
mkdir busy || exit 9
[ -e first ] || {{ touch first; echo > begun; cat go; }}
mkdir -p clone/.venv/bin && touch clone/.venv/bin/python
rmdir busy
"""
    clone, env = clone_with_uv(tmp_path, steps)
    start = partial(
        subprocess.Popen, [sys.executable, "bootstrap.py"], cwd=clone, env=env, text=True
    )
    with (tmp_path / "out").open("w") as out:
        first = start(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        begun.read_text()
        if killed:
            first.kill()
            first.wait()
        second = start(stdout=out, stderr=out)
    while "waiting for it" not in (tmp_path / "out").read_text():
        assert second.poll() is None
        time.sleep(0.01)
    go.write_text("")
    assert second.wait(30) == 0, (tmp_path / "out").read_text()
    assert first.wait(30) == (-9 if killed else 0)


@pytest.mark.parametrize("target", ["life", "unit", "check"])
def test_make_reports_missing_development_packages(tmp_path: Path, target: str) -> None:
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    done = subprocess.run(["make", target], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "magnetar: the development packages are missing. Mend it with: make dev"
    )


def test_ctrl_c_while_packages_are_installed_ends_with_one_line(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    clone, env = clone_with_uv(tmp_path, f"echo > {begun}\nexec sleep 600\n")
    process = subprocess.Popen(
        [sys.executable, "bootstrap.py"],
        cwd=clone,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    begun.read_text()  # until it installs
    os.killpg(process.pid, signal.SIGINT)
    output, complaints = process.communicate(timeout=30)
    assert (process.returncode, complaints) == (130, "")
    assert output.splitlines()[-1] == "magnetar: interrupted; the next call goes on from here"


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("refuses", ["", "apt-get", "dpkg-deb"])
def test_etcd_is_unpacked_without_an_installation_or_reported_as_missing(
    tmp_path: Path, refuses: str
) -> None:
    programs, home = tmp_path / "bin", tmp_path / "home"
    for folder in (programs, home):
        folder.mkdir()
    (home / "bootstrap.py").write_bytes(SCRIPT.read_bytes())
    calls = tmp_path / "calls"
    fake(programs, "apt-get", f"echo apt-get $* >> {calls}; /bin/touch etcd.deb")
    fake(programs, "dpkg-deb", 'd="$3/usr/bin"; /bin/mkdir -p "$d"; /bin/touch "$d/etcd"')
    if refuses:
        fake(programs, refuses, "exit 1")
    code = "import bootstrap; bootstrap.ensure_etcd(); bootstrap.ensure_etcd()"
    env = {"PATH": str(programs), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=home, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (home / ".tools/etcd/usr/bin/etcd").exists() is not bool(refuses)
    assert (b"sudo apt install etcd-server" in done.stdout) is bool(refuses)
    if not refuses:
        assert "install" not in calls.read_text()
        assert done.stdout.count(b"unpacking") == 1
