#!/usr/bin/env python3
"""A real Apache Pulsar and Apache BookKeeper beside ours: fetch, start, drive and stop them.

For differential tests and side-by-side benchmarks; README.md has figures and traps. Every server listens on
127.0.0.1 only, lives in its own session and keeps its files in --dir: NAME.pid (process id and start time, so that a
reused id is never signalled) and NAME/ (its configuration, data, out.log). Linux, Python 3.11, standard library.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

VERSION = "4.0.8"
ARTIFACT = f"org.apache.pulsar:pulsar-server-distribution:{VERSION}:tar.gz:bin"
SHA256 = "35c7d064c9e0928edbf2e708989faba0379662f98aa84ce0d4190c59efb6765e"
HOME = Path(os.environ.get("PEER_HOME", "~/.cache/magnetar-peer")).expanduser().resolve()
DIST = HOME / f"apache-pulsar-{VERSION}"
# The distribution's own defaults are 2 GiB of heap, touched in advance, and ZGC. These share a small machine.
MEMORY = os.environ.get("PEER_MEM", "-Xms64m -Xmx1g -XX:MaxDirectMemorySize=1g")
GC = os.environ.get("PEER_GC", "-XX:+UseG1GC")
READY_S_MAX, STOP_S_MAX = 180, 60
# Each needs the later ones to leave cleanly.
STOP_ORDER = ("broker", "standalone", "bookie", "zookeeper")
LOOPBACK = {"advertisedAddress": "127.0.0.1", "listeningInterface": "lo", "allowLoopback": "true"}


def fail(text):
    sys.exit(f"peer: {text}")


# --- the distribution ---


def fetch(args):
    java_home()
    if not DIST.is_dir():
        if not shutil.which("mvn"):
            fail("mvn not found: install Maven 3 (Debian and Ubuntu: package maven)")
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME, prefix="fetch-") as work:
            maven("dependency:get", "-Dtransitive=false")
            maven("dependency:copy", f"-DoutputDirectory={work}")
            (archive,) = Path(work).glob("*.tar.gz")
            with archive.open("rb") as f:
                digest = hashlib.file_digest(f, "sha256").hexdigest()
            if digest != SHA256:
                fail(f"{archive.name} has sha256 {digest}, expected {SHA256}")
            shutil.unpack_archive(archive, work)
            # Renamed last, so that an interrupted fetch never leaves what looks complete.
            Path(work, DIST.name).rename(DIST)
    print(json.dumps({"version": VERSION, "home": str(DIST)}))


def maven(goal, option):
    done = subprocess.run(
        ["mvn", "-q", "-B", "-C", goal, f"-Dartifact={ARTIFACT}", option],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        fail(
            f"mvn {goal} failed: {next((line for line in done.stdout.splitlines() if 'ERROR' in line), 'no message')}"
        )


def java_home():
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if not java:
        fail("java not found: install Java 17 or later, or correct JAVA_HOME")
    banner = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    major = re.search(r'version "(\d+)', banner)
    if not major or int(major[1]) < 17:
        fail(f"Java 17 or later is needed; {java} says {banner.partition(chr(10))[0]}")
    return str(Path(java).resolve().parent.parent)


def java_env(logs, **more):
    if not DIST.is_dir():
        fail(f"no Apache Pulsar {VERSION} in {HOME}: run `peer.py fetch` first")
    env = {"JAVA_HOME": java_home(), "PULSAR_LOG_DIR": logs, "BOOKIE_LOG_DIR": logs}
    env |= {"PULSAR_MEM": MEMORY, "BOOKIE_MEM": MEMORY, "PULSAR_GC": GC, "BOOKIE_GC": GC}
    # An empty value would mean the default: 200 MB of logs.
    env |= {"PULSAR_GC_LOG": " ", "BOOKIE_GC_LOG": " "}
    env |= {"PULSAR_EXTRA_OPTS": f"{MEMORY} {GC}"}  # pulsar-perf reads no other memory setting
    return os.environ | {key: str(value) for key, value in (env | more).items()}


def write_conf(path, template, settings):
    """Write the distribution's `template` (None: empty) with `settings` in place of its own lines of these keys."""
    java_env(path.parent)  # or fail: no distribution
    lines = (DIST / "conf" / template).read_text().splitlines() if template else []
    kept = [line for line in lines if line.partition("=")[0].strip() not in settings]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join([*kept, *(f"{key}={value}" for key, value in settings.items())]) + "\n"
    )
    return path


