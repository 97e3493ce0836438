"""Apache's own Java client and a broker of ours that authenticates: tokens, passwords and certificates."""

import subprocess
from pathlib import Path

import pytest

from engine.auth.authenticators import jws
from engine.auth.authenticators.signing_keys import SecretKey
from tests.oracle.ledgers_java import LEAN, OPEN, SOURCE, compile_driver
from tests.support.access.callers import token
from tests.support.access.identified import PASSWORD, USER, identified
from tests.support.net.certificates import Authority

WRONG_KEY = bytes(32)


@pytest.mark.timeout(300)
def test_the_java_client_logs_in_by_each_kind_of_credentials(tmp_path: Path) -> None:
    classes = compile_driver(tmp_path, SOURCE / "IdentityDriver.java")
    authority = Authority(tmp_path)
    standalone = identified(tmp_path / "standalone", authority)
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
                *(
                    token("app"),
                    jws.sign({"sub": "app"}, SecretKey(WRONG_KEY), "HS256"),
                    USER,
                    PASSWORD,
                    *client,
                ),
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
