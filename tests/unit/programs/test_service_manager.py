"""Notices to the service manager arrive at its socket; without one nothing is sent, and a lost one ends nothing."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.net.service_manager import notices
from gateway.serve import listen
from gateway.servers import first_answer
from tests.support.net.notices import NoticeSocket
from tests.support.waiting import until


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NoticeSocket]:
    for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    receiver = NoticeSocket(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", receiver.path)
    yield receiver
    receiver.close()


def test_notices_arrive_as_datagrams_of_this_process(manager: NoticeSocket) -> None:
    notices.ready()
    notices.stopping()
    manager.wait_for("STOPPING=1", {os.getpid()})
    assert manager.notices == [(os.getpid(), "READY=1"), (os.getpid(), "STOPPING=1")]


def test_a_socket_in_the_abstract_namespace_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{tmp_path}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{tmp_path}")
        notices.stopping()
        assert receiver.recv(100) == b"STOPPING=1"


def test_without_a_service_manager_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notices.ready()
    assert not notices.expects_notices()
    assert not caplog.records


def test_a_notice_that_cannot_be_sent_is_logged_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nothing"))
    notices.stopping()
    assert "cannot notify the service manager state=STOPPING=1" in caplog.text


async def test_the_loop_reports_that_it_turns_as_often_as_asked(
    manager: NoticeSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    notices.ready()
    await until(lambda: manager.notices.count((os.getpid(), "WATCHDOG=1")) >= 3)


async def test_a_watchdog_of_another_process_is_not_answered(
    manager: NoticeSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    notices.ready()
    notices.stopping()
    manager.wait_for("STOPPING=1", {os.getpid()})
    assert not manager.senders("WATCHDOG=1")


@asynccontextmanager
async def gateway_that_answers(line: bytes) -> AsyncIterator[asyncio.Server]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(line)
        writer.close()

    async with await asyncio.start_server(answer, sock=listen("0.0.0.0", 0)) as server:
        yield server


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found"])
async def test_a_gateway_is_ready_once_it_has_answered(manager: NoticeSocket, status: str) -> None:
    async with gateway_that_answers(f"HTTP/1.1 {status}\r\n\r\n".encode()) as server:
        await first_answer.report_ready(server.sockets[0].getsockname())
    manager.wait_for("READY=1", {os.getpid()})


@pytest.mark.parametrize("line", [b"HTTP/1.1 500 Error\r\n\r\n", b""])
async def test_a_gateway_that_fails_its_first_check_is_not_ready(
    manager: NoticeSocket, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with gateway_that_answers(line) as server:
        await first_answer.report_ready(server.sockets[0].getsockname())
    assert "not ready: the gateway answers itself with" in caplog.text
    notices.stopping()
    manager.wait_for("STOPPING=1", {os.getpid()})
    assert not manager.senders("READY=1")
