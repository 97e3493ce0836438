"""Certificates of the authority for evaluation: whom they are for, and how long."""

import datetime

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from engine.auth.certificate_authority import (
    Issued,
    client_certificate,
    hosts_of,
    new_authority,
    server_certificate,
)

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


def loaded(issued: Issued) -> x509.Certificate:
    return x509.load_pem_x509_certificate(issued.certificate)


def test_a_server_has_its_hosts_and_an_end() -> None:
    authority = new_authority(NOW, 3650)
    made = loaded(server_certificate(authority, "server", ["localhost", "127.0.0.1"], NOW, 10))
    assert hosts_of(made) == {"localhost", "127.0.0.1"}
    assert made.not_valid_after_utc - NOW == datetime.timedelta(days=10)
    made.verify_directly_issued_by(loaded(authority))


def test_a_client_has_its_role_and_its_roles_at_bookies() -> None:
    made = loaded(client_certificate(new_authority(NOW, 3650), "app", NOW, 10, "0:broker,admin"))
    attributes = {item.oid: item.value for item in made.subject}
    assert attributes == {
        NameOID.COMMON_NAME: "app",
        NameOID.ORGANIZATIONAL_UNIT_NAME: "0:broker,admin",
    }
    assert hosts_of(made) == set()


def test_a_key_of_another_kind_does_not_sign() -> None:
    with pytest.raises(ValueError, match=r"."):
        client_certificate(Issued(new_authority(NOW, 1).certificate, b"no key"), "app", NOW, 1)
