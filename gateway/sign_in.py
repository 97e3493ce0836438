"""Settings of sign-in at the console: sessions, failures, and providers of OpenID Connect by name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from engine.base.addresses import is_loopback
from engine.base.disk.secret_files import check_secret
from engine.base.settings import (
    PRIVATE,
    Program,
    SettingsError,
    count,
    flag,
    internal,
    secret,
    text,
)


class AccessLevel(StrEnum):
    """A part of what a role may do, with its name in sessions and tokens, from everything down."""

    FULL = "full"
    """All that the judge allows."""
    OPERATE = "operate"
    """Calls of the level read, and the daily operations: calls whose view states ``for_operators``."""
    READ = "read"
    """Calls that change nothing."""

    def includes(self, needed: "AccessLevel") -> bool:
        """Return whether a caller at this level may make a call that needs ``needed``."""
        return LEVELS.index(self) <= LEVELS.index(needed)


LEVELS = tuple(AccessLevel)
ANY_GROUP = "*"
FILE_SCHEME = "file://"
_NAME = re.compile(r"[a-z][a-z0-9]{0,30}")


class GroupRule(NamedTuple):
    """The role and level of the members of a group."""

    group: str
    role: str
    level: str


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider of OpenID Connect for sign-in; NAME is one of `sign_in_providers`."""

    title: str = text("", "its name on the sign-in page; empty: NAME")
    issuer: str = text("", "its issuer, https://…, whose discovery document is read (required)")
    client_id: str = text("", "the gateway's client id there (required)")
    client_secret: str = secret(
        "the secret of that client, or file:///path; empty: a public client, by PKCE alone"
    )
    scopes: str = text("openid profile email", "scopes that are requested, openid among them")
    name_claim: str = text(
        "preferred_username", "claim with the person's name; without it email, else sub"
    )
    groups_claim: str = text(
        "groups",
        "claim of the ID token, else of the user info, with the person's groups; dots lead into objects",
    )
    groups_roles: str = text(
        "",
        "group=role:level with semicolons between; level is full, operate or read, group * is every person. The first "
        "rule of a person's groups acts, others can be switched to; without one the person is refused (required)",
    )
    trust_certs_file_path: str = text(
        "", "PEM file of the CAs that sign its certificate; empty: those of the operating system"
    )
    name: str = internal("")

    def __post_init__(self) -> None:
        """Check the values of a provider that has any. Raises SettingsError."""
        if not self.issuer:
            return
        parts = urlsplit(self.issuer)
        secure = parts.scheme == "https" or (
            parts.scheme == "http" and is_loopback(parts.hostname or "")
        )
        if not secure or not parts.hostname or parts.query or parts.fragment:
            raise SettingsError("issuer must be https://host…, or http:// on this machine")
        if "openid" not in self.scopes.split():
            raise SettingsError("scopes must contain openid")
        _ = self.rules

    @property
    def rules(self) -> tuple[GroupRule, ...]:
        """The rules of ``groups_roles`` in order. Raises SettingsError."""
        rules = []
        for entry in filter(None, (part.strip() for part in self.groups_roles.split(";"))):
            # A group may be the name of a directory's entry, which has such signs itself.
            group, _, value = entry.rpartition("=")
            role, _, level = value.rpartition(":")
            if not group or not role or level not in LEVELS:
                rule = (
                    f"must be group=role:level with semicolons between, level {', '.join(LEVELS)}"
                )
                raise SettingsError(f"groups_roles {rule}; not {entry!r}")
            rules.append(GroupRule(group.strip(), role.strip(), level))
        return tuple(rules)

    def secret(self) -> str:
        """Return the client's secret. Raises OSError when its file cannot be read."""
        if not self.client_secret.startswith(FILE_SCHEME):
            return self.client_secret
        path = Path(self.client_secret.removeprefix(FILE_SCHEME))
        check_secret(path)
        return path.read_text().strip()


@dataclass(frozen=True, slots=True)
class _OneProvider:
    provider: ProviderSettings = field(metadata=PRIVATE)


def provider_program(name: str) -> "Program[_OneProvider]":
    """Return the program whose table and variables have the settings of a provider."""
    return Program(f"provider_{name}", _OneProvider)


@dataclass(frozen=True, slots=True)
class SignInSettings:
    """Sign-in of people at the console, where authentication is on."""

    password_sign_in: bool = flag(True, "people sign in by a password of the gateway, too")
    sign_in_providers: str = text(
        "",
        "names of OpenID Connect providers by which people sign in, with commas between; the settings of each are in "
        "its table [provider_NAME]; empty: none",
    )
    session_hours: int = count(
        12, "hours after which a person must sign in again", low=1, high=8_760
    )
    sign_in_failures_max: int = count(
        5, "failed sign-ins of a name from an address before further ones are refused", low=1
    )
    sign_in_pause_minutes: int = count(
        15, "minutes for which they are refused then", low=1, high=10_080
    )
    providers: tuple[ProviderSettings, ...] = internal(())

    def __post_init__(self) -> None:
        """Check the values. Raises SettingsError."""
        names = self.names
        if len(set(names)) < len(names) or not all(map(_NAME.fullmatch, names)):
            rule = "must be names of small letters and digits with commas between, each once"
            raise SettingsError(f"sign_in_providers {rule}; not {self.sign_in_providers!r}")

    @property
    def names(self) -> list[str]:
        return [name.strip() for name in self.sign_in_providers.split(",") if name.strip()]

    def load_providers(
        self, environ: Mapping[str, str], directory: Path
    ) -> tuple[ProviderSettings, ...]:
        """Return the named providers. Raises SettingsError."""
        loaded = []
        for name in self.names:
            provider = provider_program(name).load(environ, directory).provider
            for required in ("issuer", "client_id", "groups_roles"):
                if not getattr(provider, required):
                    raise SettingsError(
                        f"setting {required} of [provider_{name}] must be set: sign_in_providers names it"
                    )
            loaded.append(replace(provider, name=name, title=provider.title or name))
        return tuple(loaded)
