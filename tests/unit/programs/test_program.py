"""A program runs its server until a signal, drains it, and reports in its exit status why it did not start."""

import asyncio
import os
import signal
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.__main__ import PROGRAMS, main
from engine.auth.internal import TokenError
from engine.base.log import LogSettings
from engine.base.settings import SettingsError
from engine.metadata.incomplete import COPYING, RESTORING
from engine.metadata.memory import MemoryServer
from engine.metadata.settings import MetadataSettings
from engine.metadata.store import StoreUnavailableError
from engine.net.service_manager import notices
from engine.programs import process as process_module
from engine.programs import program
from engine.programs.program import EngineProgram, run


@dataclass(frozen=True)
class Settings:
    log: LogSettings = field(default_factory=LogSettings)
    metadata: MetadataSettings = field(default_factory=MetadataSettings)


class Server:
    """Ends its own process by a signal, or raises ``error``, when it is started."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")
        if self.error is not None:
            raise self.error
        os.kill(os.getpid(), signal.SIGTERM)

    async def drain(self) -> None:
        self.calls.append("drain")


def of(server: Server, load: Any = lambda *_: Settings()) -> EngineProgram[Settings]:
    return EngineProgram(
        load=load,
        build=lambda settings, /, **seams: server,
        session_timeout_s=lambda settings: 3.0,
        ports=lambda settings: "port 1 on here",
    )


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Leave what a process changes of itself as it is; return the session timeouts of its connections."""
    timeouts: list[float] = []

    async def connect(urls: Any, *, access: Any, session_timeout_s: float) -> Any:
        timeouts.append(session_timeout_s)
        return MemoryServer().session()

    monkeypatch.setattr(process_module.logs, "keep_private", lambda: None)
    monkeypatch.setattr(process_module.logs, "configure", lambda *_: None)
    monkeypatch.setattr(process_module, "raise_socket_limit", lambda: None)
    monkeypatch.setattr(program, "shorten_collections", lambda: None)
    monkeypatch.setattr(program, "connect_stores", connect)
    return timeouts


def test_a_signal_drains_the_server(process: list[float]) -> None:
    server = Server()
    assert run(of(server)) == 0
    assert (server.calls, process) == (["start", "drain"], [3.0])


class SlowServer(Server):
    """A server whose drain receives signals, one after the other."""

    def __init__(self, signals: int) -> None:
        super().__init__()
        self.signals = signals

    async def drain(self) -> None:
        self.calls.append("drain")
        for _ in range(self.signals):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.01)
        self.calls.append("drained")


def test_a_second_signal_ends_the_drain(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(program, "REPEATED_S", 0.0)
    server = SlowServer(100)
    assert run(of(server)) == 0
    assert server.calls == ["start", "drain"]
    assert "a second signal ended the drain" in caplog.text


def test_a_signal_that_is_sent_twice_ends_no_drain() -> None:
    server = SlowServer(2)
    assert run(of(server)) == 0
    assert server.calls == ["start", "drain", "drained"]


def test_the_service_manager_is_notified_of_a_server_that_works_and_of_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    monkeypatch.setattr(notices, "notify", server.calls.append)
    assert run(of(server)) == 0
    assert server.calls == ["start", "READY=1", "STOPPING=1", "drain"]


def test_the_service_manager_is_not_notified_of_a_server_that_did_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(OSError("in use"))
    monkeypatch.setattr(notices, "notify", server.calls.append)
    assert run(of(server)) == 1
    assert server.calls == ["start", "STOPPING=1", "drain"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("in use"), "cannot start: cannot listen on port 1 on here: in use"),
        (TokenError("no token"), "cannot start: no token"),
    ],
)
def test_a_server_that_cannot_start_is_drained_and_says_why(
    error: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(error)
    assert run(of(server)) == 1
    assert server.calls == ["start", "drain"]
    assert reason in caplog.text


def test_a_metadata_store_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def connect(urls: Any, *, access: Any, session_timeout_s: float) -> Any:
        await asyncio.sleep(0)
        raise StoreUnavailableError("no answer")

    monkeypatch.setattr(program, "connect_stores", connect)
    assert run(of(Server())) == 1
    assert f"cannot reach the metadata store {Settings().metadata.store_url}" in caplog.text


def test_invalid_settings_need_no_restart(caplog: pytest.LogCaptureFixture) -> None:
    def load(*_: Any) -> Settings:
        raise SettingsError("port: must be a number")

    assert run(of(Server(), load)) == os.EX_CONFIG
    assert "cannot start: port: must be a number" in caplog.text


@pytest.mark.parametrize("arguments", [[], ["nope"], ["broker", "more"]])
def test_an_unknown_program_is_answered_with_those_that_there_are(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert ", ".join(PROGRAMS) in capsys.readouterr().err


@pytest.mark.parametrize("mark", [COPYING, RESTORING])
def test_an_incomplete_metadata_store_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mark: str
) -> None:
    async def connect(urls: Any, *, access: Any, session_timeout_s: float) -> Any:
        store = MemoryServer().session()
        await store.create(mark, b"a backup")
        return store

    monkeypatch.setattr(program, "connect_stores", connect)
    server = Server()
    assert run(of(server)) == 1
    assert server.calls == []
    assert "holds an interrupted" in caplog.text
