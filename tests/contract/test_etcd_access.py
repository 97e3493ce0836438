"""A real etcd that asks for a certificate and a password."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.settings import SettingsError
from engine.metadata.connect import Access, connect
from engine.metadata.store import StoreUnavailableError
from engine.net.tls import ClientFiles
from tests.support.net.certificates import Authority
from tests.support.ports import free_ports
from tests.support.stores.etcd_process import MISSING, EtcdMember, find_etcd


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EtcdMember, ClientFiles]]:
    """An etcd with TLS, client certificates and the user ``root``; files of a client that it trusts."""
    program = find_etcd()
    if program is None:
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    cert, key = authority.issue("etcd", "127.0.0.1")
    files = ClientFiles(authority.cert, *authority.issue("client", common_name=False))
    options = ["--cert-file", cert, "--key-file", key]
    options += ["--trusted-ca-file", authority.cert, "--client-cert-auth"]
    first, second = free_ports(2)
    member = EtcdMember(program, folder, "m", (first, second), options)
    member.tls = files.context()
    try:
        member.start(member.peer)
        member.wait_serving()
        member.call("auth/user/add", name="root", password="right")
        member.call("auth/role/add", name="root")
        member.call("auth/user/grant", user="root", role="root")
        member.call("auth/enable")
        yield member, files
    finally:
        member.stop()


async def test_a_session_by_certificate_and_password(
    secured: tuple[EtcdMember, ClientFiles],
) -> None:
    member, files = secured
    store = await connect(f"etcd:{member.url}/c", access=Access(files, "root", "right"))
    called: list[str] = []
    assert await store.exists("/a", called.append) is None
    await store.create("/a", b"1", ephemeral=True)
    assert (await store.get("/a"))[0] == b"1"
    await store.close()


async def test_a_wrong_password_is_refused_with_etcds_reason(
    secured: tuple[EtcdMember, ClientFiles],
) -> None:
    member, files = secured
    for access, reason in (
        (Access(files, "root", "wrong"), "etcd refused user root: .*invalid user ID or password"),
        (Access(files), "permission denied"),
    ):
        with pytest.raises(SettingsError, match=reason):
            await connect(f"etcd:{member.url}/c", access=access)


async def test_a_certificate_with_a_common_name_is_refused_with_the_gateways_reason(
    secured: tuple[EtcdMember, ClientFiles], tmp_path: Path
) -> None:
    member, files = secured
    folder = Path(files.ca).parent
    named = ClientFiles(files.ca, str(folder / "etcd.cert.pem"), str(folder / "etcd.key.pem"))
    with pytest.raises(SettingsError, match="CommonName of client"):
        await connect(f"etcd:{member.url}/c", access=Access(named, "root", "right"))


async def test_a_client_without_a_certificate_is_refused(
    secured: tuple[EtcdMember, ClientFiles],
) -> None:
    member, files = secured
    access = Access(ClientFiles(files.ca), "root", "right")
    with pytest.raises(StoreUnavailableError, match="no etcd at https://"):
        await connect(f"etcd:{member.url}/c", access=access, connect_timeout_s=1.0)
