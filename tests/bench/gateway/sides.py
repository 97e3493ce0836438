"""Servers that are measured: our gateway with all its processes, an earlier revision of it, Apache Pulsar, a floor."""

import base64
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.contenders import apache, apache_missing, cpu_s, kilobytes, unpacked
from tests.support.access.callers import KEY, SUPERUSER, bearer, token
from tests.support.instance import ROOT, Instance, running_instance
from tests.support.ports import free_ports

COUNTED = ("gateway", "broker", "bookie", "zookeeper", "redis")
"""Our processes whose CPU counts; the worker and Spark have no part in a request."""
APACHE = {
    # else topics without subscriptions are gone after a minute, and lists of them are lists of nothing
    "brokerDeleteInactiveTopicsEnabled": "false",
    "maxHttpServerConnections": "20480",  # 2,048 by default; further ones wait for ever
}

JUDGED = {
    "authentication_enabled": "true",
    "authentication_providers": "token",
    "token_secret_key": base64.b64encode(KEY).decode(),
    "authorization_enabled": "true",
    "super_user_roles": SUPERUSER,
    "broker_client_authentication_plugin": "token",
    "broker_client_authentication_parameters": f"token:{token(SUPERUSER)}",
}
"""Settings of a side whose callers need credentials and rights."""


@dataclass
class Side:
    """A running server. ``find`` looks for its processes: ids by what the table of CPU calls them."""

    name: str
    http: str
    url: str
    find: Callable[[], dict[str, list[int]]]
    instance: Instance | None = None
    """The running instance, when the side is ours."""
    prepared: set[str] = field(default_factory=set)
    """Names of what the works have set up."""
    identity: bool = False
    """True where callers need credentials and rights."""

    def token(self, role: str) -> str:
        """Return a token of a role; empty where callers need none."""
        return token(role) if self.identity else ""

    def __post_init__(self) -> None:
        self.processes = self.find()

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds used so far by each kind of process."""
        return {name: cpu_s(pids) for name, pids in self.processes.items()}

    def pss_kb(self) -> dict[str, int]:
        """Return the proportional set size of each kind of process, KB."""
        return {
            name: sum(kilobytes(pid, "Pss:") for pid in pids)
            for name, pids in self.processes.items()
        }

    def restart_gateway(self) -> None:
        """Restart the gateways of ours; the memory of other sides remains as their load has left it."""
        if self.instance is None:
            return
        for child in self.instance.control("status")["children"]:
            if child["name"].startswith("gateway"):
                self.instance.control("stop", child["name"])
                self.instance.control("start", child["name"])
                self.instance.wait_running(child["name"])
        self.processes = self.find()

    def ask(
        self, method: str, path: str, body: object = None, allowed: tuple[int, ...] = ()
    ) -> bytes:
        """Set something up. Raises RuntimeError for an answer that is neither a success nor ``allowed``."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= bearer(SUPERUSER) if self.identity else {}
        request = urllib.request.Request(self.http + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return bytes(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                text = error.read()
            if error.code in allowed:
                return text
            raise RuntimeError(
                f"{self.name}: {method} {path}: {error.code} {text[:300]!r}"
            ) from error

    def namespace(self, name: str) -> str:
        """Return a namespace of tenant ``public`` for the works, created at the first call."""
        if name not in self.prepared:
            self.ask("PUT", f"/admin/v2/namespaces/public/{name}", allowed=(409,))
            self.prepared.add(name)
        return f"public/{name}"


def descendants(pid: int) -> list[int]:
    """Return a process and the running ones that it has started."""
    pids = [pid]
    for parent in pids:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            pids += map(int, task.read_text().split())
    return pids


def of_instance(instance: Instance) -> dict[str, list[int]]:
    """Return the processes of an instance of ours by their supervisor's names, without numbers."""
    pids: dict[str, list[int]] = {name: [] for name in COUNTED}
    for child in instance.control("status")["children"]:
        kind = str(child["name"]).partition("-")[0]
        if kind in pids and child["pid"]:
            pids[kind] += descendants(child["pid"])
    return pids


@dataclass(frozen=True)
class Options:
    """Options of ours: the ASGI server, and the number of gateway processes."""

    server: str = "daphne"
    gateways: int = 1
    identity: bool = False
    """True where callers present tokens and are judged; REST only."""

    def known_to(self, root: Path) -> "Options":
        """Return the options that the source tree ``root`` has: older ones have Daphne and one gateway."""
        source = "\n".join(file.read_text() for file in sorted((root / "gateway").rglob("*.py")))
        return Options(
            self.server if "asgi_server" in source else "daphne",
            self.gateways if "--gateways" in source else 1,
            self.identity,
        )


@contextmanager
def ours(work: Path, options: Options, name: str = "ours", root: Path = ROOT) -> Iterator[Side]:
    """Run our instance from the source tree ``root``, which knows the options."""
    env = {"MAGNETAR_MAX_CONNECTIONS_PER_ADDRESS": "0"}
    if options.server != "daphne":
        env["MAGNETAR_ASGI_SERVER"] = options.server
    if options.identity:
        env |= {f"MAGNETAR_{setting.upper()}": value for setting, value in JUDGED.items()}
        name = f"{name} judged"
    data = work / f"{name.replace('/', '-').replace(' ', '-')}-{options.server}"
    with running_instance(data, root=root, gateways=options.gateways, **env) as instance:
        yield Side(
            f"{name} {options.server}",
            instance.http,
            instance.url,
            lambda: of_instance(instance),
            instance,
            identity=options.identity,
        )


@contextmanager
def peer(work: Path) -> Iterator[Side]:
    """Run Apache Pulsar's standalone, one process."""
    with apache(work, APACHE) as server:
        yield Side("apache", server.http, server.url, lambda: {"all": server.pids})


@contextmanager
def floor(server: str) -> Iterator[Side]:
    """Run an empty ASGI application under the same server."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "tests.bench.gateway.floor"]
    command += ["--server", server, "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        side = Side(
            f"floor {server}", f"http://127.0.0.1:{port}", "", lambda: {"all": [process.pid]}
        )
        wait_until_served(side, process)
        yield side
    finally:
        process.terminate()
        process.wait(20)


def wait_until_served(side: Side, process: subprocess.Popen[bytes], timeout_s: float = 20) -> None:
    """Wait until the side answers. Raises RuntimeError when its process ends first, or the last error after the
    time."""
    until = time.monotonic() + timeout_s
    while True:
        try:
            side.ask("GET", "/")
            return
        except urllib.error.URLError:
            if process.poll() is not None:
                raise RuntimeError(f"{side.name} ended with {process.returncode}") from None
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@contextmanager
def sides(
    work: Path, options: Sequence[Options], revision: str, with_apache: bool, with_floor: bool
) -> Iterator[list[Side]]:
    """Run ours first, by each of ``options``; then the other requested sides, and Apache where it is available."""
    with ExitStack() as stack:
        running = [stack.enter_context(ours(work, option)) for option in options]
        if revision:
            root = unpacked(work, revision)
            known = dict.fromkeys(option.known_to(root) for option in options)
            print(f"{revision} runs with {[*known]}", flush=True)
            running += [stack.enter_context(ours(work, option, revision, root)) for option in known]
        if with_floor:
            running += [stack.enter_context(floor(option.server)) for option in options]
        reason = apache_missing() if with_apache else None
        if reason is not None:
            print(f"Apache Pulsar is not at hand ({reason})", flush=True)
        elif with_apache:
            running.append(stack.enter_context(peer(work)))
        yield running
