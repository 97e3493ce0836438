"""``bootstrap.py`` on machines that lack something: one line with the cause and the remedy."""

import ast
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
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


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


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


def test_a_second_setup_waits_for_the_first(tmp_path: Path) -> None:
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
        second = start(stdout=out, stderr=out)
    while "waiting for it" not in (tmp_path / "out").read_text():
        assert second.poll() is None
        time.sleep(0.01)
    go.write_text("")
    assert second.wait(30) == 0, (tmp_path / "out").read_text()
    assert first.wait(30) == 0


def test_a_killed_setup_leaves_no_process_and_is_resumed(tmp_path: Path) -> None:
    """Kill it while a process of a process of its installer runs, which would write into the same folders."""
    begun, marker = tmp_path / "begun", tmp_path / "marker"
    os.mkfifo(begun)
    steps = f"""mkdir -p {tmp_path}/clone/.venv/bin && touch {tmp_path}/clone/.venv/bin/python
[ -e {marker} ] && exit 0
touch {marker}
sh -c 'trap "" TERM; echo $$ > {begun}; while :; do sleep 0.1; done'
true
"""
    clone, env = clone_with_uv(tmp_path, steps)
    first = subprocess.Popen(
        [sys.executable, "bootstrap.py"], cwd=clone, env=env, stdout=subprocess.DEVNULL
    )
    descendant = int(begun.read_text())
    first.kill()
    assert first.wait() == -signal.SIGKILL
    second = subprocess.run([sys.executable, "bootstrap.py"], cwd=clone, env=env)
    assert second.returncode == 0
    stat = Path(f"/proc/{descendant}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("free", [20, 100_000])
def test_a_full_disk_is_noticed_before_anything_is_downloaded(tmp_path: Path, free: int) -> None:
    clone, env = clone_with_uv(
        tmp_path, "touch started; mkdir -p .venv/bin; touch .venv/bin/python"
    )
    code = (
        "import bootstrap, shutil, types;"
        f"shutil.disk_usage = lambda path: types.SimpleNamespace(free={free} << 20); bootstrap.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=clone, env=env, capture_output=True, text=True
    )
    assert (clone / "started").exists() is (free > 20)
    if free == 20:
        line = f"magnetar: {clone} has 20 MB free; the packages and an instance's data need "
        assert done.stderr.startswith(line), done.stderr
        assert done.stderr.count("\n") == 1


def test_a_plain_setup_keeps_its_caches_in_the_folder_and_removes_them(tmp_path: Path) -> None:
    steps = """echo "$UV_CACHE_DIR" > cache-of-uv; mkdir -p "$UV_CACHE_DIR" .venv/bin
touch .venv/bin/python"""
    clone, env = clone_with_uv(tmp_path, steps)
    env.pop("UV_CACHE_DIR", None)
    subprocess.run([sys.executable, "bootstrap.py"], cwd=clone, env=env, check=True)
    assert (clone / "cache-of-uv").read_text() == f"{clone}/.tools/cache\n"
    assert not (clone / ".tools" / "cache").exists()


def clone_with_console(tmp_path: Path, npm: str) -> tuple[Path, dict[str, str]]:
    """Make a tree with a console to build, with scripts in place of uv, Node and npm."""
    clone, env = clone_with_uv(tmp_path, "mkdir -p .venv/bin; touch .venv/bin/python")
    (clone / "frontend" / "src").mkdir(parents=True)
    (clone / "frontend" / "package-lock.json").write_text("{}")
    fake(tmp_path / "fake", "node", "echo v22.12.0")
    fake(tmp_path / "fake", "npm", npm)
    return clone, env


BUILDS = """case $1 in
ci) mkdir -p node_modules "$npm_config_cache";;
run) mkdir -p dist; echo page > dist/index.html;;
esac"""


def test_the_console_is_built_and_what_only_that_needs_is_removed(tmp_path: Path) -> None:
    clone, env = clone_with_console(tmp_path, BUILDS)
    first, second = (
        subprocess.run(
            [sys.executable, "bootstrap.py"],
            cwd=clone,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    )
    assert (clone / "frontend" / "dist" / "index.html").exists()
    assert "MB to download" in first
    assert not (clone / "frontend" / "node_modules").exists()
    assert not (clone / ".tools" / "npm-cache").exists()
    assert second == ""


def test_the_documentation_is_built_once_for_its_sources(tmp_path: Path) -> None:
    clone, env = clone_with_uv(
        tmp_path,
        f"""case "$*" in
*--target*) mkdir -p .tools/docs; echo installed >> installed;;
*) mkdir -p .venv/bin; ln -sf {tmp_path}/fake/python .venv/bin/python;;
esac""",
    )
    fake(
        tmp_path / "fake",
        "python",
        'echo "$PYTHONPATH" > path; [ -e broken ] && exit 1\n'
        'eval mkdir -p "\\$$#"; eval cd "\\$$#"; echo page > index.html',
    )
    (clone / "docs").mkdir()
    (clone / "docs" / "conf.py").touch()
    (clone / "requirements-dev.lock").write_text("others")

    def set_up() -> str:
        return subprocess.run(
            [sys.executable, "bootstrap.py"],
            cwd=clone,
            env=env,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    site = clone / "docs" / "_build" / "html"
    assert "building the documentation" in set_up()
    assert (clone / "path").read_text() == f"{clone}/.tools/docs\n"
    assert (site / "index.html").read_text() == "page\n"
    assert set_up() == ""
    (clone / "docs" / "page.md").touch()
    (clone / "broken").touch()
    assert "with an older one" in set_up()
    assert (site / "index.html").exists()
    (clone / "broken").unlink()
    set_up()
    assert set_up() == ""
    assert (clone / "installed").read_text().count("installed") == 3
    assert not (clone / ".tools" / "docs").exists()


def test_an_instance_can_start_where_the_console_cannot_be_built(tmp_path: Path) -> None:
    clone, env = clone_with_console(tmp_path, "echo no network >&2; exit 1")
    done = subprocess.run(
        [sys.executable, "bootstrap.py"], cwd=clone, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "no network\nmagnetar: installing the console's packages failed" in done.stderr
    assert "the instance runs without its console" in done.stdout
    assert "MAGNETAR_CONSOLE" in done.stdout
    developer = subprocess.run(
        [sys.executable, "bootstrap.py", "--dev"], cwd=clone, env=env, capture_output=True
    )
    assert developer.returncode == 1


def test_a_packed_console_is_taken_instead_of_a_build(tmp_path: Path) -> None:
    clone, env = clone_with_console(tmp_path, BUILDS)
    pack = [sys.executable, "bootstrap.py", "--pack-console"]
    subprocess.run(pack, cwd=clone, env=env, check=True, capture_output=True)
    archive = clone / "dist" / "magnetar-console.tar.gz"
    archive.rename(tmp_path / archive.name)  # beside the clone
    fake(tmp_path / "fake", "npm", "exit 1")
    dist = clone / "frontend" / "dist"

    def setup(**variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "bootstrap.py"],
            cwd=clone,
            env={**env, **variables},
            capture_output=True,
            text=True,
        )
        return done.stdout + done.stderr

    shutil.rmtree(dist)
    assert f"the console is that of {tmp_path / archive.name}\n" in setup()
    assert (dist / "index.html").read_text() == "page\n"
    # One of other sources is taken only where the user names it.
    (clone / "frontend" / "src" / "new.ts").touch()
    shutil.rmtree(dist)
    assert "was built from other sources: not used" in setup()
    assert not dist.exists()
    named = setup(MAGNETAR_CONSOLE=str(tmp_path / archive.name))
    assert "built from other sources" in named
    assert (dist / "index.html").exists()
    assert setup() == "", "it is kept"
    (tmp_path / "bad.tar.gz").write_bytes(b"no archive")
    assert "bad.tar.gz cannot be unpacked" in setup(MAGNETAR_CONSOLE=str(tmp_path / "bad.tar.gz"))


def test_a_name_in_a_packed_console_cannot_lead_out_of_its_folder(tmp_path: Path) -> None:
    clone, env = clone_with_console(tmp_path, BUILDS)
    with tarfile.open(tmp_path / "evil.tar.gz", "w:gz") as packed:
        for name in ("index.html", ".built", "../../evil"):
            packed.addfile(tarfile.TarInfo(name))
    done = subprocess.run(
        [sys.executable, "bootstrap.py"],
        cwd=clone,
        env={**env, "MAGNETAR_CONSOLE": str(tmp_path / "evil.tar.gz")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "a name in it leads out of its folder" in done.stderr
    assert not (clone / "evil").exists()


def test_the_stated_sizes_are_those_of_the_packages() -> None:
    """Compare them with the packages of this environment, which has no compiled files of uv's."""
    names = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.M)
    total = 0
    for name in set(names):
        with suppress(PackageNotFoundError):  # One of another version of Python.
            files = distribution(name).files or ()
            total += sum(file.size or 0 for file in files)
    stated = runpy.run_path(str(SCRIPT))["RUN_MB"][1]
    uv_and_pip = 63
    assert stated * 0.65 < (total >> 20) + uv_and_pip <= stated


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
    code = "import bootstrap\nfor _ in range(2): bootstrap.ensure_unpacked('etcd', 'etcd', 'etcd-server', 'tests')"
    env = {"PATH": str(programs), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=home, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert (home / ".tools/etcd/usr/bin/etcd").exists() is not bool(refuses)
    assert (b"sudo apt install etcd-server" in done.stdout) is bool(refuses)
    if not refuses:
        assert "install" not in calls.read_text()
        assert done.stdout.count(b"unpacking") == 1
