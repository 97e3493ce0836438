"""Checks of this machine: Python, packages, the data folder, its disk, and the processes of an instance."""

import asyncio
import os
import shlex
import shutil
import ssl
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.base.errors import MagnetarError
from engine.net.http_client import HttpClient
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles, TlsFileError
from magnetar.command.checks.brokers import certificate_finding
from magnetar.command.checks.findings import Diagnosis, info, ok, problem, unknown, warning

PYTHON_MIN = (3, 11)
PACKAGES = ("protobuf", "kazoo", "h11", "cramjam", "mmh3", "crc32c", "cryptography", "rocksdict")
"""Distributions without which a part cannot work; each is a dependency of every installation."""
FREE_BYTES = 300 << 20
"""Space below which a new bookie does not start."""
SOON_FREE = 0.08
CONTROL_S = 2.0
ANSWER_S = 3.0
START = "Start the instance again with `magnetar run`"


async def check_python() -> AsyncIterator[Diagnosis]:
    """Check Python and the packages that every part uses."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON_MIN:
        yield problem("python", f"{version} is too old", "Install Python 3.11 or newer")
        return
    versions, missing = [], []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        yield problem(
            "packages", f"missing: {', '.join(missing)}", "Install Magnetar again with pip"
        )
    yield ok("python", f"{version}; {', '.join(versions)}")


async def check_memory_files() -> AsyncIterator[Diagnosis]:
    """Check /dev/shm, which the worker of analyses needs."""
    try:
        with tempfile.TemporaryFile(dir="/dev/shm") as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        yield warning(
            "/dev/shm",
            f"cannot be written: {error.strerror}; analyses cannot run",
            "Mount a tmpfs on /dev/shm; in a container use --shm-size",
        )
        return
    yield ok("/dev/shm", "can be written")


async def check_analyses() -> AsyncIterator[Diagnosis]:
    """Report the programs that analyses need; messages do not."""
    for program, purpose in (("java", "Spark"), ("redis-server", "the queue of analyses")):
        path = shutil.which(program)
        if path:
            yield info(program, f"{path}, for {purpose}")
        else:
            yield info(program, f"not on the PATH; {purpose} may use one from a package")


async def check_folder(data_dir: Path) -> AsyncIterator[Diagnosis]:
    """Check the data folder's rights and its disk."""
    part = f"data folder {data_dir}"
    try:
        state = os.stat(data_dir)
    except FileNotFoundError:
        yield info(part, "there is none: the instance keeps its data elsewhere",
                   "Name it with --data-dir to have it checked")  # fmt: skip
        return
    except OSError as error:
        yield unknown(part, f"cannot be examined: {error.strerror}")
        return
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        yield problem(part, "cannot be written by this user",
                      f"chown -R {os.geteuid()} {shlex.quote(str(data_dir))}, or run as its owner")  # fmt: skip
    elif state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield problem(
            part,
            f"others may change it (mode {stat.S_IMODE(state.st_mode):04o})",
            f"chmod go-w {shlex.quote(str(data_dir))}",
        )
    else:
        yield ok(part, f"mode {stat.S_IMODE(state.st_mode):04o}, writable")
    yield disk_finding(data_dir, *_space(data_dir))


def _space(path: Path) -> tuple[int, int]:
    usage = shutil.disk_usage(path)
    return usage.free, usage.total


def disk_finding(data_dir: Path, free: int, total: int) -> Diagnosis:
    """Return the finding about the disk of a data folder."""
    part, text = f"disk of {data_dir}", f"{free >> 20:,} MiB of {total >> 20:,} free"
    if free < FREE_BYTES:
        return problem(part, f"{text}; a bookie needs {FREE_BYTES >> 20} MiB",
                       "Make room, or choose another folder with MAGNETAR_DATA_DIR")  # fmt: skip
    if free < total * SOON_FREE:
        return warning(part, f"{text}; bookies only read when it is 95 % full",
                       "Make room, or shorten retention")  # fmt: skip
    return ok(part, text)


async def check_instance(data_dir: Path, host: str = "127.0.0.1") -> AsyncIterator[Diagnosis]:
    """Check each process of the instance that runs on the folder, by its own ports."""
    # Its answer takes up to CONTROL_S, in which the other checks go on.
    children, silence = await asyncio.to_thread(_children, data_dir)
    if silence is not None:
        yield silence
        return
    http = HttpClient(LoopNetwork(), timeout_s=ANSWER_S)
    try:
        secure = data_dir / "secure"
        findings = await asyncio.gather(*(_child(http, host, child, secure) for child in children))
    finally:
        http.close()
    for finding in findings:
        yield finding


