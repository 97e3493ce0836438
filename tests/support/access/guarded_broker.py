"""A broker's data path that judges its clients by stored tenants and policies, for tests of authorization."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from engine.auth.authorization.evaluator import AccessRules
from engine.auth.credentials import Credentials
from engine.auth.identity import Identity
from engine.base.names import NamespaceName, TopicName
from engine.broker.connection.session import Session
from engine.broker.connection.sessions import Sessions
from engine.broker.policy_changes import ChangeQueue
from engine.broker.revocation import Revocation
from engine.metadata.memory import MemoryStore
from engine.metadata.store import Stat, StoreUnavailableError, Watch
from engine.tenancy import grants, tenants
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.policy_judge import PolicyJudge
from engine.tenancy.access.stored_access import Recorded
from engine.tenancy.namespaces import bootstrap, create_namespace
from engine.wire import client_commands
from engine.wire import pulsar_pb2 as pb
from tests.support.broker_bench import NAME, Bench, commands_in, opened
from tests.support.raw_client import entry_of

NAMESPACE = NAME.namespace
OTHER = NamespaceName.parse("public/other")
CLUSTER = "standalone"
RULES = AccessRules(
    superusers=frozenset({"root", "proxy"}), proxies=frozenset({"proxy"}), cluster=CLUSTER
)


def authenticate(credentials: Credentials) -> Identity:
    """Return the role that a client states."""
    return Identity(
        (credentials.data or b"").decode() or None, credentials.original_principal, "stated"
    )


class Wire:
    """A client's connection: the bytes that it sends, and the commands that it receives."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._sent = bytearray()
        self._last_id = 0
        session.send = self._sent.extend  # type: ignore[method-assign, assignment]
        session.is_alive = self._is_alive  # type: ignore[method-assign]
        session.send_parts = lambda parts: self._sent.extend(b"".join(parts))  # type: ignore[method-assign]

    async def _is_alive(self) -> bool:
        return not self.session.closing

    @property
    def received(self) -> list[pb.BaseCommand]:
        """The commands that were received, in order."""
        return list(commands_in(bytes(self._sent)))

    def kinds(self) -> list[str]:
        """Return the types of the received commands."""
        return [pb.BaseCommand.Type.Name(command.type) for command in self.received]

    def bodies(self, field: str) -> list[Any]:
        """Return the received commands of one type."""
        return [getattr(command, field) for command in self.received if command.HasField(field)]

    def send(self, frame: bytes) -> None:
        self.session.data_received(frame)

    async def ask(self, build: Callable[[int], bytes]) -> Any:
        """Send a request, which ``build`` makes of its id, and return the body of its answer."""
        self._last_id += 1
        request_id = self._last_id
        self.send(build(request_id))
        async with asyncio.timeout(30):
            while True:
                for command in self.received:
                    body = getattr(command, command.ListFields()[-1][0].name)
                    if getattr(body, "request_id", None) == request_id:
                        return body
                await asyncio.sleep(0.001)

    async def produce(self, topic: TopicName = NAME, number: int = 1, **fields: Any) -> Any:
        return await self.ask(
            lambda request: client_commands.producer(topic.full, number, request, **fields)
        )

    async def consume(
        self, topic: TopicName = NAME, subscription: str = "s", number: int = 1, **fields: Any
    ) -> Any:
        answer = await self.ask(
            lambda request: client_commands.subscribe(
                topic.full, subscription, 1, number, request, **fields
            )
        )
        self.send(client_commands.flow(number, 1000))
        return answer

    def publish(self, sequence: int, number: int = 1) -> None:
        self.send(client_commands.send(number, sequence, entry_of(b"v")))


class Guarded:
    """The bench, the store as an administrator writes it, and the parts that judge."""

    def __init__(self, bench: Bench, writer: MemoryStore) -> None:
        self.bench = bench
        self.writer = writer
        self.store: MemoryStore = bench.cluster.server.session()
        self._get = self.store.get
        changes = ChangeQueue[Recorded]()
        self.records = AccessRecords(self.store, on_change=changes.note)
        self.judge = bench.context.judge = PolicyJudge(self.records, RULES)
        bench.context.authenticate = authenticate
        self.sessions: Sessions = bench.sessions()
        self.revocation = Revocation(
            self.records, changes, self.judge, bench.registry._loaded, self.sessions
        )
        self.wires: list[Wire] = []

    def client(self, role: str, original: str | None = None) -> Wire:
        """Return the connection of a client with a role."""
        wire = Wire(self.sessions.accept())
        wire.send(
            client_commands.connect(
                "test",
                auth_method_name="stated",
                auth_data=role.encode(),
                original_principal=original,
            )
        )
        self.wires.append(wire)
        return wire

    async def grant(self, role: str, *actions: str, namespace: NamespaceName = NAMESPACE) -> None:
        await grants.grant(self.writer, namespace, role, list(actions))

    async def revoke(self, role: str, namespace: NamespaceName = NAMESPACE) -> None:
        await grants.revoke(self.writer, namespace, role)

    async def administer(self, *roles: str) -> None:
        """Give the tenant these administrators alone."""
        record = {"adminRoles": list(roles), "allowedClusters": [CLUSTER]}
        await tenants.update_tenant(self.writer, "public", record)

    def fail_reads(self, on: bool) -> None:
        """Fail each read of the judge's session from now on, without a loss of its connection."""

        async def fail(path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
            raise StoreUnavailableError("failed by the test")

        self.store.get = fail if on else self._get  # type: ignore[method-assign]


@asynccontextmanager
async def guarded() -> AsyncIterator[Guarded]:
    """Yield a broker with the tenant ``public``, which ``admin`` administers, and two namespaces without grants."""
    async with opened() as bench:
        writer = bench.cluster.server.session()
        await bootstrap(
            writer,
            cluster=CLUSTER,
            broker_url="pulsar://b:6650",
            web_url="http://b:8080",
            default_bundles=4,
        )
        await create_namespace(writer, OTHER, None, cluster=CLUSTER)
        broker = Guarded(bench, writer)
        await broker.administer("admin")
        broker.revocation.start()
        yield broker
        for wire in broker.wires:
            wire.session.closed(None)
        await broker.revocation.close()
        await broker.records.close()
        await broker.sessions.close()
        await broker.store.close()
        await writer.close()
