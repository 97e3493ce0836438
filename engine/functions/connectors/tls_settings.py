"""TLS of connectors: the settings of certificates and keys, and the files and contexts that are made of them.

Each setting has PEM itself, which a secrets provider can give, or the path of a file of the worker's machine.
"""

import os
import re
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from engine.functions.connectors.connector_settings import Schema, flag, text
from engine.functions.connectors.spi import ConnectorError
from engine.net.tls import ClientFiles, ServerFiles, TlsFileError

TRUST, CERT, KEY, VERIFY_HOST = "trustCerts", "clientCert", "clientKey", "verifyHost"
SERVER_CERT, SERVER_KEY, CLIENT_TRUST = "certificate", "certificateKey", "clientTrustCerts"
PEM_CHARS_MAX = 1 << 16
RELOAD_S = 60.0
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_OR_A_FILE = "as PEM, or the path of a file"


def trust_field() -> dict[str, Schema]:
    """Return the setting of the authorities that a server's certificate must come from."""
    return {
        TRUST: text(
            "Trusted certificates",
            f"Authorities that the server's certificate must come from, {_OR_A_FILE}; empty: the machine's",
            longest=PEM_CHARS_MAX,
        )
    }


def client_tls_fields() -> dict[str, Schema]:
    """Return the settings of a client's TLS."""
    return {
        **trust_field(),
        CERT: text(
            "Client certificate",
            f"Certificate by which the server knows this client, {_OR_A_FILE}",
            longest=PEM_CHARS_MAX,
        ),
        KEY: text(
            "Client key",
            f"Key of the client certificate, unencrypted, {_OR_A_FILE}",
            secret=True,
            longest=PEM_CHARS_MAX,
        ),
    }


def verify_host_field() -> dict[str, Schema]:
    """Return the setting by which a certificate of another name is accepted."""
    return {
        VERIFY_HOST: flag(
            "Verify host", "Whether the server's certificate must have its name", True
        )
    }


def server_tls_fields() -> dict[str, Schema]:
    """Return the settings of a server's TLS."""
    return {
        SERVER_CERT: text(
            "Certificate",
            f"Certificate of the server, {_OR_A_FILE}; empty: without TLS",
            longest=PEM_CHARS_MAX,
        ),
        SERVER_KEY: text(
            "Key",
            f"Key of the certificate, unencrypted, {_OR_A_FILE}",
            secret=True,
            longest=PEM_CHARS_MAX,
        ),
        CLIENT_TRUST: text(
            "Clients' authorities",
            f"Authorities that a client's certificate must come from, {_OR_A_FILE}; empty: clients need none",
            longest=PEM_CHARS_MAX,
        ),
    }


class PemFiles:
    """The certificates and keys of settings as files, for libraries that read nothing else. ``paths``: by setting.

    PEM of the settings themselves is kept in files that exist in memory alone, until ``close``.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.paths: dict[str, str] = {}
        self._descriptors: list[int] = []
        for name in (TRUST, CERT, KEY, SERVER_CERT, SERVER_KEY, CLIENT_TRUST):
            given = settings.get(name)
            if given:
                self.paths[name] = self._in_memory(name, given) if "-----" in given else given

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _in_memory(self, name: str, pem: str) -> str:
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        self._descriptors.append(descriptor)
        # A key that others may read is refused by PostgreSQL's library.
        os.fchmod(descriptor, 0o600)
        data = in_lines(pem).encode()
        while data:
            data = data[os.write(descriptor, data) :]
        return f"/proc/self/fd/{descriptor}"

    def client_context(self, *, verify_host: bool = True) -> ssl.SSLContext:
        """Return a client's context. Raises ConnectorError that names the setting."""
        self._check_pair(CERT, KEY)
        files = ClientFiles(
            self.paths.get(TRUST, ""),
            self.paths.get(CERT, ""),
            self.paths.get(KEY, ""),
            verify_hostname=verify_host,
        )
        try:
            return files.context()
        except TlsFileError as error:
            raise self._named(error) from error

    def server_context(self) -> ssl.SSLContext | None:
        """Return a server's context, None without a certificate; it uses files that were replaced. Raises
        ConnectorError that names the setting."""
        self._check_pair(SERVER_CERT, SERVER_KEY)
        if SERVER_CERT not in self.paths:
            if CLIENT_TRUST in self.paths:
                raise ConnectorError(f"configs.{SERVER_CERT}: {CLIENT_TRUST} needs it")
            return None
        authorities = self.paths.get(CLIENT_TRUST, "")
        files = ServerFiles(
            self.paths[SERVER_CERT],
            self.paths[SERVER_KEY],
            client_ca=authorities,
            client_cert_required=bool(authorities),
        )
        try:
            return files.reloaded(RELOAD_S)
        except TlsFileError as error:
            raise self._named(error) from error

    def _check_pair(self, cert: str, key: str) -> None:
        for given, missing in ((cert, key), (key, cert)):
            if given in self.paths and missing not in self.paths:
                raise ConnectorError(f"configs.{missing}: {given} needs it")

    def _named(self, error: TlsFileError) -> ConnectorError:
        """Return an error in which files of the memory have the names of their settings."""
        message = str(error)
        for name, path in self.paths.items():
            shown = "" if path.startswith("/proc/self/fd/") else f" {path}"
            message = message.replace(path, f"configs.{name}{shown}")
        return ConnectorError(message)

    def close(self) -> None:
        """Remove what is in memory. Safe to repeat."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def in_lines(pem: str) -> str:
    """Return PEM whose line feeds were lost, as in a form's field, in lines again."""
    blocks = [
        f"-----BEGIN {kind}-----\n{_folded(body)}\n-----END {kind}-----\n"
        for kind, body in _BLOCK.findall(pem.replace("\\n", "\n"))
    ]
    return "".join(blocks) or pem


def _folded(body: str) -> str:
    letters = "".join(body.split())
    return "\n".join(letters[at : at + 64] for at in range(0, len(letters), 64))
