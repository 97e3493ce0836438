"""The command line of an instance: ``manage.py standalone run | status | demo | spark``, ``stop | kill | start X``."""

import argparse
import asyncio
import datetime
import fcntl
import json
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from engine.base import log as logs
from engine.base.disk.secret_files import restrict
from engine.base.settings import ProgramParser, SettingsError, is_installed
from gateway.standalone import clusters, data_folder, plan
from gateway.standalone.control import NotRunningError, send_request
from gateway.standalone.data_folder import LOCK, OWN_PATHS
from gateway.standalone.leftovers import end_leftovers
from gateway.standalone.memory_folder import NoMemoryFolderError, memory_folder
from gateway.standalone.on_demand import spark_packages
from gateway.standalone.on_demand.spark_setup import SparkSetup
from gateway.standalone.programs import (
    SPARK_REMEDY,
    ProgramMissingError,
    java_home,
    redis_server,
    zookeeper_classpath,
)
from gateway.standalone.settings import GATEWAYS_MAX, PROGRAM, StandaloneSettings
from gateway.standalone.supervisor import Supervisor, configure_output, fail, report
from gateway.standalone.takeover import TakeoverError, refusal, take_over

if TYPE_CHECKING:
    from gateway.standalone.secure import SecureFiles

BACKLOG = 1024
UNREACHABLE = 3
"""Exit code of a request to an instance that does not run, as of all commands whose server does not answer."""
START = "magnetar dev" if is_installed() else "make run"
"""The command that starts an instance."""
ANSWER_S = 620.0
"""Time within which a running instance must answer, while it may wait for a child that starts."""
BOOKIE_BYTES = 300 << 20
"""Free space that a new bookie needs: two journal files of 64 MiB, and space for its first data."""
CHILDREN_END_S = 20.0
"""Time within which the children of a killed supervisor must end."""


def main(argv: Sequence[str], prog: str = "manage.py standalone") -> int:
    """Run the command line of the program ``prog``; return the exit code."""
    parser = ProgramParser(prog=prog, description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    dev = verbs.add_parser("dev", help="start an instance of one bookie and one broker")
    _add_start_options(dev)
    dev.set_defaults(bookies=1, brokers=1, gateways=1, metadata=plan.METADATA[0])
    dev.set_defaults(secure=False, proxy=False, clusters=None)
    run = verbs.add_parser("run", help="start an instance and stay in the foreground")
    _add_start_options(run)
    run.add_argument("--bookies", type=int, default=1, help="number of bookies, 1 to 16")
    run.add_argument("--brokers", type=int, default=1, help="number of brokers, 1 to 16")
    run.add_argument(
        "--gateways", type=int, help=f"number of gateways behind one port, 1 to {GATEWAYS_MAX}"
    )
    run.add_argument(
        "--metadata",
        choices=plan.METADATA,
        default=plan.METADATA[0],
        help="the metadata server: the engine's own, or Apache ZooKeeper, which needs Java",
    )
    run.add_argument(
        "--secure",
        action="store_true",
        help="with TLS, authentication and authorization, by files that the first start makes",
    )
    run.add_argument("--proxy", action="store_true", help="with a proxy in front of the brokers")
    run.add_argument(
        "--clusters",
        metavar="NAME,NAME",
        help="clusters, each with so many bookies and brokers, that can replicate topics to each other;"
        " the gateway's paths without a name are the first one's",
    )
    status = verbs.add_parser("status", help="list the children of the running instance")
    status.add_argument("--json", action="store_true", help="as a list of JSON objects")
    verbs.add_parser(
        "demo", help="publish example messages to a few topics of the running instance"
    )
    verbs.add_parser("spark", help="install Spark, which analyses need")
    for verb, text in (
        ("stop", "stop a child; it stays down"),
        ("kill", "kill -9 a child, as a crash would"),
        ("start", "start a child that is down"),
    ):
        verbs.add_parser(verb, help=text).add_argument(
            "name", help="a child's name, or a broker's id"
        )
    args = parser.parse_args(argv)
    if args.verb in ("run", "dev"):
        return _start(args)
    data_dir = _load({}).instance.data_dir.resolve()
    if args.verb == "demo":
        configure_output("text")
        return _demo(data_dir)
    if args.verb == "spark":
        return spark_packages.main([])
    as_json: bool = getattr(args, "json", False)
    return _control(args.verb, getattr(args, "name", ""), data_dir, as_json=as_json)


def _add_start_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--memory",
        action="store_true",
        help="keep the data in memory (/dev/shm) and remove it at the end; needs 300 MiB and all that is published",
    )
    parser.add_argument(
        "--port-offset", metavar="N", help="add N to every port, to run beside another instance"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one line of JSON to standard output when ready, and reports to standard error",
    )


