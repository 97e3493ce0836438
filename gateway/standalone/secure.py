"""The files of an instance that runs with ``--secure``, in the folder ``secure`` of its data.

They are an authority, certificates, the key of tokens, and tokens.

A start makes what is missing, and renews certificates that end soon or are for other hosts. The folder is for the
instance's user alone; a start mends modes that were changed.
"""

import datetime
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_bytes

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from engine.auth.authenticators import jws
from engine.auth.authenticators.signing_keys import SecretKey
from engine.auth.certificate_authority import (
    Issued,
    client_certificate,
    hosts_of,
    new_authority,
    server_certificate,
)
from engine.auth.credentials import AuthenticationFailed
from engine.auth.private_files import replace_private
from engine.auth.settings import names
from engine.base.disk.secret_files import RESTRICTED, restrict
from engine.net.tls import ROLES_FACTORY, TLS_FACTORY

FOLDER = "secure"
SUPERUSER, BROKER, GATEWAY, PROXY, FUNCTIONS_WORKER = (
    *("superuser", "magnetar-broker"),
    *("magnetar-gateway", "magnetar-proxy", "magnetar-functions"),
)
"""Roles that may do everything; the gateway is a proxy, too. The names of the last four are not those of
applications."""
PROVIDERS = ("token", "tls")
"""Providers of the credentials by which the instance's own parts log in."""
BOOKIE_CLIENT = "0:broker"
"""Organizational unit of the certificate by which brokers, and analyses, connect to bookies: the role ``broker``."""
AUTHORITY_DAYS, LEAF_DAYS, RENEW_DAYS = 3650, 365, 30
LOCAL = ("localhost", "127.0.0.1", "::1")
_KEY_BYTES = 32
_PASSWORD = re.compile(r"[0-9a-f]{64}")


class SecureError(Exception):
    """The files cannot be made or used. The text is one line, which names the file."""


