"""Apache's own Java client and a broker of ours that authenticates: tokens, passwords and certificates."""

import base64
import subprocess
from pathlib import Path

import pytest

from engine.auth.authenticators import jws
from engine.auth.authenticators.signing_keys import SecretKey
from tests.oracle.ledgers_java import LEAN, OPEN, SOURCE, compile_driver
from tests.support.net.certificates import Authority
from tests.support.standalone import Standalone

SECRET = bytes(range(32))
APR1 = "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/"
"""Hash of ``secret``."""


def token(role: str, secret: bytes = SECRET) -> str:
    return jws.sign({"sub": role}, SecretKey(secret), "HS256")


@pytest.mark.timeout(300)
def test_the_java_client_logs_in_by_each_kind_of_credentials(tmp_path: Path) -> None:
    classes = compile_driver(tmp_path, SOURCE / "IdentityDriver.java")
    authority = Authority(tmp_path)
    files = authority.issue("broker", "127.0.0.1", "localhost")
    users = base64.b64encode(f"user:{APR1}\n".encode()).decode()
    standalone = Standalone(
        tmp_path / "standalone",
        broker_service_port_tls="0",
        tls_certificate_file_path=files.cert,
        tls_key_file_path=files.key,
        tls_trust_certs_file_path=authority.cert,
        authentication_enabled="true",
        authentication_providers="token,basic,tls",
        token_secret_key=base64.b64encode(SECRET).decode(),
        basic_auth_conf=f"data:;base64,{users}",
        broker_client_authentication_plugin="token",
        broker_client_authentication_parameters=f"token:{token('broker')}",
    )
    try:
        assert standalone.broker is not None
        secured = f"pulsar+ssl://127.0.0.1:{standalone.broker.broker_port_tls}"
        client = authority.issue("client")
        done = subprocess.run(
            [
                *(
                    "java",
                    *LEAN.split(),
                    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPEN),
                ),
                f"-Dlog4j2.configurationFile={Path(SOURCE) / 'log4j2.properties'}",
                *("-cp", classes, "IdentityDriver", standalone.url, secured, authority.cert),
                *(token("app"), token("app", bytes(32)), "user", "secret", *client),
            ],
            capture_output=True,
            text=True,
            timeout=240,
        )
    finally:
        standalone.close()
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = dict(
        line.split()[1:] for line in done.stdout.splitlines() if line.startswith("login ")
    )
    refused = "AuthenticationException"
    assert outcomes == {
        **{f"{port}-{kind}": "ok" for port in ("clear", "tls") for kind in ("token", "password")},
        **{
            f"{port}-{kind}": refused
            for port in ("clear", "tls")
            for kind in ("bad-token", "wrong-password", "none")
        },
        "tls-certificate": "ok",
    }
