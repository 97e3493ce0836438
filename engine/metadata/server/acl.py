"""Access rules of ZooKeeper: the schemes world, auth, digest and ip."""

import base64
import hashlib
import ipaddress
import re
from collections.abc import Sequence

from engine.metadata.server.protocol import OPEN_ACL, Acl, AclEntry
from engine.metadata.server.session_table import AclIdentity


def allows(acl: Acl, permission: int, identities: Sequence[AclIdentity]) -> bool:
    """Return whether an entry of ``acl`` grants a bit of ``permission`` to one of the identities.

    An empty ACL grants everything.
    """
    if acl is OPEN_ACL or not acl:
        return True
    return any(
        entry.permissions & permission
        and (
            (entry.scheme == "world" and entry.id == "anyone")
            or any(_matches(entry, identity) for identity in identities)
        )
        for entry in acl
    )


def expanded(acl: Acl, identities: Sequence[AclIdentity]) -> Acl | None:
    """Return the ACL that a node gets, or None when ``acl`` is invalid.

    Duplicates are left out, and the scheme auth becomes the client's identities of scheme digest.
    """
    if acl is OPEN_ACL or acl == OPEN_ACL:
        return OPEN_ACL
    entries: list[AclEntry] = []
    for entry in dict.fromkeys(acl):
        if entry.scheme == "auth":
            own = [i for i in identities if i.scheme == "digest"]
            if not own:
                return None
            entries += [AclEntry(entry.permissions, *identity) for identity in own]
        elif _is_valid(entry):
            entries.append(entry)
        else:
            return None
    return tuple(entries) or None


def redacted(acl: Acl) -> Acl:
    """Return the ACL without the digests of passwords, for clients without the right ADMIN."""
    return tuple(
        entry._replace(id=re.sub(":.*", ":x", entry.id)) if entry.scheme == "digest" else entry
        for entry in acl
    )


def authenticated(
    scheme: str, auth: bytes, identities: Sequence[AclIdentity]
) -> AclIdentity | None:
    """Return the identity that AUTH adds, or None when it fails (the server then closes the connection).

    ``auth`` of the scheme digest is ``user:password``.
    """
    if scheme == "digest":
        text = auth.decode(errors="replace")
        digest = base64.b64encode(hashlib.sha1(text.encode(), usedforsecurity=False).digest())
        return AclIdentity("digest", f"{text.partition(':')[0]}:{digest.decode()}")
    if scheme == "ip":
        return next((i for i in identities if i.scheme == "ip"), None)
    return None


def user_of(identity: AclIdentity) -> str:
    """Return the part of an identity that WHO_AM_I answers: without a password's digest."""
    return identity.id.partition(":")[0] if identity.scheme == "digest" else identity.id


def _matches(entry: AclEntry, identity: AclIdentity) -> bool:
    if entry.scheme != identity.scheme:
        return False
    if entry.scheme == "ip":
        return _address_matches(entry.id, identity.id)
    return entry.id == identity.id


def _is_valid(entry: AclEntry) -> bool:
    if entry.scheme == "world":
        return entry.id == "anyone"
    if entry.scheme == "digest":
        return len(entry.id.rstrip(":").split(":")) == 2
    return entry.scheme == "ip" and _network(entry.id) is not None


def _address_matches(network: str, address: str) -> bool:
    expected = _network(network)
    try:
        actual = ipaddress.ip_address(address)
    except ValueError:
        return False
    return expected is not None and actual.version == expected.version and actual in expected


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return an address, or a network as ``address/bits`` whose address may have bits of the host, or None."""
    address, slash, bits = text.partition("/")
    if slash and not re.fullmatch(r"\+?\d+", bits, re.ASCII):
        return None  # ip_network would also take a mask
    try:
        return ipaddress.ip_network(f"{address}/{int(bits)}" if slash else address, strict=False)
    except ValueError:
        return None
