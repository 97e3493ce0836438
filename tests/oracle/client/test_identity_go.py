"""Apache's own Go client and a broker of ours that authenticates: tokens, passwords, certificates, an issuer."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.auth.authenticators import jws
from engine.auth.authenticators.signing_keys import SecretKey
from tests.interop.schemas.programs import UnavailableError, build_go
from tests.support.access.callers import token
from tests.support.access.identified import PASSWORD, USER, identified
from tests.support.access.issuer import AUDIENCE, SECRET, Issuer
from tests.support.net.certificates import Authority

SOURCE = Path(__file__).parents[1] / "go" / "identity" / "main.go"
RUN_S_MAX = 240
ACCEPTED = ("token", "supplied-token", "password", "oauth2")
REFUSED = ("bad-token", "wrong-password", "none")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_go_client_logs_in_by_each_kind_of_credentials(tmp_path: Path) -> None:
    shutil.copy(SOURCE, tmp_path)
    try:
        program = build_go(tmp_path, tmp_path)
    except UnavailableError as error:
        pytest.skip(str(error))
    authority = Authority(tmp_path)
    other = Authority(tmp_path, "other")
    issuer = Issuer()
    issuer.start()
    credentials = tmp_path / "credentials.json"
    credentials.write_text(
        json.dumps(
            {
                "type": "client_credentials",
                "client_id": "by-issuer",
                "client_secret": SECRET,
                "issuer_url": issuer.url,
            }
        )
    )
    standalone = identified(tmp_path / "standalone", authority, issuer)
    try:
        assert standalone.broker is not None
        secured = f"pulsar+ssl://127.0.0.1:{standalone.broker.broker_port_tls}"
        bad = jws.sign({"sub": "app"}, SecretKey(bytes(32)), "HS256")
        words = [program, standalone.url, secured, authority.cert, other.cert, token("app"), bad]
        words += [USER, PASSWORD, *authority.issue("client"), issuer.url]
        words += [f"file://{credentials}", AUDIENCE]
        done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S_MAX)
    finally:
        standalone.close()
        issuer.stop()
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes = dict(
        line.split(maxsplit=2)[1:] for line in done.stdout.splitlines() if line.startswith("login ")
    )
    ports = ("clear", "tls")
    assert outcomes == {
        **{f"{port}-{kind}": "ok" for port in ports for kind in ACCEPTED},
        **{f"{port}-{kind}": "refused" for port in ports for kind in REFUSED},
        "tls-certificate": "ok",
        "untrusted-token": "refused",
        "untrusted-certificate": "refused",
    }, done.stderr[-3000:]