def _start(args: argparse.Namespace) -> int:
    """Start the instance and return its exit code."""
    if not args.memory:
        return _start_on(None, args)
    try:
        with memory_folder() as folder:
            return _start_on(folder, args)
    except NoMemoryFolderError as error:
        fail(str(error))


def _start_on(folder: Path | None, args: argparse.Namespace) -> int:
    """Start the instance on ``folder``; None: on the one that is set."""
    given = {"data_dir": folder, "gateways": args.gateways, "port_offset": args.port_offset}
    settings = _load(given)
    logs.configure(settings.log)
    # With --json, standard output has only the line for programs.
    configure_output(settings.log.log_format, sys.stderr if args.json else sys.stdout)
    return _run(args, settings.instance.data_dir.resolve(), settings)


def _load(given: Mapping[str, object]) -> StandaloneSettings:
    """Return the settings; exit with a message for an invalid one."""
    try:
        return PROGRAM.load(os.environ, Path.cwd(), given)
    except SettingsError as error:
        fail(str(error), os.EX_CONFIG)


def _demo(data_dir: Path) -> int:
    from gateway.standalone import demo  # The other verbs do not need the client.

    children = _request("status", "", data_dir)["children"]
    ports = {child["name"]: child["ports"] for child in children}
    host = plan.HOST
    gateway = ports.get("gateway") or ports["gateway-1"]
    http = f"http://{host}:{gateway['http']}"
    broker = next(child["ports"] for child in children if child["name"].endswith("broker-1"))
    are_several = any(child["cluster"] is None for child in children)
    token = ""
    try:
        if "pulsar+ssl" in broker:  # An instance that runs with --secure.
            token = (data_dir / "secure" / "superuser.token").read_text()
        if are_several:
            demo.replicate(http, report, token)
        demo.fill(http, f"pulsar://{host}:{broker['pulsar']}", report, token)
    except (demo.DemoError, OSError) as error:
        fail(f"the demo stopped: {error}")
    report(f"look at {http}: open a topic of {demo.NAMESPACE}, then Analyse")
    return 0


def _request(verb: str, name: str, data_dir: Path) -> dict[str, Any]:
    """Return the answer of the running instance to a request; exit with a message when there is none."""
    try:
        answer = send_request(plan.control_socket(data_dir), verb, name, timeout_s=ANSWER_S)
    except NotRunningError:
        fail(
            f"no instance runs on {data_dir}. Start one with: {START}; set MAGNETAR_DATA_DIR for an"
            " instance that keeps its data elsewhere",
            UNREACHABLE,
        )
    if "error" in answer:
        fail(answer["error"])
    return answer


def _control(verb: str, name: str, data_dir: Path, *, as_json: bool = False) -> int:
    answer = _request(verb, name, data_dir)
    if as_json:
        print(json.dumps(answer["children"]))
        return 0
    width = max(12, *(len(child["name"]) for child in answer["children"]))
    row = f"{{:<{width}}} {{:>8}} {{:<10}} {{:>8}}  {{}}"
    print(row.format("name", "pid", "state", "restarts", "ports"))
    for child in answer["children"]:
        ports = " ".join(f"{label}={port}" for label, port in child["ports"].items())
        print(
            row.format(child["name"], child["pid"] or "-", child["state"], child["restarts"], ports)
        )
    return 0


