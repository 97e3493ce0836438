"""Clients publish and consume while keys, grants, certificates, the issuer, the metadata server and the broker change.

Nothing that was confirmed is lost; a role is out within a second of a revocation, and in again within 5 s.
"""

import asyncio
import base64
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest

from engine.base.errors import MagnetarError
from engine.base.names import NamespaceName
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.metadata.connect import connect
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from engine.tenancy import grants
from engine.wire import client_commands
from engine.wire.errors import RefusedError, ServerError
from tests.crash.kit.members import Member, Publisher, Subscriber, Window, longest_gap_s
from tests.crash.kit.processes import BookieProcess, BrokerProcess, Process
from tests.support.access.callers import token_by
from tests.support.access.issuer import Issuer
from tests.support.net.certificates import Authority, Files
from tests.support.ports import free_ports
from tests.support.waiting import until

HANGS_S = 300
REVOKED_S = 1.0
OUT_S = 5.0
NAMESPACE = NamespaceName.parse("public/default")
TOPIC = "persistent://public/default/{}".format
OLD, NEW, NEXT = (bytes([number]) * 32 for number in (1, 2, 3))
REFUSED = (ServerError.AuthenticationError, ServerError.AuthorizationError)


def shared(key: bytes) -> str:
    return base64.b64encode(key).decode()


class Probe:
    """Our own client: a connection and a producer, again and again, of one role."""

    def __init__(self, port: int, topic: str, supply: Callable[[], str]) -> None:
        self._port, self._topic, self._supply = port, topic, supply
        self.admitted: list[float] = []
        self.refused: list[float] = []
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self._once()
            await asyncio.sleep(0.1)  # time: connections of a client that is refused

    async def _once(self) -> None:
        settings = LinkSettings(credentials=lambda challenge: ("token", self._supply().encode()))
        link: BrokerLink | None = None
        try:
            link = await BrokerLink.open(LoopNetwork(), "127.0.0.1", self._port, settings)
            await link.request(1, client_commands.lookup(self._topic, 1))
            await link.request(2, client_commands.producer(self._topic, 1, 2))
            self.admitted.append(time.monotonic())
        except RefusedError as error:
            if error.code in REFUSED:
                self.refused.append(time.monotonic())
        except (MagnetarError, OSError, TimeoutError):
            pass
        finally:
            if link is not None:
                link.close()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Place:
    """Metadata server, bookie and broker as processes, and the store as an administrator writes it."""

    store: MetadataStore

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.issuer = Issuer()
        authority = Authority(folder)
        self.trusted = authority.cert
        self._authority = authority
        self.served = authority.issue("served", "127.0.0.1", "localhost")
        self.keys = [OLD, NEW]
        port, status = free_ports(2)
        url = f"zk:127.0.0.1:{port}"
        arguments = ["--data-dir", str(folder / "metadata"), "--port", str(port)]
        self._url = url
        self.metadata = Process(
            "metadata",
            [sys.executable, "-m", "engine", "metadata", *arguments],
            {},
            folder / "metadata.log",
            status,
        )
        self.bookie = BookieProcess("bookie-1", folder, url, zk_timeout_s="20")
        (self.tls_port,) = free_ports(1)
        self.token_file = folder / "broker.token"
        self.broker = BrokerProcess("broker-1", folder, url)

    def supply(self, role: str) -> Callable[[], str]:
        """Return the supplier of a role's tokens, by the key that is in use now."""
        return lambda: self.token(role)

    def token(self, role: str, key: bytes | None = None) -> str:
        """Return a token by ``key``, the newest one that the broker knows unless it is given."""
        return token_by(key or self.newest, role)

    newest = OLD

    def settings(self) -> dict[str, str]:
        settings = {
            "managed_ledger_default_ensemble_size": "1",
            "managed_ledger_default_write_quorum": "1",
            "managed_ledger_default_ack_quorum": "1",
            "default_retention_time_in_minutes": "-1",
            "default_retention_size_in_mb": "-1",
            "metadata_store_session_timeout_millis": "20000",
            "broker_service_port_tls": str(self.tls_port),
            "tls_certificate_file_path": self.served.cert,
            "tls_key_file_path": self.served.key,
            "tls_cert_refresh_check_duration_sec": "1",
            "authentication_enabled": "true",
            "authentication_providers": "token,second_token,oidc",
            "token_secret_key": shared(self.keys[0]),
            "second_token_secret_key": shared(self.keys[1]),
            **self.issuer.settings(),
            "authorization_enabled": "true",
            "super_user_roles": "root",
            "broker_client_authentication_plugin": "token",
            "broker_client_authentication_parameters": f"file://{self.token_file}",
        }
        return {f"MAGNETAR_{name.upper()}": value for name, value in settings.items()}

    async def start_broker(self) -> None:
        self.token_file.write_text(self.token("root"))
        self.broker._env |= self.settings()
        self.broker.start()
        await asyncio.to_thread(self.broker.wait_ready)

    async def start(self) -> None:
        self.metadata.start()

        async def connected() -> bool:
            assert self.metadata.alive, self.metadata.log_end()
            try:
                self.store = await connect(self._url, session_timeout_s=20.0)
            except MagnetarError:
                return False
            return True

        await until(connected, self.metadata.log_end)
        self.bookie.start()
        await asyncio.to_thread(self.bookie.wait_ready)
        self.issuer.start()
        await self.start_broker()

    async def close(self) -> None:
        self.broker.end()
        self.bookie.end()
        self.metadata.end()
        self.issuer.stop()
        await self.store.close()

    def replace_certificate(self) -> str:
        """Write a new certificate and key over those that are served; return the new certificate."""
        new = self._authority.issue("renewed", "127.0.0.1", "localhost")
        for source, target in zip(new, Files(*self.served), strict=True):
            Path(target).write_bytes(Path(source).read_bytes())
        return Path(new.cert).read_text()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    try:
        await place.start()
        yield place
    finally:
        await place.close()


