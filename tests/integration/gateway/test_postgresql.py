"""Gateways on PostgreSQL: one database for several, its end during sign-in, and the set-up over both ASGI servers."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest

from tests.support.access.browser import PASSWORD
from tests.support.access.callers import KEY, token
from tests.support.ports import free_ports
from tests.support.stores.postgresql import PostgreSql, programs, running_postgresql

pytestmark = pytest.mark.skipif(programs() is None, reason="initdb and postgres are missing")
ROOT = Path(__file__).parents[3]
START_S = 60.0
AWAY_S = 30.0
"""Longest time within which a gateway says that its database is away, or uses one that is back."""


class Process:
    """A gateway, with the cookies of a browser at it."""

    def __init__(self, folder: Path, server: str, database: str, port: int) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.port = port
        self.cookies: dict[str, str] = {}
        (folder / "key").write_bytes(KEY)
        env = {
            **{name: value for name, value in os.environ.items() if "MAGNETAR" not in name},
            "MAGNETAR_DATA_DIR": str(folder),
            "MAGNETAR_DATABASE_URL": database,
            "MAGNETAR_HTTP_PORT": str(port),
            "MAGNETAR_ASGI_SERVER": server,
            "MAGNETAR_SECRET_KEY": "the key of both",
            "MAGNETAR_METADATA_URL": f"zk:127.0.0.1:{free_ports(1)[0]}",
            "MAGNETAR_AUTHENTICATION_ENABLED": "true",
            "MAGNETAR_AUTHENTICATION_PROVIDERS": "token",
            "MAGNETAR_TOKEN_SECRET_KEY": (folder / "key").as_uri(),
            "MAGNETAR_SUPER_USER_ROLES": "root",
            "MAGNETAR_BROKER_CLIENT_AUTHENTICATION_PLUGIN": "token",
            "MAGNETAR_BROKER_CLIENT_AUTHENTICATION_PARAMETERS": f"token:{token('root')}",
        }
        self.log = folder / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gateway.serve"], cwd=ROOT, env=env, stderr=log
            )

    def wait(self) -> None:
        ends_at_s = time.monotonic() + START_S
        while time.monotonic() < ends_at_s:
            assert self.process.poll() is None, self.log.read_text()
            try:
                self("GET", "session")
                return
            except OSError:
                time.sleep(0.05)
        raise TimeoutError(self.log.read_text())

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=AWAY_S)
        headers = {"X-CSRFToken": self.cookies.get("csrftoken", "")}
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        data = None if body is None else json.dumps(body)
        connection.request(method, f"/api/v1/{path}", data, headers)
        answer = connection.getresponse()
        for name, text in answer.getheaders():
            if name.lower() == "set-cookie":
                self.cookies.update(
                    (name, cookie.value) for name, cookie in SimpleCookie(text).items()
                )
        value = json.loads(answer.read() or b"null")
        connection.close()
        return answer.status, value

    def sign_in(self) -> int:
        return self("POST", "session/sign-in", {"name": "ann", "password": PASSWORD})[0]

    def until(self, wanted: int, call: Any) -> None:
        """Repeat a call until it has this status."""
        ends_at_s = time.monotonic() + AWAY_S
        while (status := call()) != wanted:
            assert time.monotonic() < ends_at_s, (status, self.log.read_text())
            time.sleep(0.1)


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSql]:
    with running_postgresql() as server:
        yield server


@contextmanager
def ended(*processes: Process) -> Iterator[None]:
    try:
        yield
    finally:
        for gateway in processes:
            gateway.process.send_signal(signal.SIGTERM)
        for gateway in processes:
            gateway.process.wait(60)


def test_two_gateways_share_people_sessions_and_the_set_up(
    database: PostgreSql, tmp_path: Path
) -> None:
    """Run each on one of the ASGI servers; both migrate at once."""
    ports = free_ports(2)
    first = Process(tmp_path / "1", "daphne", database.url, ports[0])
    second = Process(tmp_path / "2", "uvicorn", database.url, ports[1])
    with ended(first, second):
        first.wait()
        second.wait()
        code = (first.folder / "set-up-code").read_text()
        assert (second.folder / "set-up-code").read_text() == code
        assert code.strip() not in first.log.read_text()
        assert str(first.folder / "set-up-code") in first.log.read_text()
        status, session = first(
            "POST", "session/set-up", {"code": code, "name": "ann", "password": PASSWORD}
        )
        assert (status, session["person"]["superuser"]) == (200, True)
        assert second("GET", "session")[1]["set_up_needed"] is False
        second.cookies = dict(first.cookies)
        assert second("GET", "session")[1]["person"]["name"] == "ann"
        second.cookies.clear()
        second("GET", "session")
        assert second.sign_in() == 200

        database.kill()
        for gateway in (first, second):
            # The first call may be the one that finds the connection gone.
            gateway.until(503, lambda gateway=gateway: gateway("GET", "session")[0])
            status, refusal = gateway("GET", "session")
            assert (status, refusal.get("hop")) == (503, "database"), (
                refusal,
                gateway.log.read_text(),
            )
            assert gateway.sign_in() == 503
        database.start()
        for gateway in (first, second):
            gateway.until(200, lambda gateway=gateway: gateway("GET", "session")[0])
            assert gateway("GET", "session")[1]["person"]["name"] == "ann"
            gateway.until(200, gateway.sign_in)
        rows = first("GET", "session/sessions")[1]["rows"]
        assert len(rows) == 2
        texts = first.log.read_text() + second.log.read_text()
        assert PASSWORD not in texts


def test_a_gateway_whose_database_is_away_says_so_and_ends(
    database: PostgreSql, tmp_path: Path
) -> None:
    url = database.url.replace("/postgres", "/missing")
    gateway = Process(tmp_path / "3", "uvicorn", url, free_ports(1)[0])
    assert gateway.process.wait(START_S) == 1
    text = gateway.log.read_text()
    assert "cannot start: The console's database does not answer" in text
    assert "Traceback" not in text