def _run(args: argparse.Namespace, data_dir: Path, settings: StandaloneSettings) -> int:
    lock = _lock_data(data_dir)
    if problem := data_folder.refusal(data_dir):
        fail(problem)
    options = plan.InstanceOptions(
        data_dir=data_dir,
        settings=settings,
        bookies=args.bookies,
        brokers=args.brokers,
        proxy=args.proxy,
        spark_remote=os.environ.get("SPARK_REMOTE", ""),
        metadata=args.metadata,
        clusters=_cluster_names(args.clusters),
        secure=_secure_files(data_dir) if args.secure else None,
    )
    is_zookeeper = options.metadata == "zookeeper"
    if is_zookeeper and (problem := refusal(data_dir)):
        fail(problem)
    try:
        children = plan.children(
            options,
            java_home=java_home(data_dir / "java") if is_zookeeper else Path(),
            classpath=zookeeper_classpath() if is_zookeeper else "",
            redis=_redis(options),
        )
    except (ProgramMissingError, plan.PlanError) as error:
        fail(str(error), os.EX_CONFIG)
    socket_path = plan.control_socket(data_dir)
    socket_path.unlink(missing_ok=True)  # A killed instance leaves it behind.
    end_leftovers(data_dir / "logs", CHILDREN_END_S, report)
    _make_private(data_dir)
    for child in children:
        for label, port in child.ports.items():
            if problem := _port_problem(options.host, port, child.name, label):
                fail(problem)
    if problem := _room_problem(options):
        elsewhere = "choose another folder with MAGNETAR_DATA_DIR=/some/folder"
        fail(f"{problem}. Make room, or {'leave out --memory' if args.memory else elsewhere}")
    listeners = _listeners(options.host, children)
    try:
        clusters.keep_names(data_dir, options.clusters)
    except clusters.ClustersError as error:
        fail(str(error))
    _prepare_folders(options, children)
    if not is_zookeeper:
        try:
            take_over(data_dir, options.host, report)
        except TakeoverError as error:
            fail(str(error))
    banner = _banner(options, children, args)

    async def serve() -> int:
        supervisor = Supervisor(
            children,
            log_dir=data_dir / "logs",
            host=options.host,
            control_socket=socket_path,
            listeners=listeners,
            spark_setup=None if options.spark_remote else SparkSetup(data_dir, report),
            prepare=partial(clusters.write_records, options, children)
            if options.clusters
            else None,
        )
        return await supervisor.run(banner)

    with lock:
        return asyncio.run(serve())


def _cluster_names(text: str | None) -> tuple[str, ...]:
    """Return the names of ``--clusters``, none without it; exit with a message for an invalid one."""
    try:
        return () if text is None else clusters.parse_names(text)
    except clusters.ClustersError as error:
        fail(str(error), os.EX_CONFIG)


def _secure_files(data_dir: Path) -> "SecureFiles":
    """Return the files of an instance with ``--secure``, made or renewed."""
    from gateway.standalone.secure import SecureError, SecureFiles  # cryptography takes time.

    files = SecureFiles(data_dir, os.environ.get("MAGNETAR_AUTHENTICATION_PROVIDERS", ""))
    try:
        files.prepare(datetime.datetime.now(datetime.UTC), report)
    except SecureError as error:
        fail(str(error))
    return files


def _redis(options: plan.InstanceOptions) -> str:
    """Return Redis's executable. Raises ProgramMissingError when there is none and the instance needs it at once."""
    try:
        return redis_server()
    except ProgramMissingError:
        if not options.workers_on_demand:
            raise
        return "redis-server"  # The start of the worker reports that it is missing.


def _lock_data(data_dir: Path) -> IO[str]:
    """Create the folders and acquire the instance's lock; the kernel releases it when this process ends in any way."""
    try:
        (data_dir / "logs").mkdir(parents=True, exist_ok=True)
        lock = (data_dir / LOCK).open("a+")
    except OSError as error:
        fail(
            f"cannot write to {data_dir}: {error.strerror}. Mend it with: MAGNETAR_DATA_DIR=/some/folder {START}"
        )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        fail(
            f"an instance already runs on {data_dir} (process {lock.read().strip()})."
            " Stop it, or choose another folder with MAGNETAR_DATA_DIR=/some/folder"
            " and other ports with MAGNETAR_PORT_OFFSET=4000"
        )
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _make_private(data_dir: Path) -> None:
    """Remove other users' access to the instance's files, which earlier versions allowed.

    The data folder itself is not changed, since it may hold files of other programs.
    """
    for pattern in OWN_PATHS:
        for path in data_dir.glob(pattern):
            with suppress(OSError):  # A file of another user cannot be changed.
                restrict(path)


