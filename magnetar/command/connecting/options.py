"""The options by which a command finds its cluster: command line, ``MAGNETAR_*`` variables, a profile, defaults.

A profile is a table ``[profiles.NAME]`` of ``~/.config/magnetar/config.toml`` with the options' names as keys.
"""

import functools
import os
import shlex
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from magnetar.command.exits import CommandFailed, Exit

F = TypeVar("F", bound=Callable[..., Any])

HOST, PORT, HTTP_PORT = "127.0.0.1", 6650, 8080
"""Address of an instance that ``magnetar dev`` starts."""
CLEAR, ENCRYPTED = "pulsar://", "pulsar+ssl://"
_SCHEME_END = "://"
_OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """A cluster: addresses and credentials. ``origins`` has where each value came from, for messages."""

    url: str
    admin_url: str
    token: str = field(default="", repr=False)
    token_file: str = ""
    tls_trust_certs: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_any_host: bool = False
    origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def urls(self) -> list[str]:
        """The service URL of each host that ``url`` names."""
        scheme = ENCRYPTED if self.url.startswith(ENCRYPTED) else CLEAR
        hosts = self.url.removeprefix(scheme).rstrip("/").split(",")
        port = 6651 if scheme == ENCRYPTED else PORT
        return [f"{scheme}{host if _has_port(host) else f'{host}:{port}'}" for host in hosts]

    @property
    def is_local(self) -> bool:
        """True when the cluster is this machine's."""
        hosts = [_behind_scheme(url).rpartition(":")[0] for url in self.urls]
        return all(host in ("127.0.0.1", "localhost", "[::1]") for host in hosts)


_OPTIONS: tuple[Callable[[F], F], ...] = (
    click.option("--url", metavar="URL", help="pulsar://HOST:6650 or pulsar+ssl://HOST:6651."),
    click.option("--admin-url", metavar="URL", help="URL of the REST interface, http://HOST:8080."),
    click.option("--token", metavar="TOKEN", help="Token; others see it in the list of processes."),
    click.option("--token-file", metavar="FILE", help="File with the token."),
    click.option("--tls-trust-certs", metavar="FILE", help="PEM file of the CAs to trust."),
    click.option("--tls-cert", metavar="FILE", help="PEM file of the client's certificate."),
    click.option("--tls-key", metavar="FILE", help="PEM file of its key."),
    click.option("--tls-any-host", is_flag=True, help="Accept a certificate for another host."),
    click.option(
        "--port-offset", type=click.IntRange(0, 57345), help="Offset of a local instance's ports."
    ),
    click.option("--profile", metavar="NAME", help="Profile of ~/.config/magnetar/config.toml."),
    click.option(
        "--cluster", metavar="NAME", help="Another cluster that the one at these addresses knows."
    ),
)
NAMES = (
    "url",
    "admin_url",
    "token",
    "token_file",
    "tls_trust_certs",
    "tls_cert",
    "tls_key",
    "tls_any_host",
    "port_offset",
    "profile",
)
_EXCLUDE = {"token": "token_file", "token_file": "token"}
"""Options of which a closer origin replaces the other's farther one."""


def connection_options(function: F) -> F:
    """Add the options, which the command receives as ``connection``."""

    @functools.wraps(function)
    def call(*arguments: Any, **values: Any) -> Any:
        given = {name: values.pop(name) for name in NAMES}
        cluster = values.pop("cluster")
        context = click.get_current_context()
        explicit = {
            name: value
            for name, value in given.items()
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        }
        connection = resolve(explicit, os.environ, config_path(os.environ))
        if cluster:
            # It calls the REST interface, by a connection as it is made here.
            known = import_module("magnetar.command.connecting.known_clusters")
            connection = known.in_cluster(connection, cluster)
        return function(*arguments, connection=connection, **values)

    wrapped: Any = call
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    result: F = wrapped
    return result


