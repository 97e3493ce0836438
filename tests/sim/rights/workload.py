"""Rights that an administrator takes and gives while clients use them, and tokens that it revokes, under faults.

Nothing is published or delivered later than a second after a confirmed revocation while the store answers, and no
client is refused or closed for another reason (A18, A19, A24)."""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from engine.auth.actions import Action
from engine.auth.authentication import Authentication
from engine.auth.identity import Evidence, Identity
from engine.base.clock import LoopClock
from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.broker.dispatch.consumer import Consumer
from engine.broker.revocation import Revocation
from engine.broker.topics.publish import Publish
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.raw_producer import RawProducer
from engine.metadata import paths
from engine.metadata.store import MetadataStore, SessionState
from engine.net.routing import Router
from engine.tenancy import grants, tenants
from engine.tenancy.access.revoked_tokens import revoke_token
from engine.wire import events
from engine.wire.batches import Message, pack_entry
from tests.sim.kit.cluster import Machine, token_of
from tests.sim.kit.loop import NODE
from tests.sim.kit.scenario import Run, first_of
from tests.sim.rights.history import SAMPLE_S, Notices, Right, Sample
from tests.sim.topics.client import SETTINGS, Client
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.observer import Observer

TOPIC = TopicName.parse("persistent://public/default/rights")
NAMESPACE = TOPIC.namespace
SOURCES = ("namespace", "topic", "tenant", "subscription")
"""Places where the right of a role is stored: grants, administrators, or the roles of its subscription."""
BOTH = ["produce", "consume"]
SETTLE_S = 60.0
PERMITS = 1_000_000


@dataclass(frozen=True)
class Rights:
    """The source of each role's right, how often a second one of them changes, and a token is revoked."""

    sources: tuple[str, ...]
    changes: float
    revocations: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Rights":
        sources = tuple(rng.choices(SOURCES, k=rng.choice((2, 3, 4))))
        return cls(sources, rng.choice((0.5, 2.0)), rng.choice((0.0, 0.5)))

    def setup(self, run: Run) -> "RightsWorkload":
        return RightsWorkload(run, self)


class Role(Client):
    """The base of the two clients of a role."""

    def __init__(self, observer: Observer, role: str, kind: str, tokens: dict[str, int]) -> None:
        """``tokens``: the number of each role's present token."""
        super().__init__(observer, f"{role}-{kind}", str(TOPIC))
        self.role = role
        self.attached = False
        self.done = 0

        def credentials(challenge: bytes) -> tuple[str, bytes]:
            return "token", token_of(role, token_id_of(role, tokens[role])).encode()

        self.settings = replace(SETTINGS, credentials=credentials)


class Writer(Role):
    """A producer that publishes as long as it may. ``done``: receipts."""

    async def _session(self) -> None:
        link = await self.open()
        producer = await RawProducer.open(
            link, self.topic, on_receipts=self._receipts, on_end=self.wake_up
        )
        self.attached = True
        try:
            number = 0
            while producer.error is None:
                self.wake.clear()
                message = Message(b"x", sequence_id=number)
                entry = pack_entry([message], producer_name=self.name, publish_ms=1)
                producer.send([number], [entry])
                number += 1
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.rng.expovariate(10.0)):
                        await self.wake.wait()
            raise producer.error
        finally:
            self.attached = False

    def _receipts(self, receipts: Sequence[events.Receipt]) -> None:
        self.done += len(receipts)


class Reader(Role):
    """A consumer of a subscription of its own. ``done``: messages."""

    async def _session(self) -> None:
        link = await self.open()
        consumer = await RawConsumer.open(
            link,
            self.topic,
            subscription_of(self.role),
            SHARED,
            on_messages=lambda messages: self._receive(consumer, messages),
            on_end=self.wake_up,
            name=self.name,
            initial=FROM_EARLIEST,
        )
        self.attached = True
        consumer.flow(PERMITS)
        try:
            while consumer.error is None:
                self.wake.clear()
                await self.wake.wait()
            raise consumer.error
        finally:
            self.attached = False

    def _receive(self, consumer: RawConsumer, messages: Sequence[events.Delivered]) -> None:
        self.done += len(messages)
        consumer.acknowledge([message.position for message in messages])


