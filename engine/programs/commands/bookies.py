"""``bookies``: look at and change auto-recovery and the bookies of a cluster, as the commands of the same names in
BookKeeper's shell do."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.base import log as logs
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.base.loop import EventLoop
from engine.base.settings import ProgramParser, SettingsError
from engine.metadata import paths
from engine.metadata.connect import connect
from engine.metadata.records import BookieRegistration
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http_client import HttpClient
from engine.net.network import LoopNetwork
from engine.programs.commands.cluster_metadata import PROGRAM, CommandSettings
from engine.repair.auto_recovery import AutoRecovery
from engine.repair.bookie_changes import (
    BookieChangeError,
    decommission,
    held_by,
    is_registered,
    recover_bookies,
)
from engine.repair.decommissions import (
    DRAINED,
    read_decommission,
    request_decommission,
    withdraw_decommission,
)
from engine.repair.election import auditor
from engine.repair.ledger_listing import children
from engine.repair.pages.bookie_spaces import free_and_total, spaces
from engine.repair.pages.ledger_pages import metadata_json
from engine.repair.pages.sanity import is_sane
from engine.repair.settings import RepairSettings

SESSION_S = 30.0
HTTP_S = 10.0
POLL_S = 1.0
LONG_AGO_MS = 1


class BookieTool:
    """The means of a command."""

    def __init__(self, store: MetadataStore, settings: CommandSettings) -> None:
        self.store = store
        self.settings = settings
        self.recovery = AutoRecovery(
            RepairSettings(),
            settings.ledger,
            f"{os.uname().nodename}-command",
            store=store,
            network=LoopNetwork(),
            clock=SystemClock(),
            entropy=RandomEntropy(),
        )

    async def close(self) -> None:
        await self.recovery.client.close()


Command = Callable[[BookieTool, argparse.Namespace], Awaitable[int]]


async def who_is_auditor(tool: BookieTool, given: argparse.Namespace) -> int:
    elected = await auditor(tool.store)
    print("No auditor elected" if elected is None else f"Auditor: {elected}")
    return int(elected is None)


async def trigger_audit(tool: BookieTool, given: argparse.Namespace) -> int:
    await tool.recovery.records.trigger_audit()
    print("The auditor was asked for an audit")
    return 0


async def delay(tool: BookieTool, given: argparse.Namespace) -> int:
    records = tool.recovery.records
    if given.set is not None:
        await records.set_delay(given.set)
    print(f"lostBookieRecoveryDelay: {await records.delay_s():.0f} s")
    return 0


async def switch(tool: BookieTool, given: argparse.Namespace) -> int:
    records = tool.recovery.records
    if given.enable or given.disable:
        await records.enable(given.enable)
    print(f"auto-recovery is {'enabled' if await records.enabled() else 'disabled'}")
    return 0


async def list_marked(tool: BookieTool, given: argparse.Namespace) -> int:
    records, count = tool.recovery.records, 0
    async for ledger_id in records.marked():
        bookies = await records.lost_bookies(ledger_id)
        if given.missing_replica and given.missing_replica not in bookies:
            continue
        worker = await records.worker(ledger_id)
        print(f"{ledger_id} lost={','.join(bookies)}{f' repaired-by={worker}' if worker else ''}")
        count += 1
    print(f"{count} ledgers are marked", file=sys.stderr)
    return 0


async def decommission_bookie(tool: BookieTool, given: argparse.Namespace) -> int:
    held = await held_by(tool.store, given.bookie)
    print(f"{given.bookie} holds {held.ledgers} ledgers, {held.open} open, about {held.size} bytes")
    if given.preview:
        return 0
    await decommission(
        tool.store,
        tool.recovery.records,
        given.bookie,
        timeout_s=given.timeout,
        delete_cookie=not given.keep_cookie,
        progress=lambda left, first: print(f"{left} of {first} ledgers left", flush=True),
    )
    print(f"{given.bookie} is decommissioned")
    return 0


async def recover(tool: BookieTool, given: argparse.Namespace) -> int:
    done = await recover_bookies(
        tool.store,
        tool.recovery.repair,
        given.bookies,
        ledger=given.ledger,
        skip_open=given.skip_open_ledgers,
        dry_run=given.dry_run,
    )
    for ledger_id, reason in done.failed.items():
        print(f"{ledger_id} failed: {reason}", file=sys.stderr)
    verb = "would be copied" if given.dry_run else "copied"
    print(f"{len(done.copied)} ledgers {verb}, {len(done.failed)} failed")
    return int(bool(done.failed))


async def sanity(tool: BookieTool, given: argparse.Namespace) -> int:
    """Write a ledger to one bookie, read it, delete it."""
    if not await is_registered(tool.store, given.bookie):
        raise NoNodeError(f"{paths.available_bookie(given.bookie)}: the bookie is not registered")
    intact = await is_sane(
        given.bookie,
        tool.settings.ledger,
        store=tool.store,
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
    )
    print("Bookie sanity test succeeded" if intact else "Bookie sanity test failed")
    return int(not intact)


async def drain(tool: BookieTool, given: argparse.Namespace) -> int:
    """Ask a bookie to become read-only and workers to copy what it holds, or withdraw that."""
    if given.withdraw:
        withdrawn = await withdraw_decommission(tool.store, given.bookie)
        print("The request is withdrawn" if withdrawn else f"No request for {given.bookie}")
        return int(not withdrawn)
    if not await is_registered(tool.store, given.bookie):
        raise BookieChangeError(f"{given.bookie} does not serve: decommission it")
    by = f"{os.environ.get('USER', 'somebody')}@{os.uname().nodename}"
    await request_decommission(tool.store, SystemClock(), given.bookie, by, drain=True)
    deadline = asyncio.get_running_loop().time() + given.timeout
    shown = ""
    while (request := await read_decommission(tool.store, given.bookie)) is not None:
        left = "?" if request.left is None else request.left
        line = f"{left} ledgers left" + (f", {request.waits}" if request.waits else "")
        if line != shown:
            print(line, flush=True)
            shown = line
        if request.waits == DRAINED:
            return 0
        if asyncio.get_running_loop().time() >= deadline:
            raise BookieChangeError(f"{line}; the request stays, a later call continues")
        await asyncio.sleep(POLL_S)
    print("The request was withdrawn", file=sys.stderr)
    return 1


async def list_bookies(tool: BookieTool, given: argparse.Namespace) -> int:
    """Print the bookies, each with its state; one that is away has a cookie alone."""
    writable = {*await children(tool.store, paths.AVAILABLE)} - {"readonly"}
    read_only = {*await children(tool.store, paths.READ_ONLY)} - writable
    away = {*await children(tool.store, paths.COOKIES)} - writable - read_only
    states = (("writable", writable), ("read-only", read_only), ("away", away))
    for state, bookies in states:
        for bookie in sorted(bookies) if given.state in (state, None) else ():
            print(f"{bookie} {state}")
    return 0


async def bookie_info(tool: BookieTool, given: argparse.Namespace) -> int:
    """Print the room on the disks of each bookie, and the sum, as BookKeeper does."""
    listed = await spaces(tool.store, tool.recovery.client)
    for bookie, space in listed.items():
        if space is None:
            print(f"{bookie}: does not answer", file=sys.stderr)
        else:
            print(f"{bookie}: {free_and_total(space)}")
    known = [space for space in listed.values() if space is not None]
    free, total = sum(space[0] for space in known), sum(space[1] for space in known)
    print(f"ClusterInfo: {free_and_total((free, total))}")
    return int(len(known) < len(listed) or not listed)


async def ledger_metadata(tool: BookieTool, given: argparse.Namespace) -> int:
    """Print the metadata of ledgers as JSON, without passwords."""
    for ledger_id in given.ledgers:
        metadata = await tool.recovery.client.metadata(ledger_id)
        print(json.dumps(metadata_json(ledger_id, metadata)))
    return 0


async def force_checks(tool: BookieTool, given: argparse.Namespace) -> int:
    """Make periodic checks of the auditor due, those that are named or all."""
    named = {
        paths.CHECKED_LEDGERS: given.ledgers,
        paths.CHECKED_PLACEMENT: given.placement,
        paths.CHECKED_REPLICAS: given.replicas,
    }
    for path in [path for path, wanted in named.items() if wanted or not any(named.values())]:
        await tool.recovery.records.set_checked(path, LONG_AGO_MS)
    print("The auditor runs the checks that its settings enable")
    return 0


async def scrub(tool: BookieTool, given: argparse.Namespace) -> int:
    """Print what each bookie's scrubber does; with ``--now`` ask it to read everything back now."""
    http = HttpClient(LoopNetwork(), timeout_s=HTTP_S, answer_bytes_max=1 << 20)
    failed = 0
    try:
        for bookie, url in (await status_urls(tool.store)).items():
            if given.bookies and bookie not in given.bookies:
                continue
            try:
                if url is None:
                    raise BookieChangeError("has no status port")
                method = "PUT" if given.now else "GET"
                answer = await http.request(method, f"{url}/api/v1/bookie/scrub")
                if answer.status != 200:
                    raise BookieChangeError(answer.body.decode(errors="replace")[:200])
                print(f"{bookie} {scrub_line(json.loads(answer.body))}")
            except (MagnetarError, OSError, ValueError) as error:
                failed += 1
                print(f"{bookie}: {error}", file=sys.stderr)
    finally:
        http.close()
    return int(bool(failed))