def _room_problem(options: plan.InstanceOptions) -> str:
    """Return the problem when new bookies have too little free space, else an empty text.

    Bookies that have data may start with little space, so that the data can be read.
    """
    data_dir = options.data_dir
    new = sum(
        not (member.folder / f"bookie-{number + 1}").exists()
        for member in options.members
        for number in range(options.bookies)
    )
    free = shutil.disk_usage(data_dir).free
    if free >= new * BOOKIE_BYTES:
        return ""
    return (
        f"{data_dir} has {free >> 20} MiB free; {new} new bookie{'s need' if new > 1 else ' needs'}"
        f" {new * BOOKIE_BYTES >> 20}"
    )


def _listeners(host: str, children: Sequence[plan.Child]) -> dict[int, socket.socket]:
    """Return the listening sockets that children share, by port; they are open while the instance runs."""
    listeners: dict[int, socket.socket] = {}
    for port in sorted({port for child in children for port in child.listeners.values()}):
        listeners[port] = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if problem := _bind(listeners[port], host, port, "gateways, http"):
            fail(problem)
        listeners[port].listen(BACKLOG)
    return listeners


def _port_problem(host: str, port: int, child: str, label: str) -> str:
    """Return the problem with a port and its remedy; empty when the port is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        return _bind(probe, host, port, f"{child}, {label}")


def _bind(sock: socket.socket, host: str, port: int, user: str) -> str:
    """Bind ``sock``; return the problem and its remedy when that fails, else an empty text."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        return (
            f"port {port} ({user}) cannot be used: {error.strerror}."
            f" Free it, or choose others with MAGNETAR_PORT_OFFSET=4000 {START}"
        )
    return ""


def _prepare_folders(options: plan.InstanceOptions, children: Sequence[plan.Child]) -> None:
    data_dir = options.data_dir
    for name in ("redis", "spark"):
        (data_dir / name).mkdir(parents=True, exist_ok=True)
    (data_dir / "spark" / "tmp").mkdir(exist_ok=True)
    (data_dir / "log4j2.properties").write_text(plan.LOG4J)
    (data_dir / plan.FAIR_FILE).write_text(plan.FAIR)
    if options.metadata == "zookeeper":
        _prepare_zookeeper(options, children)


def _prepare_zookeeper(options: plan.InstanceOptions, children: Sequence[plan.Child]) -> None:
    data_dir = options.data_dir
    (data_dir / "zookeeper").mkdir(parents=True, exist_ok=True)
    _move_misplaced_data(data_dir / "zookeeper")
    zookeeper = next(child for child in children if child.name == "zookeeper")
    config = plan.zookeeper_config(
        data_dir / "zookeeper", options.host, zookeeper.ports["zookeeper"]
    )
    (data_dir / "zookeeper" / "zoo.cfg").write_text(config)


def _move_misplaced_data(folder: Path) -> None:
    """Move ZooKeeper's data into ``folder``.

    ZooKeeper misread a path with other than ASCII letters in earlier versions, and stored its data beside the folder.
    """
    misplaced = plan.misread_by_java(folder) / "version-2"
    if misplaced.is_dir() and not (folder / "version-2").exists():
        shutil.move(misplaced, folder / "version-2")


