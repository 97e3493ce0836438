"""TLS handshakes with certificates, versions and ciphers that must not pass, in memory."""

import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from engine.auth.authenticators.certificate_provider import CertificateProvider
from engine.auth.authenticators.provider import Presented
from engine.net.tls import ClientFiles, ServerFiles
from tests.support.net.certificates import Authority, Files

HOST = "broker.example"
HOUR = timedelta(hours=1)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


class Ends:
    """A connection whose bytes pass in memory, with both its ends."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, host: str = HOST) -> None:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server.wrap_bio(to_server, to_client, server_side=True)
        self.client = client.wrap_bio(to_client, to_server, server_hostname=host)

    def handshake(self) -> None:
        """Complete the handshake at both ends. Raises the SSLError of the end that refuses."""
        waiting = [self.client, self.server]
        for _ in range(10):
            for end in list(waiting):
                try:
                    end.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                waiting.remove(end)
            if not waiting:
                return
        raise AssertionError("the handshake does not end")


def server_of(authority: Authority, *, required: bool = True) -> ssl.SSLContext:
    files = authority.issue("broker", HOST)
    return ServerFiles(*files, client_ca=authority.cert, client_cert_required=required).context()


def client_of(authority: Authority, shown: Files | None = None) -> ssl.SSLContext:
    given = shown._asdict() if shown is not None else {}
    return ClientFiles(authority.cert, **given).context()


def test_a_good_certificate_is_accepted(authority: Authority) -> None:
    ends = Ends(server_of(authority), client_of(authority, authority.issue("app")))
    ends.handshake()
    presented = ends.server.getpeercert()
    assert CertificateProvider(lambda: 0.0).authenticate(Presented(b"", presented)).role == "app"


BAD: dict[str, Callable[[Authority, Path], Files]] = {
    "another authority's": lambda authority, tmp: Authority(tmp, "stranger").issue("app"),
    "an authority's of the same name": lambda authority, tmp: Authority(tmp / "other").issue("app"),
    "ended": lambda authority, tmp: authority.issue("app", ends=-HOUR),
    "not valid yet": lambda authority, tmp: authority.issue("app", begins=HOUR),
    "for servers alone": lambda authority, tmp: authority.issue(
        "app", usage=ExtendedKeyUsageOID.SERVER_AUTH
    ),
    "for signing code": lambda authority, tmp: authority.issue(
        "app", usage=ExtendedKeyUsageOID.CODE_SIGNING
    ),
}


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_certificate_of_a_client_ends_the_handshake(
    name: str, required: bool, authority: Authority, tmp_path: Path
) -> None:
    """Refuse it also where clients may present none."""
    (tmp_path / "other").mkdir()
    shown = BAD[name](authority, tmp_path)
    with pytest.raises(ssl.SSLError, match="certificate"):
        Ends(server_of(authority, required=required), client_of(authority, shown)).handshake()


def test_a_client_without_a_certificate_is_refused_where_one_is_required(
    authority: Authority,
) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)peer did not return a certificate"):
        Ends(server_of(authority), client_of(authority)).handshake()


def test_the_alternative_names_of_a_certificate_give_no_role(authority: Authority) -> None:
    """Take the role from the common name alone: names of hosts in it are no roles."""
    ends = Ends(server_of(authority), client_of(authority, authority.issue("app", "superuser")))
    ends.handshake()
    presented = ends.server.getpeercert()
    assert presented is not None
    assert presented["subjectAltName"] == (("DNS", "superuser"),)
    assert CertificateProvider(lambda: 0.0).authenticate(Presented(b"", presented)).role == "app"


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        (HOST, ("other.example",)),  # the common name does not count for hosts
        ("x", (f"x.{HOST}",)),
        ("x", (f"{HOST}.attacker.example",)),
        ("x", ("*.example.com",)),
        ("x", ("127.0.0.1",)),
    ],
)
def test_a_server_for_another_host_is_refused(
    name: str, hosts: tuple[str, ...], authority: Authority
) -> None:
    server = ServerFiles(*authority.issue(name, *hosts)).context()
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        Ends(server, client_of(authority)).handshake()


@pytest.mark.parametrize(
    ("begins", "ends", "usage"),
    [
        (-2 * HOUR, -HOUR, None),
        (HOUR, 2 * HOUR, None),
        (-HOUR, HOUR, ExtendedKeyUsageOID.CLIENT_AUTH),
    ],
    ids=["ended", "not valid yet", "of a client"],
)
def test_a_server_with_a_bad_certificate_is_refused(
    begins: timedelta, ends: timedelta, usage: object, authority: Authority
) -> None:
    files = authority.issue("broker", HOST, begins=begins, ends=ends, usage=usage)  # type: ignore[arg-type]
    with pytest.raises(ssl.SSLCertVerificationError):
        Ends(ServerFiles(*files).context(), client_of(authority)).handshake()


def open_client() -> ssl.SSLContext:
    """Return the context of a client that trusts every server and uses any cipher."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_are_refused_in_the_handshake(
    version: ssl.TLSVersion, authority: Authority
) -> None:
    client = open_client()
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.minimum_version = client.maximum_version = version
    with pytest.raises(ssl.SSLError):
        Ends(server_of(authority, required=False), client).handshake()


@pytest.mark.parametrize("ciphers", ["aNULL", "eNULL", "aNULL:eNULL", "PSK", "CAMELLIA", "SHA1"])
def test_weak_ciphers_are_refused_in_the_handshake(ciphers: str, authority: Authority) -> None:
    client = open_client()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    server = server_of(authority, required=False)
    with pytest.raises(ssl.SSLError):
        Ends(server, client).handshake()


def test_renegotiation_and_compression_are_off(authority: Authority) -> None:
    files = authority.issue("broker", HOST)
    server = ServerFiles(*files)
    for context in (server.context(), server.reloaded(300)):
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.options & ssl.OP_NO_COMPRESSION


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x10", bytes(64)])
def test_bytes_in_clear_end_the_handshake(first: bytes, authority: Authority) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_of(authority, required=False).wrap_bio(to_server, to_client, server_side=True)
    to_server.write(first)
    with pytest.raises(ssl.SSLError) as refused:
        server.do_handshake()
    if isinstance(refused.value, ssl.SSLWantReadError):  # too few bytes to be refused yet
        assert len(first) < 5
        to_server.write(bytes(16))
        with pytest.raises(ssl.SSLError, match=r"(?i)wrong version|http|record|packet"):
            server.do_handshake()