async def next_success(*lists: Any, bound_s: float = 30.0) -> None:
    """Return when each of the lists has grown."""
    before = [len(some) for some in lists]
    await until(
        lambda: all(len(some) > count for some, count in zip(lists, before, strict=True)),
        lambda: f"{[len(some) - count for some, count in zip(lists, before, strict=True)]}",
        bound_s=bound_s,
    )


def confirmed_but_missing(place: Place, publisher: Publisher, topic: str) -> set[bytes]:
    """Return the payloads that were confirmed and cannot be read."""
    missing = {payload for _, payload in publisher.done}
    client = pulsar.Client(
        f"pulsar://127.0.0.1:{place.broker.port}",
        authentication=pulsar.AuthenticationToken(place.supply("root")),
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    while reader.has_message_available():
        missing.discard(reader.read_next(10_000).data())
    client.close()
    return missing


@pytest.mark.timeout(HANGS_S)
async def test_nothing_is_lost_and_no_role_is_in_or_out_for_longer_than_promised(
    place: Place,
) -> None:
    for role in ("steady", "guest", "visitor"):
        await grants.grant(place.store, NAMESPACE, role, ["produce", "consume"])
    url = f"pulsar://127.0.0.1:{place.broker.port}"
    by_tls = f"pulsar+ssl://127.0.0.1:{place.tls_port}"
    tls = {"tls_trust_certs_file_path": place.trusted, "tls_validate_hostname": True}
    steady = Publisher(url, TOPIC("steady"), place.supply("steady"))
    reads = Subscriber(url, TOPIC("steady"), place.supply("steady"))
    encrypted = Publisher(by_tls, TOPIC("encrypted"), place.supply("steady"), **tls)
    visitor = Publisher(url, TOPIC("visitor"), lambda: place.issuer.token("visitor"))
    guest = Publisher(url, TOPIC("guest"), place.supply("guest"))
    guest_reads = Subscriber(url, TOPIC("steady-for-guest"), place.supply("guest"))
    for_guest = Publisher(url, TOPIC("steady-for-guest"), place.supply("steady"))
    members: list[Member] = [steady, reads, encrypted, visitor, guest, guest_reads, for_guest]
    guests: list[Member] = [guest, guest_reads]
    always: list[Member] = [steady, reads, encrypted, visitor, for_guest]
    for member in members:
        member.start()
    probes = {
        "guest": Probe(place.broker.port, TOPIC("probe"), place.supply("guest")),
        "steady": Probe(place.broker.port, TOPIC("probe-s"), place.supply("steady")),
        "former": Probe(place.broker.port, TOPIC("probe-f"), lambda: place.token("steady", OLD)),
    }
    down: list[Window] = []
    out: list[Window] = []
    waited = [member.done for member in members]
    await next_success(*waited, *(probe.admitted for probe in probes.values()))
    began_s = time.monotonic()

    async def revoke_and_grant() -> None:
        await grants.revoke(place.store, NAMESPACE, "guest")
        revoked_s = time.monotonic()
        await next_success(probes["guest"].refused)
        await asyncio.sleep(3.0)  # time: that a revoked client stays out
        granting_s = time.monotonic()
        await grants.grant(place.store, NAMESPACE, "guest", ["produce", "consume"])
        granted_s = time.monotonic()
        out.append(Window(revoked_s, granting_s))
        down.append(Window(revoked_s, granted_s))
        await next_success(*(guest.done for guest in guests), probes["guest"].admitted)

    async def restart_broker(number: signal.Signals, *back: Member) -> None:
        begin_s = time.monotonic()
        await asyncio.to_thread(place.broker.end, number)
        await place.start_broker()
        down.append(Window(begin_s, time.monotonic()))
        await next_success(*(member.done for member in back))

    await revoke_and_grant()

    # The key of tokens: both serve, clients take the new one, then the old one is known no more.
    place.newest = NEW
    await next_success(*waited)
    place.keys = [NEW, NEXT]
    restarted_s = time.monotonic()
    await restart_broker(signal.SIGTERM, *members)
    former_out_s = time.monotonic()
    await next_success(probes["former"].refused)

    renewed = await asyncio.to_thread(place.replace_certificate)
    context = ssl.create_default_context(cafile=place.trusted)

    async def is_renewed() -> bool:
        _, writer = await asyncio.open_connection("127.0.0.1", place.tls_port, ssl=context)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return ssl.PEM_cert_to_DER_cert(renewed) == shown

    await until(is_renewed)

    place.issuer.stop()
    await next_success(visitor.done)

    await asyncio.to_thread(place.metadata.end)
    await next_success(*waited)
    await asyncio.sleep(2.0)  # time: while the store is away
    place.metadata.start()
    await revoke_and_grant()

    # A broker that never had the issuer's keys admits the issuer's clients once it answers.
    begin_s = time.monotonic()
    await restart_broker(signal.SIGKILL, *(member for member in members if member is not visitor))
    place.issuer.start()
    silent = Window(begin_s, time.monotonic())
    await next_success(visitor.done)

    ended_s = time.monotonic()
    for member in members:
        await asyncio.to_thread(member.end)
    for probe in probes.values():
        await probe.end()

    whole = Window(began_s, ended_s)
    restarts = [window for window in down if window not in out and window.begin_s >= began_s]
    for member in always:
        excused = restarts
        if member is visitor:
            excused = [*(window for window in restarts if window.end_s < silent.begin_s), silent]
        gap_s = longest_gap_s(member.times, whole, excused)
        assert gap_s < OUT_S, (type(member).__name__, member._topic, gap_s)
    for member in guests:
        gap_s = longest_gap_s(member.times, whole, down)
        assert gap_s < OUT_S, (type(member).__name__, member._topic, gap_s)
        for window in out:
            late = [at for at in member.times if window.begin_s + REVOKED_S < at < window.end_s]
            assert not late, (type(member).__name__, late)
    for window in out:
        admitted = probes["guest"].admitted
        assert not [at for at in admitted if window.begin_s + REVOKED_S < at < window.end_s]
    assert longest_gap_s(probes["steady"].admitted, whole, down) < OUT_S
    assert not [at for at in probes["steady"].refused if began_s < at]
    assert not [at for at in probes["former"].admitted if at > former_out_s]
    assert [at for at in probes["former"].admitted if at < restarted_s]
    for publisher in (steady, encrypted, visitor, guest, for_guest):
        missing = await asyncio.to_thread(confirmed_but_missing, place, publisher, publisher._topic)
        assert not missing, (publisher._topic, sorted(missing)[:10])
    unread = {payload for _, payload in steady.done} - {payload for _, payload in reads.done}
    assert len(unread) < 50, len(unread)