def _children(data_dir: Path) -> tuple[list[dict[str, Any]], Diagnosis | None]:
    """Return the processes as their supervisor reports them, or a finding when it does not."""
    from gateway.standalone.control import NotRunningError, send_request

    part = f"instance on {data_dir}"
    if not (data_dir / "instance.lock").exists():
        return [], None
    try:
        answer = send_request(data_dir / "control.sock", "status", timeout_s=CONTROL_S)
        return list(answer["children"]), None
    except NotRunningError as error:
        process = (data_dir / "instance.lock").read_text().strip()
        if _holds_lock(data_dir):
            return [], problem(
                part,
                f"its supervisor, process {process}, does not answer: {error.__cause__}",
                f"If it was stopped, continue it with: kill -CONT {process}; else {START.lower()}",
            )
        return [], info(part, "it does not run", START)
    except (OSError, ValueError, KeyError) as error:
        return [], unknown(part, f"its supervisor answers with what is no status: {error}")


def _holds_lock(data_dir: Path) -> bool:
    """Return whether a process has the lock of the folder."""
    import fcntl

    with (data_dir / "instance.lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


async def _child(http: HttpClient, host: str, child: Mapping[str, Any], secure: Path) -> Diagnosis:
    name, state, ports = str(child["name"]), child["state"], child["ports"]
    part = f"process {name}"
    on_demand = name in ("redis", "worker", "spark")
    if state != "running":
        if on_demand and state == "down":
            return info(part, "starts with the first analysis")
        text = f"it is {state}, after {child['restarts']} restarts"
        remedy = f"Read the end of its log; start it with: magnetar start {name}"
        return warning(part, text, remedy) if on_demand else problem(part, text, remedy)
    frozen = (
        f"its process {child['pid']} accepts connections and does not answer within {ANSWER_S:g} s",
        f"If it was stopped, continue it with: kill -CONT {child['pid']}; else read the end of its log",
    )
    if name == "zookeeper":
        return await _metadata(part, host, int(ports["zookeeper"]), frozen, secure)
    if "http" not in ports:
        return ok(part, f"runs as process {child['pid']}")
    path = "/admin/v2/brokers/version" if name.startswith("gateway") else "/ready"
    url = f"http://{host}:{ports['http']}{path}"
    try:
        answer = await http.request("GET", url)
    except MagnetarError as error:
        if "gave no answer within" in str(error):
            return problem(part, *frozen)
        return problem(part, f"it does not answer: {error}", "Read the end of its log")
    if answer.status in (401, 403):
        return ok(part, "answers, and asks for credentials")
    if answer.status != 200:
        reason = " ".join(answer.body.decode(errors="replace").split())[:300]
        return problem(part, f"it is not ready: {reason}", "See the findings about what it needs")
    return ok(part, f"ready, process {child['pid']}")


async def _metadata(
    part: str, host: str, port: int, frozen: tuple[str, str], secure: Path
) -> Diagnosis:
    """Ask a metadata server for its state by ZooKeeper's four letters. ``secure``: the folder of the files by which
    brokers connect in TLS, if the instance has them."""
    try:
        context = _context(secure)
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                writer.write(b"srvr")
                data = await reader.read(4096)
            finally:
                writer.transport.abort()
    except TimeoutError:
        return problem(part, *frozen)
    except TlsFileError as error:
        return unknown(part, f"its TLS files cannot be used: {error}")
    except OSError as error:
        reason = error.strerror or str(error)
        return problem(part, f"it does not answer: {reason}", "Read the end of its log")
    if data.startswith(b"Zookeeper version"):
        return ok(part, "answers")
    return problem(part, f"it does not serve: {data[:100]!r}", "Read the end of its log")


def _context(secure: Path) -> ssl.SSLContext | None:
    """Return the TLS context of brokers; None for an instance without TLS. Raises TlsFileError."""
    authority = secure / "ca.pem"
    if not authority.exists():
        return None
    own = (str(secure / "magnetar-broker.pem"), str(secure / "magnetar-broker.key"))
    return ClientFiles(str(authority), *own).context()


async def check_certificates(data_dir: Path) -> AsyncIterator[Diagnosis]:
    """Check the ends of the certificates of an instance that runs with ``--secure``."""
    paths = sorted((data_dir / "secure").glob("*.pem"))
    if not paths:
        return
    from cryptography import x509  # which takes time to import

    for path in paths:
        part = f"certificate {path}"
        try:
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError) as error:
            yield unknown(part, f"cannot be read: {error}")
        else:
            yield certificate_finding(part, certificate.not_valid_after_utc)
