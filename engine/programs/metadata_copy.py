"""The command ``metadata copy FROM TO``: copies a metadata store into another one, of the same or of another kind."""

import asyncio
import logging
import sys
from collections.abc import Sequence

from engine.base.errors import MagnetarError
from engine.base.settings import ProgramParser, SettingsError
from engine.metadata.connect import FORM, MetadataUrl, connect
from engine.metadata.copying import CopiedNodes, CopyError, copy
from engine.metadata.store import MetadataStore, SessionExpiredError, StoreUnavailableError

EX_USAGE = 2
REPORT_NODES = 10_000


def main(argv: Sequence[str]) -> int:
    """Copy and return the exit status: 0 when all was copied and compared, 1 after an error, which one line names."""
    parser = ProgramParser(
        prog="magnetar metadata copy",
        description="Copy all persistent nodes into an empty store, compare them, and let the numbers of sequential"
        " nodes continue. An interrupted copy is continued by the same command. Stop all programs that use either"
        " store before.",
    )
    parser.add_argument("source", metavar="FROM", help=f"the store that is read: {FORM}")
    parser.add_argument("target", metavar="TO", help="the store that is written, in the same form")
    arguments = parser.parse_args(argv)
    # kazoo reports each attempt to connect; the command reports the outcome, in one line.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL + 1)
    try:
        source = MetadataUrl.parse(arguments.source, "source")
        target = MetadataUrl.parse(arguments.target, "target")
        if source.scheme == target.scheme and _overlap(source, target):
            raise SettingsError("source and target must be different stores, none in the other")
        copied = asyncio.run(_copy(arguments.source, arguments.target, _inside(source, target)))
    except SettingsError as error:
        print(f"magnetar: {error}", file=sys.stderr)
        return EX_USAGE
    except (StoreUnavailableError, SessionExpiredError) as error:
        print(f"magnetar: interrupted: {error}. Continue with the same command", file=sys.stderr)
        return 1
    except MagnetarError as error:
        print(f"magnetar: {error}", file=sys.stderr)
        return 1
    print(
        f"{copied.nodes} nodes copied and compared; {copied.ephemerals} ephemeral ones left out:"
        " they belong to sessions of the source"
    )
    return 0


def _overlap(source: MetadataUrl, target: MetadataUrl) -> bool:
    """Return whether both have a server in common and one's nodes are among the other's. A server that has several
    names is not recognized."""
    if set(source.hosts.split(",")).isdisjoint(target.hosts.split(",")):
        return False
    above, below = f"{source.chroot}/", f"{target.chroot}/"
    return above.startswith(below) or below.startswith(above)


def _inside(source: MetadataUrl, target: MetadataUrl) -> str | None:
    """Return the path of the target's root in the source if one server has both; None if neither is below the other."""
    if source.scheme != target.scheme or not f"{target.chroot}/".startswith(f"{source.chroot}/"):
        return None
    return target.chroot.removeprefix(source.chroot)


async def _connect(name: str, url: str) -> MetadataStore:
    """Open a session. Raises CopyError when the store does not answer: nothing was copied then."""
    try:
        return await connect(url)
    except (StoreUnavailableError, SessionExpiredError) as error:
        raise CopyError(f"cannot reach the {name} {url}: {error}") from error


async def _copy(source_url: str, target_url: str, inside: str | None) -> CopiedNodes:
    reported = 0

    def progress(nodes: int) -> None:
        nonlocal reported
        if nodes - reported >= REPORT_NODES:
            reported = nodes
            print(f"{nodes} nodes copied", file=sys.stderr)

    source = await _connect("source", source_url)
    try:
        target = await _connect("target", target_url)
        try:
            return await copy(source, target, source_url, progress, inside=inside)
        finally:
            await target.close()
    finally:
        await source.close()
