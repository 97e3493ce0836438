"""``python -m engine certificates``: an authority and certificates of servers and clients, for evaluation.

Production has an authority of its own. Keys are on the curve P-256; files are PEM, those of keys for their owner alone.
"""

import argparse
import datetime
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.auth.certificate_authority import (
    Issued,
    client_certificate,
    new_authority,
    server_certificate,
)
from engine.auth.private_files import write_private
from engine.base.clock import Clock, SystemClock
from engine.base.settings import ProgramParser

AUTHORITY = "authority"


def main(arguments: Sequence[str], clock: Clock | None = None) -> int:
    """Run the command and return its exit status: 0, 1 when it failed, 2 for wrong usage."""
    try:
        given = _parser().parse_args(arguments)
    except SystemExit as error:
        return int(error.code or 0)
    wall_ms = (clock or SystemClock()).wall_ms()
    now = datetime.datetime.fromtimestamp(wall_ms / 1000, datetime.UTC)
    try:
        run: Callable[[argparse.Namespace, datetime.datetime], None] = given.run
        run(given, now)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except (ValueError, TypeError) as error:
        print(f"{given.directory}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = ProgramParser(prog="magnetar certificates", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser(AUTHORITY, help="make an authority: authority.cert.pem, .key.pem")
    _add_common(command, days=3650)
    command.set_defaults(run=_authority)
    command = commands.add_parser("server", help="make the certificate of a server")
    _add_common(command, days=365)
    command.add_argument("name", help="name of the files, and the common name")
    command.add_argument(
        "--host", action="append", required=True, help="name or address of the server; repeatable"
    )
    command.set_defaults(run=_server)
    command = commands.add_parser("client", help="make the certificate of a client")
    _add_common(command, days=365)
    command.add_argument("name", metavar="role", help="role: name of the files, and common name")
    command.add_argument(
        "--organizational-unit",
        default="",
        metavar="OU",
        help="roles for bookies, such as 0:broker,admin (authorizedRoles)",
    )
    command.set_defaults(run=_client)
    return parser


def _add_common(command: argparse.ArgumentParser, days: int) -> None:
    command.add_argument(
        "-d", "--directory", type=Path, default=Path("certificates"), help="folder of the files"
    )
    command.add_argument("--days", type=_days, default=days, help="days of validity")


def _days(text: str) -> int:
    days = int(text)
    if not 1 <= days <= 36_500:
        raise ValueError("days must be 1 to 36500")
    return days


def _authority(given: argparse.Namespace, now: datetime.datetime) -> None:
    given.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(given.directory, AUTHORITY, new_authority(now, given.days))


def _server(given: argparse.Namespace, now: datetime.datetime) -> None:
    issued = server_certificate(_signer(given), given.name, given.host, now, given.days)
    _write(given.directory, given.name, issued)


def _client(given: argparse.Namespace, now: datetime.datetime) -> None:
    issued = client_certificate(
        _signer(given), given.name, now, given.days, given.organizational_unit
    )
    _write(given.directory, given.name, issued)


def _signer(given: argparse.Namespace) -> Issued:
    """Return the folder's authority. Raises OSError, ValueError for a name that cannot be one of a file."""
    if given.name == AUTHORITY or "/" in given.name or given.name.startswith("."):
        raise ValueError(f"{given.name!r} cannot be the name of a file here")
    certificate, key = (given.directory / f"{AUTHORITY}.{kind}.pem" for kind in ("cert", "key"))
    return Issued(certificate.read_bytes(), key.read_bytes())


def _write(directory: Path, name: str, issued: Issued) -> None:
    write_private(directory / f"{name}.key.pem", issued.key)
    write_private(directory / f"{name}.cert.pem", issued.certificate)
