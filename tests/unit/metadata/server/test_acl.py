"""Access rules: which entries are valid, what they grant, and who a client is."""

import pytest

from engine.metadata.server.acl import allows, authenticated, expanded, redacted
from engine.metadata.server.protocol import OPEN_ACL, AclEntry, Permission
from engine.metadata.server.session_table import AclIdentity

ADDRESS = AclIdentity("ip", "10.1.2.3")
USER = AclIdentity("digest", "user:hash")
OTHER = AclIdentity("digest", "other:hash")


def granted(entry: AclEntry, *identities: AclIdentity, permission: int = Permission.READ) -> bool:
    return allows((entry,), permission, identities)


def test_an_entry_grants_its_permissions_to_its_identity_only() -> None:
    entry = AclEntry(Permission.READ, "digest", "user:hash")
    assert granted(entry, ADDRESS, USER)
    assert not granted(entry, ADDRESS, OTHER)
    assert not granted(entry, AclIdentity("ip", "user:hash"))
    assert not granted(entry, USER, permission=Permission.WRITE)


def test_one_of_several_permissions_is_enough() -> None:
    entry = AclEntry(Permission.ADMIN, "world", "anyone")
    assert granted(entry, permission=Permission.READ | Permission.ADMIN)


def test_all_clients_may_do_everything_with_an_open_or_empty_acl() -> None:
    assert allows(OPEN_ACL, Permission.ADMIN, [])
    assert allows((), Permission.ADMIN, [])


@pytest.mark.parametrize(
    ("network", "address", "matches"),
    [
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.4", "10.1.2.3", False),
        ("10.1.9.9/16", "10.1.2.3", True),
        ("10.2.0.0/16", "10.1.2.3", False),
        ("0.0.0.0/0", "10.1.2.3", True),
        ("fe80::/10", "fe80::1", True),
        ("fe80::/10", "10.1.2.3", False),
        ("::/0", "10.1.2.3", False),
    ],
)
def test_an_address_matches_the_networks_that_it_is_in(
    network: str, address: str, matches: bool
) -> None:
    assert granted(AclEntry(31, "ip", network), AclIdentity("ip", address)) is matches


@pytest.mark.parametrize(
    ("scheme", "id_", "valid"),
    [
        ("world", "anyone", True),
        ("world", "somebody", False),
        ("digest", "user:hash", True),
        ("digest", ":hash", True),
        ("digest", "user:hash:", True),
        ("digest", "user:", False),
        ("digest", "user", False),
        ("digest", "user:hash:more", False),
        ("ip", "10.1.2.3", True),
        ("ip", "10.1.2.3/0", True),
        ("ip", "10.1.2.3/32", True),
        ("ip", "10.1.2.3/33", False),
        ("ip", "10.1.2.3/-1", False),
        ("ip", "10.1.2.3/", False),
        ("ip", "10.1.2.3/255.0.0.0", False),
        ("ip", "10.1.2", False),
        ("ip", "::1", True),
        ("ip", "::1/129", False),
        ("x509", "CN=a", False),
        ("super", "", False),
    ],
)
def test_only_entries_of_known_schemes_and_forms_are_valid(
    scheme: str, id_: str, valid: bool
) -> None:
    acl = (AclEntry(31, scheme, id_),)
    assert expanded(acl, [ADDRESS]) == (acl if valid else None)


def test_an_acl_gets_the_authenticated_identities_instead_of_the_scheme_auth() -> None:
    acl = (AclEntry(1, "world", "anyone"), AclEntry(31, "auth", "ignored"))
    identities = [ADDRESS, USER, OTHER]
    assert expanded(acl, identities) == (acl[0], AclEntry(31, *USER), AclEntry(31, *OTHER))
    assert expanded(acl, [ADDRESS]) is None


def test_an_acl_without_entries_is_invalid_and_duplicates_are_left_out() -> None:
    assert expanded((), [USER]) is None
    assert expanded(OPEN_ACL * 2, [USER]) == OPEN_ACL


def test_a_digest_is_the_base64_sha1_of_user_and_password() -> None:
    # The example of ZooKeeper's documentation of DigestAuthenticationProvider.
    assert authenticated("digest", b"super:superpw", []) == AclIdentity(
        "digest", "super:g9oN2HttPfn8MMWJZ2r45Np/LIA="
    )
    assert authenticated("ip", b"", [ADDRESS]) == ADDRESS
    assert authenticated("world", b"anyone", [ADDRESS]) is None


def test_a_redacted_acl_keeps_the_names_of_users() -> None:
    acl = (AclEntry(31, *USER), AclEntry(1, *ADDRESS))
    assert redacted(acl) == (AclEntry(31, "digest", "user:x"), acl[1])