def run_script(folder, script, *argv, **env):
    done = subprocess.run(
        [DIST / "bin" / script, *argv], env=java_env(folder, **env), capture_output=True, text=True
    )
    if done.returncode:
        fail(
            f"{script} {argv[0]} exited with {done.returncode}:\n{(done.stdout + done.stderr)[-1500:]}"
        )


# --- processes ---


@dataclass(eq=False)  # hashed by identity
class Server:
    """A process to start as bin/pulsar ARGV; `ports` must be free on 127.0.0.1."""

    name: str
    argv: list
    ports: list
    is_ready: Callable[[], bool]
    env: dict


def start(folder, servers):
    """Start all, then wait for all: {name: {pid, ready_s}}."""
    begun, ready = time.monotonic(), {}
    waiting = {server: spawn(folder, server) for server in servers}
    while waiting:
        time.sleep(0.1)
        for server, process in list(waiting.items()):
            if server.is_ready():
                ready[server.name] = {
                    "pid": process.pid,
                    "ready_s": round(time.monotonic() - begun, 1),
                }
                del waiting[server]
            elif process.poll() is not None or time.monotonic() - begun > READY_S_MAX:
                log = folder / server.name / "out.log"
                fail(
                    f"{server.name} not ready, exit status {process.poll()}, {log}:\n"
                    f"{log.read_text(errors='replace')[-1500:]}"
                )
    return ready


def spawn(folder, server):
    if server.name in running(folder):
        fail(f"{server.name} already runs in {folder}: stop it first")
    for port in server.ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as e:
                fail(f"port {port} for {server.name}: {e.strerror}")
    home = folder / server.name
    home.mkdir(parents=True, exist_ok=True)
    command, env = [DIST / "bin/pulsar", *map(str, server.argv)], java_env(home, **server.env)
    with (home / "out.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (folder / f"{server.name}.pid").write_text(f"{process.pid} {proc_stat(process.pid)[19]}\n")
    return process


def proc_stat(pid):
    """/proc/PID/stat from the state on; None when the process is gone or waits to be reaped."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields if fields[0] != "Z" else None


def running(folder):
    """{name: pid} of what runs in `folder`; forgets what no longer does."""
    alive = {}
    for file in sorted(folder.glob("*.pid")):
        pid, started = file.read_text().split()
        stat = proc_stat(pid)
        if stat and stat[19] == started:
            alive[file.stem] = int(pid)
        else:
            file.unlink()
    return alive


def stop_all(folder, keep=()):
    """SIGTERM kind by kind, SIGKILL after STOP_S_MAX: {name: seconds}."""
    took = {}
    for kind in STOP_ORDER:
        begun = time.monotonic()
        left = {
            name: pid for name, pid in running(folder).items() if kind in name and name not in keep
        }
        for pid in left.values():
            os.kill(pid, signal.SIGTERM)
        while left:
            time.sleep(0.1)
            passed, alive = time.monotonic() - begun, running(folder)
            took |= {name: round(passed, 1) for name in left if name not in alive}
            left = {name: pid for name, pid in left.items() if name in alive}
            if passed > STOP_S_MAX:
                for pid in left.values():
                    os.kill(pid, signal.SIGKILL)
    return took


def stop(args):
    print(json.dumps({"stopped_s": stop_all(args.dir)}))


def status(args):
    """Print one line per process. RSS counts shared pages in full, PSS by share."""
    for name, pid in running(args.dir).items():
        kib = dict(re.findall(r"(\w+): +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text()))
        cpu_s = sum(map(int, proc_stat(pid)[11:13])) / os.sysconf("SC_CLK_TCK")
        print(
            json.dumps(
                {
                    "name": name,
                    "pid": pid,
                    "rss_mib": int(kib["Rss"]) >> 10,
                    "pss_mib": int(kib["Pss"]) >> 10,
                    "cpu_s": cpu_s,
                }
            )
        )


def http(port, path, method="GET", body=None):
    """Return (status, body) from 127.0.0.1; status 0 without an answer."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()
    except (OSError, HTTPException):
        # A port may connect to itself: the answer is our own request then, an HTTPException.
        return 0, b""


# --- what can be started ---


def zookeeper_server(folder, port):
    def is_ready():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2) as s:
            s.sendall(b"ruok")
            return s.recv(4) == b"imok"

    settings = {"tickTime": 2000, "dataDir": folder / "zookeeper/data", "maxClientCnxns": 0}
    settings |= {
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
    }
    conf = write_conf(folder / "zookeeper/zookeeper.conf", None, settings)
    return Server("zookeeper", ["zookeeper"], [port], is_ready, {"PULSAR_ZK_CONF": conf})


