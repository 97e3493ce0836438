"""The commands that are programs of their own: servers, the instance, and tools with Pulsar's arguments.

A program reads its own arguments, so the command and ``python -m`` take the same ones, and ``--help`` is the program's.
"""

import os
from collections.abc import Callable
from importlib import import_module

import click

from magnetar.command.exits import CommandFailed, Exit

Run = Callable[[list[str]], int | None]
"""Runs a program with its arguments and returns its exit status, None for 0; or exits itself."""


EXITS = (
    "Exit status: 0 after a stop on request, 1 after a failure, 2 for wrong usage, 78 where a restart cannot help, such"
    " as for an invalid setting."
)
"""End of the help of servers."""


def server(name: str, summary: str, run: Run) -> click.Command:
    """Return the command of a program that runs until it is stopped."""
    return program(name, summary, run, EXITS)


def program(name: str, summary: str, run: Run, epilog: str | None = None) -> click.Command:
    """Return a command that passes its arguments to ``run`` as they are."""

    @click.command(
        name,
        help=summary,
        epilog=epilog,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def command(arguments: tuple[str, ...]) -> None:
        raise SystemExit(run(list(arguments)) or 0)

    return command


def _engine(name: str) -> Run:
    def run(arguments: list[str]) -> int | None:
        from engine.__main__ import main

        if name in ("broker", "proxy", "functions-worker") and arguments:
            click.echo(
                f"usage: magnetar {name}; its settings are in magnetar.toml and in MAGNETAR_*"
                " variables, see the page of settings",
                err=arguments not in (["--help"], ["-h"]),
            )
            return 0 if arguments in (["--help"], ["-h"]) else 2
        return main([name, *arguments])

    return run


def _bookie(arguments: list[str]) -> int | None:
    tools = {"inspect": "bookie.tools.inspect", "rebuild-index": "bookie.tools.rebuild_index"}
    if arguments[:1] and arguments[0] in tools:
        status: int = import_module(tools[arguments[0]]).main(arguments[1:])
        return status
    from bookie.__main__ import main

    return main(arguments)


def _gateway(arguments: list[str]) -> int | None:
    from gateway.serve import main

    main(arguments)
    return None


def _worker(arguments: list[str]) -> int | None:
    from gateway.worker import main

    main(arguments)
    return None


def _instance(verb: str) -> Run:
    def run(arguments: list[str]) -> int | None:
        from engine.base import log as logs
        from gateway.standalone.cli import main

        logs.keep_private()
        try:
            return main([verb, *arguments], prog="magnetar")
        except KeyboardInterrupt:  # before there was anything to stop
            return 130

    return run


def _manage(arguments: list[str]) -> int | None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    from django.core.management import ManagementUtility, get_commands

    known = ("help", "--help", "-h", "version", "--version")
    # Django's exit status for an unknown command is that of one that failed.
    if arguments and arguments[0] not in (*known, *get_commands()):
        raise CommandFailed(
            f"manage has no command {arguments[0]!r}", Exit.USAGE, "See magnetar manage help"
        )
    ManagementUtility(["magnetar manage", *arguments]).execute()
    return None


broker = server(
    "broker",
    "Run a broker until SIGTERM or Ctrl-C, which drain it. It takes no options: its settings are in magnetar.toml"
    " and in MAGNETAR_* variables.",
    _engine("broker"),
)
proxy = server(
    "proxy",
    "Run a proxy in front of brokers until SIGTERM or Ctrl-C. It takes no options: its settings are in magnetar.toml"
    " and in MAGNETAR_* variables.",
    _engine("proxy"),
)
functions_worker = server(
    "functions-worker",
    "Run a worker of functions, sources and sinks until SIGTERM or Ctrl-C, which ends its instances. It takes no"
    " options: its settings are in magnetar.toml and in MAGNETAR_FUNCTIONS_WORKER_* variables.",
    _engine("functions-worker"),
)
bookie = server(
    "bookie",
    "Run a bookie until SIGTERM or Ctrl-C. `bookie inspect` and `bookie rebuild-index` are tools for the files of one"
    " that is stopped. `--help` lists the options.",
    _bookie,
)
metadata = server(
    "metadata",
    "Run a metadata server until SIGTERM or Ctrl-C. `metadata copy FROM TO` copies a store."
    " `--help` lists the options.",
    _engine("metadata"),
)
gateway = server(
    "gateway",
    "Run a gateway (console, REST and WebSocket endpoints) until SIGTERM or Ctrl-C. `--help` lists the options.",
    _gateway,
)
worker = server(
    "worker",
    "Run a worker of analyses until SIGTERM or Ctrl-C; needs Redis and the extra `spark`. `--help` lists the options.",
    _worker,
)
certificates = program(
    "certificates",
    "Make an authority, and certificates for TLS. `--help` lists the options.",
    _engine("certificates"),
)
tokens = program(
    "tokens",
    "Make keys and tokens, and check tokens. `--help` lists the options.",
    _engine("tokens"),
)
bookies = program(
    "bookies",
    "Examine and change auto-recovery, decommission bookies. `--help` lists the commands.",
    _engine("bookies"),
)
manage = program(
    "manage",
    "Run a command of the gateway's Django, such as `audit_verify`. `manage help` lists them.",
    _manage,
)
dev = server(
    "dev",
    "Start an instance of one broker and one bookie on this machine: Pulsar clients on 6650, console, REST and"
    " WebSocket on 8080. Ctrl-C stops it. `--help` lists the options.",
    _instance("dev"),
)
run = server(
    "run",
    "Start an instance: metadata server, bookies, brokers, gateway. Ctrl-C stops it. `--help` lists the options.",
    _instance("run"),
)
status = program("status", "List the processes of the running instance.", _instance("status"))
start = program("start", "Start the process NAME of the instance that is down.", _instance("start"))
stop = program("stop", "Stop the process NAME of the instance; it stays down.", _instance("stop"))
kill = program(
    "kill", "Kill the process NAME of the instance, as a crash would.", _instance("kill")
)


def _initialization(name: str) -> click.Command:
    return program(name, "The command of Pulsar. `--help` lists the options.", _engine(name))


initialize_cluster_metadata = _initialization("initialize-cluster-metadata")
initialize_namespace = _initialization("initialize-namespace")
initialize_transaction_coordinator_metadata = _initialization(
    "initialize-transaction-coordinator-metadata"
)
delete_cluster_metadata = _initialization("delete-cluster-metadata")
init = click.Group(
    "init",
    help="Write or delete the metadata of a cluster. The commands are also there by Pulsar's names, such as"
    " `magnetar initialize-cluster-metadata`.",
    commands={
        "cluster": initialize_cluster_metadata,
        "namespace": initialize_namespace,
        "transaction-coordinator": initialize_transaction_coordinator_metadata,
        "delete-cluster": delete_cluster_metadata,
    },
)
