"""The metadata server's TLS port, over real sockets: sessions as in clear, and clients without TLS are refused."""

import asyncio
from pathlib import Path

import pytest

from engine.metadata.server.protocol import Data, GetData
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles
from tests.support.net.certificates import Authority
from tests.support.zookeeper.metadata_rig import MetadataRig, create
from tests.support.zookeeper.seam_client import SeamClient


async def test_a_session_over_tls_sees_what_one_in_clear_writes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", "localhost", "127.0.0.1")
    rig = MetadataRig(
        network=LoopNetwork(),
        tls_port=0,
        tls_certificate_path=server.cert,
        tls_key_path=server.key,
    )
    await rig.start()
    try:
        tls = ClientFiles(authority.cert).context()
        clear = await rig.client()
        secure = await SeamClient.open(rig.network, rig.server.tls_port, tls=tls)
        await clear.ask(create("/a", b"1"))
        data = await secure.ask(GetData("/a", False))
        assert isinstance(data, Data)
        assert data.data == b"1"
        with pytest.raises(ConnectionResetError):
            async with asyncio.timeout(30):
                await SeamClient.open(rig.network, rig.server.tls_port)
        clear.close()
        secure.close()
    finally:
        await rig.stop()


async def test_a_server_of_tls_alone_serves_the_named_certificates_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server", "localhost", "127.0.0.1")
    rig = MetadataRig(
        network=LoopNetwork(),
        tls_port=0,
        tls_only=True,
        tls_certificate_path=server.cert,
        tls_key_path=server.key,
        tls_trust_path=authority.cert,
        tls_client_certificate_required=True,
        tls_client_names="other, broker",
    )
    await rig.start()
    try:
        assert rig.server.port == 0, "nothing is served in clear"
        for name, is_served in (("broker", True), ("application", False), ("broker2", False)):
            tls = ClientFiles(authority.cert, *authority.issue(name)).context()
            opening = SeamClient.open(rig.network, rig.server.tls_port, tls=tls)
            if is_served:
                client = await opening
                await client.ask(create("/a", b"1"))
                client.close()
                continue
            with pytest.raises(OSError, match=r".*"):
                async with asyncio.timeout(60):
                    await opening
    finally:
        await rig.stop()