def bookie_conf(path, zk, settings):
    hosts, slash, chroot = zk.partition("/")
    return write_conf(
        path,
        "bookkeeper.conf",
        {"zkServers": hosts, "zkLedgersRootPath": f"{slash}{chroot}/ledgers"} | settings,
    )


def bookie_server(folder, name, zk, port, config):
    """Describe a bookie whose next port up serves its HTTP API and /metrics."""
    home = folder / name
    settings = LOOPBACK | {
        "bookiePort": port,
        "journalDirectory": home / "journal",
        "ledgerDirectories": home / "ledgers",
    }
    settings |= {
        "httpServerEnabled": "true",
        "httpServerHost": "127.0.0.1",
        "httpServerPort": port + 1,
    }
    settings |= {"diskUsageThreshold": 0.99, "diskUsageWarnThreshold": 0.98}
    conf = bookie_conf(home / "bookkeeper.conf", zk, settings | config)

    # A bookie accepts connections before it is registered, where clients look; this gauge says registered.
    def is_ready():
        return b"\nbookie_SERVER_STATUS 1" in http(port + 1, "/metrics")[1]

    return Server(name, ["bookie"], [port, port + 1], is_ready, {"PULSAR_BOOKKEEPER_CONF": conf})


def broker_server(folder, name, zk, store, cluster, port, web, quorum, config):
    settings = {
        "clusterName": cluster,
        "metadataStoreUrl": f"zk:{zk}",
        "configurationMetadataStoreUrl": f"zk:{store}",
    }
    settings |= {
        "brokerServicePort": port,
        "webServicePort": web,
        "bindAddress": "127.0.0.1",
        "advertisedAddress": "127.0.0.1",
    }
    settings |= {
        f"managedLedgerDefault{key}": n
        for key, n in zip(("EnsembleSize", "WriteQuorum", "AckQuorum"), quorum, strict=False)
    }
    conf = write_conf(folder / name / "broker.conf", "broker.conf", settings | config)
    return Server(
        name, ["broker"], [port, web], lambda: is_healthy(web), {"PULSAR_BROKER_CONF": conf}
    )


def is_healthy(web):
    return http(web, "/admin/v2/brokers/health") == (200, b"ok")


def initialize(folder, zk, store, cluster, port, web):
    """Write a cluster's metadata; a marker file spares later starts the JVM."""
    marker = folder / f"{cluster}.initialized"
    if not marker.exists():
        options = {
            "cluster": cluster,
            "metadata-store": f"zk:{zk}",
            "configuration-metadata-store": f"zk:{store}",
        }
        options |= {
            "broker-service-url": f"pulsar://127.0.0.1:{port}",
            "web-service-url": f"http://127.0.0.1:{web}",
        }
        run_script(
            folder,
            "pulsar",
            "initialize-cluster-metadata",
            *(x for k, v in options.items() for x in (f"--{k}", v)),
        )
        marker.touch()


def prepare(args):
    args.dir.mkdir(parents=True, exist_ok=True)
    store, ports = args.config_store or args.zk, (args.binary_port, args.http_port)
    initialize(args.dir, args.zk, store, args.cluster, *ports)


def urls(port, web):
    return {"url": f"pulsar://127.0.0.1:{port}", "http": f"http://127.0.0.1:{web}"}


def addresses(servers):
    return [f"127.0.0.1:{server.ports[0]}" for server in servers]