class RightsWorkload:
    """The roles, the administrator, and the checks, which stand where brokers act."""

    def __init__(self, run: Run, plan: Rights) -> None:
        self.run = run
        self.plan = plan
        observer = Observer(run.cluster, [str(TOPIC)])
        run.faults |= {name: partial(act, observer) for name, act in TOPIC_FAULTS.items()}
        self.roles = {f"role-{n}": source for n, source in enumerate(plan.sources)}
        self.rights = {role: Right() for role in self.roles}
        self.tokens = dict.fromkeys(self.roles, 0)
        self.revoked: dict[str, Right] = {}
        """Revoked tokens, by id."""
        self.writers = [Writer(observer, role, "writer", self.tokens) for role in self.roles]
        self.readers = [Reader(observer, role, "reader", self.tokens) for role in self.roles]
        self.notices: dict[str, Notices] = {}
        self._rng = random.Random(f"{run.loop.seed}/rights")
        self._wrong: dict[str, None] = {}
        self._store: MetadataStore | None = None
        self._changing: list[asyncio.Task[None]] = []
        run.limits += self._hooks()

    # --- what brokers do ------------------------------------------------------------------------

    def _hooks(self) -> list[tuple[Any, str, Any]]:
        """Return the shipped functions at which the promises are checked, wrapped."""
        start, deliver, partly = Publish.start, Consumer.deliver, Consumer.deliver_partly
        allowed, revoked = Router._is_allowed, Revocation._log
        withdrawn = Authentication._is_withdrawn

        def published(publish: Publish) -> None:
            self._acted(publish.producer.outlet.identity, Action.PRODUCE)
            start(publish)

        def delivered(real: Callable[..., None], consumer: Consumer, *given: Any) -> None:
            self._acted(consumer.outlet.identity, Action.CONSUME)
            real(consumer, *given)

        def judged(router: Router, family: object, route: Any, body: Any, verdict: Any) -> bool:
            passes = allowed(router, family, route, body, verdict)
            if not passes and verdict.reason:
                self._refused(router._identity(), route.judged[0].action, "refused")
            return passes

        def closed(address: str, right: Any, verdict: Any) -> None:
            self._refused(right.identity, right.action, "disconnected")
            revoked(address, right, verdict)

        def ended(authentication: Authentication, evidence: Evidence) -> bool:
            is_withdrawn = withdrawn(authentication, evidence)
            if is_withdrawn and evidence.token_id not in self.revoked:
                self._note(f"token {evidence.token_id} is refused, which was not revoked")
            return is_withdrawn

        return [
            (Authentication, "_is_withdrawn", ended),
            (Publish, "start", published),
            (Consumer, "deliver", lambda *given: delivered(deliver, *given)),
            (Consumer, "deliver_partly", lambda *given: delivered(partly, *given)),
            (Router, "_is_allowed", judged),
            (Revocation, "_log", staticmethod(closed)),
        ]

    def _right(self, identity: Identity, action: Action) -> Right | None:
        """Return the right that an action depends on; None for one that is never taken."""
        role = identity.role or ""
        if self.roles.get(role) == "subscription" and action is not Action.CONSUME:
            return None
        return self.rights.get(role)

    def _acted(self, identity: Identity, action: Action) -> None:
        """Check that a broker may still serve a role."""
        right = self._right(identity, action)
        by = self._acted_by()
        if right is not None and right.is_surely(False, by):
            self._note(f"{identity.role} may not {action.value} since {right.confirmed:.2f}")
        token = self.revoked.get(identity.token_id)
        if token is not None and token.is_surely(False, by):
            self._note(f"token {identity.token_id} was revoked at {token.confirmed:.2f}")

    def _refused(self, identity: Identity, action: Action, what: str) -> None:
        """Check that a broker may refuse a role for good."""
        self.run.cluster.count(what)
        right = self._right(identity, action)
        machine = self._machine()
        if right is None:
            self._note(f"{identity.role} is {what}, whose right to {action.value} is never taken")
        elif machine.store is not None and machine.store.state is not SessionState.CONNECTED:
            self._note(f"{identity.role} is {what} while the store is away")
        elif right.is_surely(True, self._acted_by()):
            self._note(f"{identity.role} is {what}, which may since {right.confirmed:.2f}")

    def _machine(self) -> Machine:
        return self.run.cluster.machines[NODE.get().name]

    def _acted_by(self) -> float | None:
        machine = self._machine()
        notices = self.notices.get(machine.name)
        if notices is None:
            return None
        return notices.acted_by(self.run.loop.now, self._connection(machine))

    @staticmethod
    def _connection(machine: Machine) -> tuple[str, int] | None:
        store, node = machine.store, machine.node
        if (
            store is None
            or node is None
            or node.paused
            or store.state is not SessionState.CONNECTED
        ):
            return None
        return machine.incarnation, store.connection

    def _look(self) -> None:
        now = self.run.loop.now
        for machine in self.run.cluster.brokers:
            proof = machine.store._proof if machine.store is not None else 0.0
            sample = Sample(now, proof, self._connection(machine))
            self.notices.setdefault(machine.name, Notices()).add(sample)

    def _note(self, text: str) -> None:
        self._wrong[f"{NODE.get().name} at {self.run.loop.now:.2f}: {text}"] = None

    # --- the administrator ----------------------------------------------------------------------

    async def start(self) -> None:
        assert SAMPLE_S >= 0.25  # the interval of Run.watch
        self.run.watch(self._look)
        tree = self.run.cluster.tree
        await self.run.reach(
            "find the namespace",
            lambda: tree.exists(paths.namespace_policies(str(NAMESPACE))) is not None,
            SETTLE_S,
            lambda: ["its policies"],
        )
        self._store = self.run.cluster.metadata.session(SETTLE_S)
        for role, source in self.roles.items():
            if source == "subscription":
                await self._until_done(partial(grants.grant, self._store, NAMESPACE, role, BOTH))
            await self._change(role, True)
        for client in (*self.writers, *self.readers):
            client.start()
        await self.run.reach("use the topic", self._all_attached, SETTLE_S, self._missing)
        work = (self._keep_changing(), *([self._keep_revoking()] if self.plan.revocations else []))
        self._changing = [self.run.loop.create_task(part) for part in work]

    async def _keep_changing(self) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(self.plan.changes))
            role = self._rng.choice(list(self.roles))
            await self._change(role, not self.rights[role].allowed)

    async def _keep_revoking(self) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(self.plan.revocations))
            await self._revoke_token(self._rng.choice(list(self.roles)))

    async def _revoke_token(self, role: str) -> None:
        """Revoke the present token of a role until that is confirmed; its clients use the next one from now on."""
        assert self._store is not None
        token_id = token_id_of(role, self.tokens[role])
        self.tokens[role] += 1
        revoked = self.revoked[token_id] = Right(confirmed=None)
        revoked.begin(False)
        await self._until_done(
            partial(revoke_token, self._store, token_id, expires_at=None, clock=LoopClock())
        )
        revoked.confirm(self.run.loop.now)
        self.run.cluster.count("revoked tokens")

    async def _change(self, role: str, allowed: bool) -> None:
        """Change a right until that is confirmed."""
        right = self.rights[role]
        right.begin(allowed)
        await self._until_done(partial(self._write, role, self.roles[role], allowed))
        right.confirm(self.run.loop.now)
        self.run.cluster.count("grants" if allowed else "revocations")

    async def _until_done(self, work: Callable[[], Any]) -> None:
        while True:
            try:
                await work()
                return
            except MagnetarError:
                await asyncio.sleep(0.1)

    async def _write(self, role: str, source: str, allowed: bool) -> None:
        store = self._store
        assert store is not None
        if source == "subscription":
            roles = [role if allowed else "others"]
            await grants.grant_on_subscription(store, NAMESPACE, subscription_of(role), roles)
        elif source == "tenant":
            admins = [name for name, where in self.roles.items() if where == "tenant"]
            wanted = [name for name in admins if self.rights[name].allowed]
            record = {"adminRoles": wanted, "allowedClusters": ["standalone"]}
            await tenants.update_tenant(store, NAMESPACE.tenant, record)
        else:
            topic = TOPIC if source == "topic" else None
            if allowed:
                await grants.grant(store, NAMESPACE, role, BOTH, topic=topic)
            else:
                await grants.revoke(store, NAMESPACE, role, topic=topic)

    # --- the end --------------------------------------------------------------------------------

    def _all_attached(self) -> bool:
        return all(client.attached for client in (*self.writers, *self.readers))

    def _missing(self) -> list[str]:
        clients = (*self.writers, *self.readers)
        return [client.name for client in clients if not client.attached]

    async def quiet(self) -> None:
        for task in self._changing:
            task.cancel()
        for role in self.roles:
            await self._change(role, True)
        await self.run.reach("use the topic again", self._all_attached, SETTLE_S, self._missing)
        counts = {client.name: client.done for client in (*self.writers, *self.readers)}
        await self.run.reach(
            "publish and receive",
            lambda: all(c.done > counts[c.name] for c in (*self.writers, *self.readers)),
            SETTLE_S,
            lambda: [c.name for c in (*self.writers, *self.readers) if c.done == counts[c.name]],
        )
        for role in self.roles:
            await self._change(role, False)
        await self.run.reach("be left alone", lambda: not self._open(), SETTLE_S, self._open)
        for client in (*self.writers, *self.readers):
            client.stopping = True
            client.cut()
            if client.task is not None:
                client.task.cancel()

    def _open(self) -> list[str]:
        """Return what revoked roles still have open on brokers."""
        roles: list[str] = []
        for machine in self.run.cluster.brokers:
            topic = None
            if machine.broker is not None and machine.ready:
                topic = machine.broker.running.registry.loaded(TOPIC)
            if topic is None:
                continue
            identities = [
                producer.outlet.identity for producer in topic.publishers.attached.values()
            ]
            roles += [i.role or "" for i in identities if self._right(i, Action.PRODUCE)]
            for subscription in topic.subscriptions.values():
                roles += [
                    consumer.outlet.identity.role or "" for consumer in subscription.consumers
                ]
        return roles

    def check(self) -> list[str]:
        return first_of([f"rights: {text}" for text in self._wrong], "rights")


def token_id_of(role: str, number: int) -> str:
    """Return the id of a role's token of this number."""
    return f"{role}.{number}"


def subscription_of(role: str) -> str:
    """Return the name of the role's subscription."""
    return f"of-{role}"
