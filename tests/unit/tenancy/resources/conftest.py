"""A fresh instance's metadata."""

import pytest

from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.tenancy.namespaces import bootstrap


@pytest.fixture
async def store() -> MetadataStore:
    session = MemoryServer().session()
    await bootstrap(
        session,
        cluster="standalone",
        broker_url="pulsar://127.0.0.1:6650",
        web_url="http://127.0.0.1:8080",
    )
    return session