def standalone(args):
    home = args.dir / "standalone"
    port, web, bookie, zk_port = (
        own or base + args.port_offset
        for own, base in [
            (args.binary_port, 6650),
            (args.http_port, 8080),
            (args.bookie_port, 3181),
            (args.zk_port, 2181),
        ]
    )
    settings = LOOPBACK | {
        "brokerServicePort": port,
        "webServicePort": web,
        "bindAddress": "127.0.0.1",
    }
    settings |= {"journalSyncData": str(args.sync).lower(), "STORAGE_PATH": home / "packages"}
    # Otherwise the bookie ignores its port and takes a random one.
    settings |= {"allowEphemeralPorts": "true"}
    conf = write_conf(home / "standalone.conf", "standalone.conf", settings | dict(args.config))
    # The embedded ZooKeeper listens on every address, which no setting changes, hence a separate one.
    ready = start(args.dir, [zookeeper_server(args.dir, zk_port)]) if args.zookeeper else {}
    argv = [
        "standalone",
        "-nss",
        "--bookkeeper-dir",
        home / "bookkeeper",
        "--bookkeeper-port",
        bookie,
    ]
    argv += (
        ["--metadata-url", f"zk:127.0.0.1:{zk_port}"]
        if args.zookeeper
        else ["--metadata-dir", home / "metadata"]
    )
    argv += ["-fwc", functions_conf(home, args.functions)] if args.functions else ["-nfw"]
    # Health is ok before the default namespaces exist; pulsar/system is the last of them.
    expected = ["/admin/v2/namespaces/pulsar/system"] + [
        "/admin/v3/functions/public/default"
    ] * bool(args.functions)

    def is_ready():
        return is_healthy(web) and all(http(web, path)[0] == 200 for path in expected)

    ready |= start(
        args.dir,
        [
            Server(
                "standalone", argv, [port, web, bookie], is_ready, {"PULSAR_STANDALONE_CONF": conf}
            )
        ],
    )
    zk = {"zk": f"127.0.0.1:{zk_port}"} if args.zookeeper else {}
    return urls(port, web) | zk | {"bookies": [f"127.0.0.1:{bookie}"], "servers": ready}


def functions_conf(home, runtime):
    """Function processes listen on every address, threads of the broker on none."""
    text = (DIST / "conf/functions_worker.yml").read_text()
    text = re.sub(r"(?m)^( *)(\w+Directory): .*", rf"\1\2: {home}/\2", text)
    if runtime == "thread":
        text = re.sub(
            r"(?m)^(functionRuntimeFactoryClassName: ).*",
            r"\1org.apache.pulsar.functions.runtime.thread.ThreadRuntimeFactory",
            text,
        )
        text = re.sub(
            r"(?m)^functionRuntimeFactoryConfigs:\n", r"\g<0>    threadGroupName: functions\n", text
        )
    path = home / "functions_worker.yml"
    path.write_text(text)
    return path


def zookeeper(args):
    return {
        "zk": f"127.0.0.1:{args.port}",
        "servers": start(args.dir, [zookeeper_server(args.dir, args.port)]),
    }


def bookies(args):
    if args.format:
        conf = bookie_conf(args.dir / "format.conf", args.zk, {})
        run_script(
            args.dir,
            "bookkeeper",
            "shell",
            "metaformat",
            "-nonInteractive",
            "-force",
            BOOKIE_CONF=conf,
        )
    servers = [
        bookie_server(args.dir, f"bookie{i}", args.zk, args.base_port + 2 * i, dict(args.config))
        for i in range(args.count)
    ]
    return {"zk": args.zk, "bookies": addresses(servers), "servers": start(args.dir, servers)}


def broker(args):
    store, ports = args.config_store or args.zk, (args.binary_port, args.http_port)
    if args.init:
        initialize(args.dir, args.zk, store, args.cluster, *ports)
    server = broker_server(
        args.dir, "broker", args.zk, store, args.cluster, *ports, args.quorum, dict(args.config)
    )
    return urls(*ports) | {"zk": args.zk, "servers": start(args.dir, [server])}