def config_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the file of profiles."""
    home = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "magnetar" / "config.toml"


def resolve(given: Mapping[str, Any], environ: Mapping[str, str], config: Path) -> ClusterAddress:
    """Return the connection. ``given`` are the options of the command line. Raises CommandFailed."""
    variables = {
        name: environ[variable]
        for name in NAMES
        if environ.get(variable := f"MAGNETAR_{name.upper()}")
    }
    name = given.get("profile") or variables.get("profile") or ""
    levels = [
        ("the command line", given),
        ("the environment", variables),
        (f"profile {name!r} of {config}" if name else str(config), _profile(config, name)),
    ]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, level in levels:
        closed = {_EXCLUDE[key] for key in values if key in _EXCLUDE}
        for key, value in level.items():
            if key not in values and key not in closed and value not in (None, ""):
                values[key], origins[key] = value, origin
        if values.get("token") and values.get("token_file"):
            raise CommandFailed(
                f"both a token and a token file are given by {origin}", Exit.USAGE, "Give one"
            )
    return _checked(values, origins)


def _checked(values: dict[str, Any], origins: dict[str, str]) -> ClusterAddress:
    offset = _offset(values.pop("port_offset", 0), origins)
    values.pop("profile", None)
    any_host = _flag(values.pop("tls_any_host", False), origins)
    for name, value in values.items():
        if not isinstance(value, str):
            raise _wrong(name, origins, "must be a text")
    url = values.setdefault("url", f"{CLEAR}{HOST}:{PORT + offset}")
    if not url.startswith((CLEAR, ENCRYPTED)) or not _are_hosts(_behind_scheme(url)):
        raise _wrong("url", origins, f"must be such as {CLEAR}HOST:6650, not {url!r}")
    if "admin_url" not in values:
        values["admin_url"] = _admin_url(url, offset)
    admin = values["admin_url"] = values["admin_url"].rstrip("/")
    if not admin.startswith(("http://", "https://")) or not _behind_scheme(admin):
        raise _wrong("admin_url", origins, f"must be such as http://HOST:8080, not {admin!r}")
    if bool(values.get("tls_cert")) != bool(values.get("tls_key")):
        raise CommandFailed(
            "a client's certificate and its key go together", Exit.USAGE, "Give both or none"
        )
    for name in ("token_file", "tls_trust_certs", "tls_cert", "tls_key"):
        if name in values:
            values[name] = os.path.expanduser(values[name])
    token = values.get("token", "")
    if token and (not token.isascii() or not token.isprintable()):
        raise _wrong("token", origins, "must be a token of plain characters")
    return ClusterAddress(**values, tls_any_host=any_host, origins=origins)


def _admin_url(url: str, offset: int) -> str:
    """Return the address of the REST interface beside the brokers at ``url``, by the usual ports."""
    host = _behind_scheme(url).split(",")[0].rstrip("/")
    if _has_port(host):
        host = host.rpartition(":")[0]
    if url.startswith(ENCRYPTED):
        return f"https://{host}:{8443 + offset}"
    return f"http://{host}:{HTTP_PORT + offset}"


def _behind_scheme(url: str) -> str:
    return url[url.index(_SCHEME_END) + len(_SCHEME_END) :]


def _are_hosts(text: str) -> bool:
    hosts = text.rstrip("/").split(",")
    return all(host and not set(host) & set(" /@?#\"'\\") and host.isprintable() for host in hosts)


def _has_port(host: str) -> bool:
    _, colon, port = host.rpartition(":")
    return bool(colon) and port.isascii() and port.isdigit() and int(port) <= 65535


def _offset(value: Any, origins: Mapping[str, str]) -> int:
    try:
        offset = int(value)
    except (TypeError, ValueError):
        offset = -1
    if isinstance(value, bool) or not 0 <= offset <= 57345:
        raise _wrong("port_offset", origins, f"must be a number from 0 to 57345, not {value!r}")
    return offset


def _flag(value: Any, origins: Mapping[str, str]) -> bool:
    word = str(value).lower()
    if word not in ("true", "false", "1", "0"):
        raise _wrong("tls_any_host", origins, f"must be true or false, not {value!r}")
    return word in ("true", "1")


def _wrong(name: str, origins: Mapping[str, str], rule: str) -> CommandFailed:
    option = f"--{name.replace('_', '-')}"
    origin = origins.get(name, "the command line")
    return CommandFailed(f"{option} {rule} (from {origin})", Exit.USAGE)


def _profile(path: Path, name: str) -> Mapping[str, Any]:
    """Return the values of a profile: the one of this name, else the one that ``default`` names, else none.

    Raises CommandFailed, also for a file that others may change, and for one with a token that others may read.
    """
    try:
        text = path.read_text(encoding="utf-8")
        mode, owner = path.stat().st_mode, path.stat().st_uid
        document = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        if name:
            raise CommandFailed(
                f"there is no profile {name!r}", Exit.USAGE, f"Write {path}"
            ) from None
        return {}
    except OSError as error:
        raise CommandFailed(f"cannot read {path}: {error.strerror}", Exit.USAGE) from None
    except ValueError as error:
        raise CommandFailed(f"cannot read {path}: {error}", Exit.USAGE) from None
    if mode & _OTHER_USERS or owner not in (os.geteuid(), 0):
        raise CommandFailed(
            f"{path} is open to other users (mode {stat.S_IMODE(mode):04o})",
            Exit.USAGE,
            f"Correct it with: chmod 600 {shlex.quote(str(path))}",
        )
    profiles = document.get("profiles", {})
    name = name or document.get("default", "")
    if not name:
        return {}
    profile = profiles.get(name) if isinstance(profiles, dict) else None
    if not isinstance(profile, dict):
        known = ", ".join(sorted(profiles)) if isinstance(profiles, dict) else ""
        raise CommandFailed(
            f"there is no profile {name!r} in {path}", Exit.USAGE, f"It has: {known or 'none'}"
        )
    values = {str(key).replace("-", "_"): value for key, value in profile.items()}
    for key in values.keys() - set(NAMES) | values.keys() & {"profile"}:
        raise CommandFailed(
            f"{path}: {key} in profile {name!r} is not known",
            Exit.USAGE,
            f"Known are: {', '.join(NAMES[:-1])}",
        )
    return values