async def status_urls(store: MetadataStore) -> dict[str, str | None]:
    """Return the URL of each registered bookie's status port; None where it has none."""
    urls: dict[str, str | None] = {}
    for parent in (paths.AVAILABLE, paths.READ_ONLY):
        for bookie in sorted(await store.children(parent)):
            if f"{parent}/{bookie}" == paths.READ_ONLY:
                continue
            value, _ = await store.get(f"{parent}/{bookie}")
            urls[bookie] = BookieRegistration.decode(value).http_url()
    return urls


def scrub_line(state: dict[str, Any]) -> str:
    """Return a scrubber's state as a line of text."""
    last, progress = state["lastPass"], state["progress"]
    parts = [
        f"{progress:.1%} read" if progress is not None else "waits for the next pass",
        f"unreadable={state['unreadableNow']}",
    ]
    if last is None:
        parts.append("no pass has ended yet")
    else:
        ended = datetime.fromtimestamp(last["ended_ms"] / 1000, UTC)
        parts.append(
            f"last pass ended {ended:%Y-%m-%d %H:%M:%S} UTC: {last['entries']} entries, "
            f"{last['unreadable']} damaged, {last['missing']} missing, {last['restored']} restored"
        )
    return ", ".join(parts)


def parser() -> argparse.ArgumentParser:
    made = ProgramParser(prog="magnetar bookies", description=__doc__)
    verbs = made.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    def verb(name: str, work: Command, text: str) -> argparse.ArgumentParser:
        command = verbs.add_parser(name, help=text, description=text)
        command.set_defaults(work=work)
        return command

    verb("whoisauditor", who_is_auditor, "print the auditor's id")
    verb("triggeraudit", trigger_audit, "ask the auditor for an audit at once")
    command = verb(
        "lostbookierecoverydelay", delay, "print or set how long a lost bookie is waited for"
    )
    command.add_argument("--set", type=int, metavar="SECONDS")
    command = verb("autorecovery", switch, "print or set whether ledgers are repaired")
    either = command.add_mutually_exclusive_group()
    either.add_argument("--enable", action="store_true")
    either.add_argument("--disable", action="store_true")
    command = verb("listunderreplicated", list_marked, "list the marked ledgers")
    command.add_argument(
        "--missing-replica", metavar="BOOKIE", help="only those that lack this one"
    )
    command = verb(
        "decommission", decommission_bookie, "copy what a stopped bookie held, then forget it"
    )
    command.add_argument("bookie")
    command.add_argument("--preview", action="store_true", help="only count what it holds")
    command.add_argument("--timeout", type=float, default=86400.0, metavar="SECONDS")
    command.add_argument("--keep-cookie", action="store_true")
    command = verb("recover", recover, "copy what bookies hold, in this process")
    command.add_argument("bookies", nargs="+", metavar="BOOKIE")
    command.add_argument("--ledger", type=int, metavar="ID")
    command.add_argument("--skip-open-ledgers", action="store_true")
    command.add_argument("--dry-run", action="store_true")
    command = verb("forceauditchecks", force_checks, "have the auditor's checks run now")
    command.add_argument("--ledgers", action="store_true", help="the check of all ledgers")
    command.add_argument("--placement", action="store_true", help="the check of placement")
    command.add_argument("--replicas", action="store_true", help="the count of copies")
    command = verb("listbookies", list_bookies, "list the bookies with their states")
    command.add_argument("--state", choices=("writable", "read-only", "away"), help="only these")
    verb("bookieinfo", bookie_info, "print the room on the disks of all bookies")
    command = verb("ledgermetadata", ledger_metadata, "print the metadata of ledgers as JSON")
    command.add_argument("ledgers", nargs="+", type=int, metavar="ID")
    command = verb("drain", drain, "make a bookie read-only and copy what it holds elsewhere")
    command.add_argument("bookie")
    command.add_argument("--withdraw", action="store_true", help="make it writable again")
    command.add_argument("--timeout", type=float, default=86400.0, metavar="SECONDS")
    command = verb("scrub", scrub, "show how far bookies have read back what they keep")
    command.add_argument("bookies", nargs="*", metavar="BOOKIE", help="only these")
    command.add_argument("--now", action="store_true", help="read everything back now")
    command = verb("bookiesanity", sanity, "write some entries to a bookie and read them")
    command.add_argument("bookie")
    return made


async def _run(settings: CommandSettings, given: argparse.Namespace) -> int:
    metadata = settings.metadata
    store = await connect(
        metadata.stores.of_bookies, access=metadata.access, session_timeout_s=SESSION_S
    )
    try:
        tool = BookieTool(store, settings)
        try:
            status: int = await given.work(tool, given)
            return status
        finally:
            await tool.close()
    finally:
        await store.close()


def main(argv: Sequence[str]) -> int:
    """Run a command and return its exit status: 1 after a failure, 2 for wrong usage, 78 for wrong settings."""
    given = parser().parse_args(argv)
    logs.keep_private()
    try:
        settings = PROGRAM.load(os.environ, Path.cwd())
        logs.configure(settings.log)
        with asyncio.Runner(loop_factory=EventLoop) as runner:
            return runner.run(_run(settings, given))
    except SettingsError as error:
        print(f"bookies: {error}", file=sys.stderr)
        return os.EX_CONFIG
    except (MagnetarError, OSError, TimeoutError) as error:
        print(f"bookies: {error or type(error).__name__}", file=sys.stderr)
        return 1