def cluster(args):
    """Ports from base B: ZooKeeper B; cluster c from S = B + 50 (c + 1): brokers S, S + 2, …, bookies from S + 20."""
    n, zk = args.bookies, args.zk or f"127.0.0.1:{args.base_port}"
    quorum = args.quorum or (min(n, 3), min(n, 3), min(n, 2))
    ready = {} if args.zk else start(args.dir, [zookeeper_server(args.dir, args.base_port)])
    store, layout, bookies, brokers = f"{zk}/config", {}, [], []
    for c, name in enumerate(args.clusters):
        own, first = f"{zk}/{name}", args.base_port + 50 * (c + 1)
        initialize(args.dir, own, store, name, first, first + 1)
        mine = [
            bookie_server(
                args.dir, f"{name}-bookie{i}", own, first + 20 + 2 * i, dict(args.bookie_config)
            )
            for i in range(n)
        ]
        for j in range(first, first + 2 * args.brokers, 2):
            brokers.append(  # noqa: PERF401 - the loop reads better
                broker_server(
                    args.dir,
                    f"{name}-broker{j}",
                    own,
                    store,
                    name,
                    j,
                    j + 1,
                    quorum,
                    dict(args.config),
                )
            )
        layout[name] = urls(first, first + 1) | {"zk": own, "bookies": addresses(mine)}
        bookies += mine
    ready |= start(args.dir, bookies) | start(args.dir, brokers)
    if len(layout) > 1:
        replicate(args.base_port + 51, args.clusters)
    return {"config_store": store, "quorum": quorum, "clusters": layout, "servers": ready}


def replicate(web, clusters):
    """Replicate namespace public/geo between `clusters`, which share the configuration store: one broker is asked."""
    tenant, geo = (
        {"adminRoles": [], "allowedClusters": clusters},
        {"replication_clusters": clusters},
    )
    for method, path, body in [
        ("POST", "/admin/v2/tenants/public", tenant),
        ("PUT", "/admin/v2/namespaces/public/geo", geo),
    ]:
        code, text = http(web, path, method, body)
        if code not in (204, 409):  # 409: there since an earlier start
            fail(f"{method} {path}: {code} {text.decode()}")


def launch(args):
    """Run `args.begin` and print what it started as one JSON line; on failure stop that again."""

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    args.dir.mkdir(parents=True, exist_ok=True)
    begun, before = time.monotonic(), running(args.dir)
    try:
        report = args.begin(args)
        print(
            json.dumps(
                {"dir": str(args.dir), "ready_s": round(time.monotonic() - begun, 1)} | report
            ),
            flush=True,
        )
        while args.foreground:
            time.sleep(0.5)
            if gone := report["servers"].keys() - running(args.dir).keys():
                fail(f"exited: {', '.join(gone)}")
    except BaseException:
        stop_all(args.dir, keep=before)
        raise


# --- the official command line tools ---


def tool(args):
    target = {"brokerServiceUrl": args.url, "webServiceUrl": args.http}
    become(args, write_conf(conf_path("client", target), "client.conf", target))


def bk(args):
    settings = LOOPBACK | {"prometheusStatsHttpEnable": "false"}
    become(args, args.conf or bookie_conf(conf_path("bk", args.zk), args.zk, settings))


def conf_path(kind, target):
    """Named after what it says, because it outlives this process and others may read it."""
    return HOME / "conf" / f"{kind}-{hashlib.sha256(repr(target).encode()).hexdigest()[:12]}.conf"


def become(args, conf):
    path = DIST / "bin" / args.script
    # JMX would listen on every address.
    env = {"PULSAR_CLIENT_CONF": conf, "BOOKIE_CONF": conf, "JMXDISABLE": 1}
    os.execve(path, [path, *args.rest], java_env(HOME / "logs", **env))


# --- the command line ---


def setting(text):
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not key=value")
    return key, value


def quorum(text):
    sizes = tuple(map(int, text.split(",")))
    if len(sizes) != 3 or not sizes[0] >= sizes[1] >= sizes[2] >= 1:
        raise argparse.ArgumentTypeError("ensemble >= write quorum >= ack quorum >= 1 is needed")
    return sizes


def folder(text):
    return Path(text).resolve()


