"""Certificates of settings are files for the libraries, and an error names the setting that is wrong."""

import os
import ssl
from pathlib import Path

import pytest

from engine.functions.connectors.catalogue import CATALOGUE
from engine.functions.connectors.spi import ConnectorError
from engine.functions.connectors.tls_settings import PemFiles, in_lines
from tests.support.net.certificates import Authority

SHOWN = {"key", "keys", "keyColumns", "keyField", "keyHeader"}
"""Settings that have to do with keys of messages and tables, which are no secrets."""


def test_pem_is_a_file_in_memory_until_the_end(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("client")
    before = set(os.listdir("/proc/self/fd"))
    settings = {
        "trustCerts": Path(authority.cert).read_text(),
        "clientCert": issued.cert,
        "clientKey": Path(issued.key).read_text(),
    }
    with PemFiles(settings) as files:
        assert files.paths["clientCert"] == issued.cert
        assert Path(files.paths["clientKey"]).read_text() == settings["clientKey"]
        assert os.stat(files.paths["clientKey"]).st_mode & 0o777 == 0o600
        context = files.client_context()
        assert context.get_ca_certs()
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
    assert set(os.listdir("/proc/self/fd")) == before


def test_line_feeds_that_a_form_took_are_made_again(tmp_path: Path) -> None:
    pem = Path(Authority(tmp_path).cert).read_text()
    for flat in (pem.replace("\n", " "), pem.replace("\n", "\\n"), pem.replace("\n", "\r\n")):
        assert in_lines(flat) == pem
    assert in_lines(pem + pem.replace("\n", " ")) == pem + pem
    assert in_lines("no PEM") == "no PEM"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"trustCerts": "/nowhere/ca.pem"}, "configs.trustCerts /nowhere/ca.pem"),
        ({"trustCerts": "-----BEGIN CERTIFICATE----- x"}, "configs.trustCerts"),
        ({"clientCert": "/nowhere/cert.pem"}, "configs.clientKey: clientCert needs it"),
        ({"clientKey": "secret-text"}, "configs.clientCert: clientKey needs it"),
    ],
)
def test_an_unusable_certificate_is_named(settings: dict[str, str], text: str) -> None:
    with PemFiles(settings) as files, pytest.raises(ConnectorError) as caught:
        files.client_context()
    assert text in str(caught.value)
    assert "secret-text" not in str(caught.value)
    assert "/proc/self" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"certificateKey": "-----BEGIN"}, "configs.certificate: certificateKey needs it"),
        ({"certificate": "-----BEGIN"}, "configs.certificateKey: certificate needs it"),
        ({"clientTrustCerts": "/x"}, "configs.certificate: clientTrustCerts needs it"),
        ({"certificate": "-----", "certificateKey": "-----"}, "configs.certificate"),
    ],
)
def test_a_missing_part_of_a_server_is_named(settings: dict[str, str], text: str) -> None:
    with PemFiles(settings) as files, pytest.raises(ConnectorError) as caught:
        files.server_context()
    assert text in str(caught.value)


def test_all_secrets_of_the_catalogue_are_hidden() -> None:
    secret_words = ("password", "secret", "token", "key", "credential")
    for known in CATALOGUE.values():
        for end in (known.source, known.sink):
            fields = {} if end is None else end.settings["properties"]
            for name, field in fields.items():
                if name not in SHOWN and any(word in name.lower() for word in secret_words):
                    assert field.get("writeOnly"), f"{known.name}: {name} is shown"