class SecureFiles:
    """The paths of the files, and their contents as a start of the instance makes them."""

    def __init__(self, data_dir: Path, more_providers: str = "") -> None:
        """``more_providers`` are accepted besides tokens and certificates, as in ``authentication_providers``."""
        self._providers = dict.fromkeys([*PROVIDERS, *names(more_providers)])
        self.folder = data_dir / FOLDER
        self.authority = self.folder / "ca.pem"
        self.token_key = self.folder / "token-secret.key"
        self.redis_password = self.folder / "redis.password"
        self.redis_config = self.folder / "redis.conf"
        self.spark_token = self.folder / "spark.token"
        self.spark_properties = self.folder / "spark.conf"

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def token(self, role: str) -> Path:
        return self.folder / f"{role}.token"

    @property
    def header(self) -> Path:
        """The superuser's token as a header of HTTP, for curl: on a command line others would see it."""
        return self.folder / f"{SUPERUSER}.header"

    def prepare(self, now: datetime.datetime, report: Callable[[str], None]) -> None:
        """Make, renew and check the files. Raises SecureError."""
        try:
            self._make_private(report)
            authority = self._usable_authority(now, report)
            hosts = sorted({*LOCAL, socket.gethostname()})
            self._keep(
                "server",
                now,
                report,
                lambda: server_certificate(authority, "server", hosts, now, LEAF_DAYS),
                hosts,
            )
            for role, unit in ((SUPERUSER, ""), (BROKER, BOOKIE_CLIENT)):
                self._keep(
                    role,
                    now,
                    report,
                    lambda role=role, unit=unit: client_certificate(  # type: ignore[misc]
                        authority, role, now, LEAF_DAYS, unit
                    ),
                )
            self._keep_tokens(now.timestamp())
            self._keep_passwords()
        except OSError as error:
            raise SecureError(f"{error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise SecureError(f"{self.folder}: {error}") from error

    def _make_private(self, report: Callable[[str], None]) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (self.folder, *self.folder.iterdir()):
            if restrict(path):
                report(RESTRICTED % path)

    def _usable_authority(self, now: datetime.datetime, report: Callable[[str], None]) -> Issued:
        """Return the authority; a new one where there is none, or where certificates of a year would outlive it."""
        certificate, key = self.authority, self.folder / "ca.key"
        if certificate.exists() and key.exists():
            issued = Issued(certificate.read_bytes(), key.read_bytes())
            end = _loaded(certificate).not_valid_after_utc
            if end - now > datetime.timedelta(days=LEAF_DAYS + RENEW_DAYS):
                return issued
            report(f"{certificate} ends at {end:%Y-%m-%d}: clients need the new one")
        issued = new_authority(now, AUTHORITY_DAYS)
        replace_private(key, issued.key)
        replace_private(certificate, issued.certificate)
        return issued

    def _keep(
        self,
        name: str,
        now: datetime.datetime,
        report: Callable[[str], None],
        make: Callable[[], Issued],
        hosts: list[str] | None = None,
    ) -> None:
        """Replace a certificate and its key unless they can stay."""
        certificate, key = self.certificate(name), self.key(name)
        if certificate.exists() and key.exists():
            reason = self._reason_to_renew(certificate, now, hosts)
            if not reason:
                return
            report(f"{certificate} is renewed: {reason}")
        issued = make()
        replace_private(key, issued.key)
        replace_private(certificate, issued.certificate)

    def _reason_to_renew(
        self, certificate: Path, now: datetime.datetime, hosts: list[str] | None
    ) -> str:
        present = _loaded(certificate)
        if present.not_valid_after_utc - now < datetime.timedelta(days=RENEW_DAYS):
            return f"it ends at {present.not_valid_after_utc:%Y-%m-%d}"
        try:
            present.verify_directly_issued_by(_loaded(self.authority))
        except (ValueError, TypeError, InvalidSignature):
            return f"{self.authority.name} did not sign it"
        if hosts is not None and hosts_of(present) != set(hosts):
            return "this machine has another name"
        return ""

    def _keep_tokens(self, now_s: float) -> None:
        if not self.token_key.exists():
            replace_private(self.token_key, token_bytes(_KEY_BYTES))
        key = SecretKey(self.token_key.read_bytes())
        for role in (SUPERUSER, BROKER, GATEWAY, PROXY, FUNCTIONS_WORKER):
            path = self.token(role)
            if not path.exists() or not _is_token_of(path.read_text(), role, key, now_s):
                replace_private(path, jws.sign({"sub": role}, key, "HS256").encode())
        header = f"Authorization: Bearer {self.token(SUPERUSER).read_text()}\n"
        replace_private(self.header, header.encode())

    def _keep_passwords(self) -> None:
        """Keep what Redis and Spark ask of their clients, once as itself and once as their configuration."""
        for path in (self.redis_password, self.spark_token):
            if not path.exists() or not _PASSWORD.fullmatch(path.read_text()):
                replace_private(path, token_bytes(_KEY_BYTES).hex().encode())
        replace_private(
            self.redis_config, f"requirepass {self.redis_password.read_text()}\n".encode()
        )
        # With a local master Spark makes the secret of ``spark.authenticate`` itself.
        properties = {
            "spark.connect.authenticate.token": self.spark_token.read_text(),
            "spark.authenticate": "true",
        }
        lines = (f"{name} {value}\n" for name, value in properties.items())
        replace_private(self.spark_properties, "".join(lines).encode())

    def of_redis_clients(self) -> Mapping[str, str]:
        """Return the variables of gateways and workers."""
        return {"MAGNETAR_REDIS_PASSWORD": self.redis_password.as_uri()}

    def of_spark_clients(self) -> Mapping[str, str]:
        """Return the variables of workers."""
        return {"SPARK_CONNECT_TOKEN_FILE": str(self.spark_token)}

    def environment(self) -> Mapping[str, str]:
        """Return the variables of all children: secrets are in files alone."""
        return {
            "MAGNETAR_AUTHENTICATION_ENABLED": "true",
            "MAGNETAR_AUTHENTICATION_PROVIDERS": ",".join(self._providers),
            "MAGNETAR_TOKEN_SECRET_KEY": self.token_key.as_uri(),
            "MAGNETAR_TOKEN_SIGNING_KEY": self.token_key.as_uri(),
            "MAGNETAR_AUTHENTICATE_METRICS_ENDPOINT": "true",  # they name the topics of all tenants
            "MAGNETAR_AUTHORIZATION_ENABLED": "true",
            "MAGNETAR_SUPER_USER_ROLES": ",".join(
                (SUPERUSER, BROKER, GATEWAY, PROXY, FUNCTIONS_WORKER)
            ),
            "MAGNETAR_PROXY_ROLES": f"{GATEWAY},{PROXY}",
            "MAGNETAR_TLS_CERTIFICATE_FILE_PATH": str(self.certificate("server")),
            "MAGNETAR_TLS_KEY_FILE_PATH": str(self.key("server")),
            "MAGNETAR_TLS_TRUST_CERTS_FILE_PATH": str(self.authority),
            "MAGNETAR_BROKER_CLIENT_TLS_ENABLED": "true",
            "MAGNETAR_BROKER_CLIENT_TRUST_CERTS_FILE_PATH": str(self.authority),
            "MAGNETAR_BROKER_CLIENT_AUTHENTICATION_PLUGIN": "token",
            "MAGNETAR_BOOKKEEPER_TLS_PROVIDER_FACTORY_CLASS": TLS_FACTORY,
            "MAGNETAR_BOOKKEEPER_TLS_TRUST_CERTS_FILE_PATH": str(self.authority),
            "MAGNETAR_BOOKKEEPER_TLS_CLIENT_AUTHENTICATION": "true",
            "MAGNETAR_BOOKKEEPER_TLS_CERTIFICATE_FILE_PATH": str(self.certificate(BROKER)),
            "MAGNETAR_BOOKKEEPER_TLS_KEY_FILE_PATH": str(self.key(BROKER)),
        }

    def of_metadata_server(self, port: int) -> Mapping[str, str]:
        """Return the variables of the engine's metadata server, which serves ``port`` in TLS alone."""
        return {
            "MAGNETAR_METADATA_SERVER_TLS_PORT": str(port),
            "MAGNETAR_METADATA_SERVER_TLS_ONLY": "true",
            "MAGNETAR_METADATA_SERVER_TLS_CERTIFICATE_PATH": str(self.certificate("server")),
            "MAGNETAR_METADATA_SERVER_TLS_KEY_PATH": str(self.key("server")),
            "MAGNETAR_METADATA_SERVER_TLS_TRUST_PATH": str(self.authority),
            "MAGNETAR_METADATA_SERVER_TLS_CLIENT_CERTIFICATE_REQUIRED": "true",
            "MAGNETAR_METADATA_SERVER_TLS_CLIENT_NAMES": f"{BROKER},{SUPERUSER}",
        }

    def of_metadata_clients(self) -> Mapping[str, str]:
        """Return the variables by which all children connect to that server."""
        return {
            "MAGNETAR_METADATA_TLS_ENABLED": "true",
            "MAGNETAR_METADATA_TLS_TRUST_CERTS_FILE_PATH": str(self.authority),
            "MAGNETAR_METADATA_TLS_CERTIFICATE_FILE_PATH": str(self.certificate(BROKER)),
            "MAGNETAR_METADATA_TLS_KEY_FILE_PATH": str(self.key(BROKER)),
        }

    def of_broker(self) -> Mapping[str, str]:
        """Return the variables by which a broker logs in at brokers."""
        return self._login(BROKER)

    def of_gateway(self) -> Mapping[str, str]:
        """Return the variables by which a gateway logs in at brokers, and serves TLS."""
        return {**self._login(GATEWAY), "MAGNETAR_ASGI_SERVER": "uvicorn"}

    def of_proxy(self) -> Mapping[str, str]:
        """Return the variables by which a proxy logs in at brokers."""
        return self._login(PROXY)

    def of_functions_worker(self) -> Mapping[str, str]:
        """Return the variables by which a functions worker logs in at brokers."""
        return self._login(FUNCTIONS_WORKER)

    def _login(self, role: str) -> Mapping[str, str]:
        return {"MAGNETAR_BROKER_CLIENT_AUTHENTICATION_PARAMETERS": self.token(role).as_uri()}

    def of_bookie(self) -> Mapping[str, str]:
        """Return the variables of a bookie."""
        return {
            "MAGNETAR_BOOKIE_TLS_PROVIDER_FACTORY_CLASS": TLS_FACTORY,
            "MAGNETAR_BOOKIE_TLS_CERTIFICATE_PATH": str(self.certificate("server")),
            "MAGNETAR_BOOKIE_TLS_KEY_STORE": str(self.key("server")),
            "MAGNETAR_BOOKIE_TLS_TRUST_STORE": str(self.authority),
            "MAGNETAR_BOOKIE_TLS_CLIENT_AUTHENTICATION": "true",
            "MAGNETAR_BOOKIE_BOOKIE_AUTH_PROVIDER_FACTORY_CLASS": ROLES_FACTORY,
            "MAGNETAR_BOOKIE_AUTHORIZED_ROLES": BOOKIE_CLIENT.partition(":")[2],
        }


def _loaded(path: Path) -> x509.Certificate:
    """Return a certificate. Raises SecureError, OSError."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise SecureError(
            f"{path} is no certificate: remove it, and the start makes it anew"
        ) from error


def _is_token_of(text: str, role: str, key: SecretKey, now_s: float) -> bool:
    try:
        claims = jws.verify(jws.parse(text.strip()), key)
        jws.check_times(claims, now_s)
    except AuthenticationFailed:
        return False
    return claims.get("sub") == role