def _banner(
    options: plan.InstanceOptions, children: Sequence[plan.Child], args: argparse.Namespace
) -> Callable[[float], str]:
    """Return a function that returns the report of the instance's readiness, and prints it as JSON where asked to."""
    ports = {child.name: child.ports for child in children}
    all_ports, host = options.ports(), options.host
    broker = ports[f"{options.members[0].prefix}broker-1"]
    http, pulsar = f"http://{host}:{all_ports['HTTP']}", f"pulsar://{host}:{broker['pulsar']}"
    folder = options.data_dir
    further = clusters.addresses(options, children) if options.clusters else {}

    def text(took_s: float) -> str:
        if args.json:
            line = {
                "ready": True,
                "seconds": round(took_s, 3),
                "pid": os.getpid(),
                "http": http,
                "pulsar": pulsar,
                "data_dir": str(folder),
                **({"clusters": further} if options.clusters else {}),
            }
            print(json.dumps(line), flush=True)
        lines = [
            f"ready in {took_s:.1f} s",
            f"  console, REST, WebSocket  {http}",
            f"  Pulsar clients            {pulsar}",
            *(
                _secure_lines(options.secure, host, all_ports["HTTPS"], broker)
                if options.secure
                else ()
            ),
            *_proxy_lines(host, ports.get("proxy")),
            *_cluster_lines(further, options.secure),
            *_set_up_lines(
                folder, f"{http}/set-up", stream=sys.stderr if args.json else sys.stdout
            ),
            f"  metadata (ZooKeeper API)  {host}:{ports['zookeeper']['zookeeper']}",
            *_analyses_lines(options),
            f"  logs and data             {folder}",
            *(
                [f"  in another terminal       export MAGNETAR_DATA_DIR={shlex.quote(str(folder))}"]
                if args.memory
                else []
            ),
            f"  Ctrl-C stops everything; data {'is removed' if args.memory else 'stays'}",
        ]
        return "\n".join(lines)

    return text


def _cluster_lines(
    addresses: Mapping[str, Mapping[str, str]], secure: "SecureFiles | None"
) -> list[str]:
    """Return where each cluster is, and how a namespace comes to be in several."""
    if not addresses:
        return []
    names, tls = json.dumps([*addresses]), "Tls" if secure else ""
    first = next(iter(addresses.values()))[f"serviceUrl{tls}"]
    command = ["curl"]
    if secure:
        command += ["--cacert", str(secure.authority), "-H", f"@{secure.header}"]
    command += ["-H", "Content-Type: application/json", "-d", names]
    command.append(f"{first}/admin/v2/namespaces/TENANT/NAMESPACE/replication")
    return [
        *(
            f"  cluster {name:<17} {urls[f'brokerServiceUrl{tls}']}  {urls[f'serviceUrl{tls}']}"
            for name, urls in addresses.items()
        ),
        f"  replicate a namespace     {shlex.join(command)}",
    ]


def _proxy_lines(host: str, ports: Mapping[str, int] | None) -> list[str]:
    if ports is None:
        return []
    tls = f" and pulsar+ssl://{host}:{ports['pulsar+ssl']}" if "pulsar+ssl" in ports else ""
    return [f"  through the proxy         pulsar://{host}:{ports['pulsar']}{tls}"]


def _analyses_lines(options: plan.InstanceOptions) -> list[str]:
    """Return what analyses lack on this machine, each with its remedy."""
    if options.spark_remote:
        return []
    missing = spark_packages.missing_for_runs()
    if not spark_packages.is_installed():
        missing.insert(
            0,
            f"Spark is not installed. The console's page of analyses offers it, or: {SPARK_REMEDY}",
        )
    labels = ("analyses cannot run yet", *("" for _ in missing[1:]))
    return [f"  {label:<25} {text}" for label, text in zip(labels, missing, strict=False)]


def _set_up_lines(data_dir: Path, page: str, stream: TextIO) -> list[str]:
    """Return where the first person of the console is created, while there is none.

    The code for it is shown by a terminal alone: everything else may be a log.
    """
    path = data_dir / "set-up-code"
    try:
        code = path.read_text().strip()
    except FileNotFoundError:
        return []
    place = code if stream.isatty() else f"in {path}"
    return [f"  first person              {page} with the code {place}"]


def _secure_lines(
    files: "SecureFiles", host: str, https_port: int, broker: Mapping[str, int]
) -> list[str]:
    """Return how to sign in: no line has a secret."""
    https = f"https://{host}:{https_port}"
    authority, header = shlex.quote(str(files.authority)), shlex.quote(f"@{files.header}")
    return [
        f"  the same by TLS           {https} and pulsar+ssl://{host}:{broker['pulsar+ssl']}",
        f"  authority of TLS          {files.authority}",
        f"  superuser's token         {files.token('superuser')}",
        f"  superuser's certificate   {files.certificate('superuser')}, key {files.key('superuser')}",
        f"  curl --cacert {authority} -H {header} {https}/admin/v2/tenants",
        "  further tokens            magnetar tokens create --secret-key"
        f" {shlex.quote(files.token_key.as_uri())} --subject ROLE",
    ]