def cluster_options(add, zk):
    """Add the addresses that the metadata of a cluster have."""
    add("--zk", required=True, metavar=zk)
    add("--config-store", metavar=zk, help="(as --zk)")
    add("--cluster", default="standalone", help="its name (standalone)")
    add("--binary-port", type=int, default=16650)
    add("--http-port", type=int, default=18080)


def parser():
    top = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    ZK = "HOST:PORT[/CHROOT]"

    def command(name, run, text, **defaults):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run, **defaults)
        return sub.add_argument

    def starter(name, begin, text):
        add = command(name, launch, text, begin=begin)
        add("--dir", type=folder, required=True, help="all it writes goes here")
        add("--foreground", action="store_true", help="stay; stop all on SIGINT or SIGTERM")
        add(
            "--config",
            type=setting,
            action="append",
            default=[],
            metavar="K=V",
            help="an Apache setting; repeatable",
        )
        return add

    command("fetch", fetch, "get the distribution through Maven, verify and unpack it")
    add = starter("standalone", standalone, "broker, bookie and metadata in one process")
    add("--port-offset", type=int, default=10000, help="added to 6650, 8080, 3181, 2181 (10000)")
    for key in ("binary", "http", "bookie", "zk"):
        add(f"--{key}-port", type=int)
    add("--zookeeper", action="store_true", help="metadata in a ZooKeeper process, not in RocksDB")
    add("--sync", action="store_true", help="sync the journal; standalone's default is not to")
    add(
        "--functions",
        nargs="?",
        const="thread",
        choices=("thread", "process"),
        help="with the functions worker (thread)",
    )
    add = starter(
        "cluster", cluster, "ZooKeeper, bookies and brokers; several clusters replicate public/geo"
    )
    add("--bookies", type=int, default=3, help="per cluster (3)")
    add("--brokers", type=int, default=1, help="per cluster (1)")
    add("--clusters", type=lambda text: text.split(","), default=["us"], help="names (us)")
    add("--quorum", type=quorum, metavar="E,WQ,AQ", help="(3,3,2 or what the bookies allow)")
    add("--base-port", type=int, default=17000)
    add("--zk", metavar="HOST:PORT", help="use this ZooKeeper")
    add("--bookie-config", type=setting, action="append", default=[], metavar="K=V")
    add = starter("zookeeper", zookeeper, "one ZooKeeper")
    add("--port", type=int, default=12181)
    add = starter("bookies", bookies, "bookies registered under CHROOT/ledgers of a ZooKeeper")
    add("--zk", required=True, metavar=ZK)
    add("--count", type=int, default=1)
    add("--base-port", type=int, default=17300)
    add(
        "--format",
        action="store_true",
        help="first create CHROOT/ledgers and forget every ledger there (metaformat)",
    )
    add = starter("broker", broker, "a broker on a ZooKeeper and the bookies registered there")
    cluster_options(add, ZK)
    add("--init", action="store_true", help="first write the cluster's metadata")
    add("--quorum", type=quorum, default=(1, 1, 1), metavar="E,WQ,AQ", help="(1,1,1)")
    add = command("initialize", prepare, "write a new cluster's metadata")
    add("--dir", type=folder, required=True, help="all it writes goes here")
    cluster_options(add, ZK)
    command("stop", stop, "stop what runs in --dir")("--dir", type=folder, required=True)
    command("status", status, "what runs in --dir, its memory and CPU seconds")(
        "--dir", type=folder, required=True
    )
    for name in ("perf", "admin", "client"):
        add = command(name, tool, f"the official pulsar-{name}", script=f"pulsar-{name}")
        add("--url", default="pulsar://127.0.0.1:6650")
        add("--http", default="http://127.0.0.1:8080")
        add("rest", nargs=argparse.REMAINDER, metavar="ARGS")
    add = command(
        "bk", bk, "the official bookkeeper, as in: shell listbookies -rw", script="bookkeeper"
    )
    add("--zk", default="127.0.0.1:2181", metavar=ZK)
    add("--conf", type=folder, help="a bookie's own file, for commands that read its disk")
    add("rest", nargs=argparse.REMAINDER, metavar="ARGS")
    return top


if __name__ == "__main__":
    arguments = parser().parse_args()
    try:
        arguments.run(arguments)
    except KeyboardInterrupt:
        sys.exit(130)
