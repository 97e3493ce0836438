"""The proxy as a program: with the metadata store, or without it where the brokers are listed."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from engine.metadata.memory import MemoryServer
from engine.programs import program
from engine.programs.process import StartError
from engine.programs.proxy import load, serve

PORTS = {"MAGNETAR_PROXY_SERVICE_PORT": "0", "MAGNETAR_PROXY_WEB_SERVICE_PORT": "0"}


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the URLs of the stores that the program connects to, each of which is an empty one in memory."""
    urls: list[str] = []

    async def connect(stores: Any, *, access: Any, session_timeout_s: float) -> Any:
        urls.append(stores.metadata)
        return MemoryServer().session()

    monkeypatch.setattr(program, "connect_stores", connect)
    monkeypatch.setattr(program, "shorten_collections", lambda: None)
    return urls


async def run(tmp_path: Path, **variables: str) -> int:
    """Run the program until SIGTERM, which follows at once."""
    given = {f"MAGNETAR_{name}": text for name, text in variables.items()}
    settings = load({**PORTS, **given}, tmp_path)
    asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGTERM)
    return await serve(settings)


async def test_it_uses_the_metadata_store(tmp_path: Path, connections: list[str]) -> None:
    assert await run(tmp_path, METADATA_URL="zk:a:2181") == 0
    assert connections == ["zk:a:2181"]


async def test_it_needs_no_store_where_brokers_are_listed(
    tmp_path: Path, connections: list[str]
) -> None:
    assert await run(tmp_path, PROXY_BROKER_SERVICE_URL="pulsar://a:6650") == 0
    assert connections == []


async def test_a_port_in_use_is_named(tmp_path: Path, connections: list[str]) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(StartError) as refused:
        await run(tmp_path, PROXY_SERVICE_PORT=str(port))
    assert f"cannot listen on ports {port}" in str(refused.value)
    server.close()
