"""The lifecycle of a worker: listen, join the cluster, run instances, drain."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from engine.admin.api.arguments import OnTopic
from engine.admin.api.topics import COMPACT
from engine.admin.client import AdminClient
from engine.base.backoff import Backoff
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import Conflict, MagnetarError, NotReady, Refusal
from engine.base.metrics import of_process
from engine.base.names import TopicName
from engine.base.tasks import TaskScope, contained, restarting
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.functions.registered_workers import WorkerRecord, registered_workers
from engine.functions.runtime.ports import InstanceRuntime
from engine.functions.runtime.trials import TrialRunner
from engine.functions.worker.answering.cleaning import FunctionCleanup, Removal
from engine.functions.worker.answering.cluster_operations import ClusterOperations
from engine.functions.worker.answering.function_operations import FunctionOperations
from engine.functions.worker.answering.held_operations import HeldOperations
from engine.functions.worker.answering.instance_calls import InstanceCalls
from engine.functions.worker.answering.leader_routing import LeaderRouting
from engine.functions.worker.answering.trying import TriedFunctions
from engine.functions.worker.answering.worker_metrics import WorkerFigures, metrics_page
from engine.functions.worker.apaches.apache_link import ApacheLink
from engine.functions.worker.apaches.apache_members import ApacheMembers
from engine.functions.worker.apaches.apache_worker_client import ApacheWorkerClient
from engine.functions.worker.joining import ensure_functions_namespace, ensure_topics
from engine.functions.worker.placing.followed_topics import FollowedTopics
from engine.functions.worker.placing.leading import FunctionLeader, LeaderTimes
from engine.functions.worker.placing.worker_presence import WorkerPresence
from engine.functions.worker.running.instance_keeper import KeeperParts
from engine.functions.worker.running.instances import WorkerInstances
from engine.functions.worker.running.preparing import Preparation
from engine.functions.worker.settings import WorkerProgramSettings
from engine.metadata.store import MetadataStore, SessionState
from engine.net.http import HttpServer, Request, Response
from engine.net.network import Network
from engine.rpc.client import RpcClient
from engine.rpc.client_authentication import ClientAuthentication
from engine.rpc.server import RpcPages
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.policy_judge import create_judge
from engine.tenancy.access.revoked_tokens import RevokedTokens

log = logging.getLogger(__name__)

HTTP_CONNECTIONS_MAX = 1000
CALL_S = 15.0
"""Time in which brokers and other workers must answer."""
JOIN_S_MAX = 5.0
DRAIN_S = 20.0


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """Settings of a worker, the seams, and the parts that touch the machine."""

    settings: WorkerProgramSettings
    token: str
    """The instance's internal token."""
    clock: Clock
    entropy: Entropy
    network: Network
    store: MetadataStore
    runtime: InstanceRuntime
    preparation: Preparation
    brokers: AdminClient
    removals: Sequence[Removal] = ()
    """Removals of what a deleted function leaves in other parts."""
    trials: TrialRunner | None = None
    """Runs trials; None: there are none."""


class FunctionsWorker:
    """A worker. ``start`` is called once, then ``drain`` once.

    It registers as soon as it listens, so that others see that there is a worker, and answers operations once it has
    read the functions. Without brokers it waits for them.
    """

    def __init__(self, resources: WorkerResources) -> None:
        """Create without listening. Call it inside a running event loop."""
        self.base = base = resources
        settings = base.settings
        self.client = PulsarClient(
            network=base.network,
            clock=base.clock,
            entropy=base.entropy,
            brokers=self._service_urls,
            settings=LinkSettings(
                client_version="Magnetar-Functions",
                credentials=settings.broker_client.credentials(),
                tls=settings.broker_client.tls(),
            ),
        )
        self._workers = RpcClient(
            *(base.network, base.token, "worker"),
            timeout_s=CALL_S,
            tls=settings.broker_client.tls(),
        )
        self._access = AccessRecords(base.store)
        self._revoked = RevokedTokens(base.store, base.clock, lambda: None)
        self._authentication = ClientAuthentication(
            settings.identity, base.network, base.clock, self._revoked
        )
        self._http = HttpServer(base.network, self._answer, connections_max=HTTP_CONNECTIONS_MAX)
        self._tasks = TaskScope("functions worker")
        self._renew = asyncio.Event()
        self._pages: RpcPages | None = None
        self._joined = False
        self.port = 0
        self.parts: WorkerParts | None = None
        """The parts that work in the cluster; None before ``start``."""

    @property
    def ready(self) -> bool:
        """True while the worker is registered and knows the functions."""
        return self._joined and self.parts is not None and self.parts.presence.proven

    async def _service_urls(self) -> list[str]:
        encrypted = self.base.settings.broker_client.broker_client_tls_enabled
        brokers = await self.base.brokers.brokers()
        urls = [broker.service_url_tls if encrypted else broker.service_url for broker in brokers]
        return [url for url in urls if url]

    # --- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen and register; join the cluster in the background.

        Raises OSError when a port is in use, TlsFileError.
        """
        base, worker = self.base, self.base.settings.worker
        self.port = await self._http.listen(worker.bind_address, worker.worker_port)
        url_tls = ""
        if worker.worker_port_tls is not None:
            tls = base.settings.tls.context()
            port = await self._http.listen(worker.bind_address, worker.worker_port_tls, tls=tls)
            url_tls = f"https://{worker.host}:{port}"
        record = WorkerRecord(
            base.settings.id_at(self.port),
            worker.host,
            self.port,
            f"http://{worker.host}:{self.port}",
            base.clock.wall_ms(),
            url_tls,
            *worker.web_address,
        )
        self.parts = parts = WorkerParts(base, record, self.client, self._workers, self)
        await base.preparation.clear()
        self._pages = self._serve_pages(parts)
        self._authentication.start(lambda: None)
        base.store.on_state(self._on_state)
        parts.instances.start()
        self._tasks.spawn("join", self._join(parts))
        self._tasks.spawn(
            "register", restarting("registration", partial(self._keep_registered, parts.presence))
        )
        log.info("functions worker %s listens http=%s", record.id, record.rpc_url)

    async def _join(self, parts: "WorkerParts") -> None:
        """Create what is missing and read the topics, as soon as the brokers let it."""
        await self._until_done("join the cluster", self._create)
        self._revoked.start()
        parts.followed.start()
        await self._until_done("read the functions", parts.followed.caught_up)
        self._joined = True
        parts.leader.start()
        self._tasks.spawn("compaction", restarting("compaction", self._compact))
        log.info("functions worker %s ready", parts.record.id)

    async def _create(self) -> None:
        """Create the namespace and the topics. Raises MagnetarError."""
        base, worker = self.base, self.base.settings.worker
        cluster = base.settings.instance.cluster_name
        await self._revoked.load()
        await ensure_functions_namespace(base.store, worker.namespace, cluster)
        await ensure_topics(base.brokers, worker.topics)

    async def _until_done(self, what: str, attempt: Callable[[], Awaitable[None]]) -> None:
        """Repeat an attempt until it succeeds; an outage is logged once."""
        backoff = Backoff(max_s=JOIN_S_MAX)
        failing = False
        while True:
            try:
                return await attempt()
            except Exception as error:
                if not failing:
                    expected = isinstance(error, MagnetarError)
                    log.warning(
                        "cannot %s yet: %s", what, error, exc_info=None if expected else error
                    )
                failing = True
            await asyncio.sleep(backoff.next_s(self.base.entropy.random()))

    async def _keep_registered(self, presence: WorkerPresence) -> None:
        await self._until_done("register", presence.begin)
        while True:
            await self._renew.wait()
            self._renew.clear()
            await self._until_done("register again", presence.renew)

    def _on_state(self, state: SessionState) -> None:
        registered = self.parts is None or self.parts.presence.proven
        if state is SessionState.CONNECTED and not registered:
            self._renew.set()

    async def _compact(self) -> None:
        """Have the assignments compacted from time to time, as the leader."""
        worker = self.base.settings.worker
        topic = TopicName.parse(worker.topics.assignments)
        while True:
            await asyncio.sleep(worker.topic_compaction_frequency_sec)
            if self.parts is not None and self.parts.leader.ready:
                try:
                    await self.base.brokers.call(COMPACT, OnTopic(topic))
                except Conflict:
                    continue  # one is running
                except Refusal as error:
                    log.info("the assignments are compacted later: %s", error)

    async def drain(self) -> None:
        """End all instances, leave the workers, and close; also after a failed start."""
        await self._tasks.close()
        parts = self.parts
        steps = [("http", self._http.close)]
        if parts is not None:
            steps = [
                ("leader", parts.leader.close),
                ("instances", parts.instances.close),
                ("registration", parts.presence.withdraw),
                ("topics", parts.followed.close),
                *steps,
                ("files", self.base.preparation.clear),
            ]
        steps += [
            ("client", self.client.close),
            ("authentication", self._authentication.close),
            ("revoked tokens", self._revoked.close),
        ]
        for part, close in steps:
            with contained(f"end of {part}"), suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    await close()
        self.base.preparation.close()
        self._workers.close()
        if parts is not None:
            parts.apaches.client.close()
        self.base.brokers.close()

    # --- the private port ------------------------------------------------------------------------

    async def _answer(self, request: Request) -> Response:
        if self._pages is None:
            return Response(503, b"starting", "text/plain")
        return await self._pages(request)

    def _serve_pages(self, parts: "WorkerParts") -> RpcPages:
        settings = self.base.settings
        authenticated = settings.authentication.authentication_enabled
        return RpcPages(
            parts.handlers,
            self.base.token,
            create_judge(settings.identity, self._access, settings.instance.cluster_name),
            refusal_of=lambda error: NotReady(str(error)) if error.retriable else None,
            ready=lambda: self.ready,
            metrics=self._metrics,
            identify=self._authentication.of_request if authenticated else None,
            guard_metrics=settings.worker.authenticate_metrics_endpoint,
        )

    async def _metrics(self) -> AsyncIterator[bytes]:
        parts = self.parts
        assert parts is not None
        assigned = parts.followed.assignments.of_worker(parts.record.id)
        figures = WorkerFigures(
            self.base.settings.instance.cluster_name,
            parts.record.id,
            leads=parts.leader.ready,
            workers=len(await registered_workers(self.base.store)),
            functions=len(parts.followed.functions.functions),
            assigned=len(assigned),
            rounds=parts.leader.rounds,
        )
        async for piece in metrics_page(figures, parts.instances, of_process(self.base.clock)):
            yield piece

    @property
    def joined(self) -> bool:
        """True once the functions were read."""
        return self._joined


class WorkerParts:
    """The parts of a worker that listens, connected with each other."""

    def __init__(
        self,
        base: WorkerResources,
        record: WorkerRecord,
        client: PulsarClient,
        workers: RpcClient,
        owner: FunctionsWorker,
    ) -> None:
        worker = base.settings.worker
        self.record = record
        self.presence = WorkerPresence(base.store, record)
        self.followed = FollowedTopics(
            client,
            worker.topics,
            on_functions=lambda: self.leader.changed(),
            on_assignments=self._follow,
        )
        self.instances = WorkerInstances(
            KeeperParts(
                base.store,
                base.clock,
                base.entropy,
                record.id,
                base.runtime,
                base.preparation,
                worker.function_stop_timeout_ms / 1000,
                (
                    worker.function_restart_first_ms / 1000,
                    worker.function_restart_longest_ms / 1000,
                ),
            )
        )
        encrypted = base.settings.broker_client.broker_client_tls_enabled
        self.apaches = ApacheLink(
            ApacheMembers(base.brokers, worker.topics.coordination),
            ApacheWorkerClient(
                *(base.network, base.entropy),
                timeout_s=CALL_S,
                credentials=base.settings.broker_client.credentials(),
                tls=base.settings.broker_client.tls(),
            ),
        )
        self.leader = FunctionLeader(
            *(client, base.store, base.clock, self.presence, self.followed),
            LeaderTimes(worker.reschedule_timeout_ms / 1000, worker.failure_check_freq_ms / 1000),
            others=self.apaches.members.ids,
            clean_up=FunctionCleanup(base.store, client, base.brokers, tuple(base.removals)),
        )
        self.tried = TriedFunctions(base.preparation, base.trials, base.entropy)
        held = HeldOperations(self.instances, record.id)
        routing = LeaderRouting(
            *(base.store, record, self.followed, self.leader, self.apaches, lambda: owner.joined)
        )
        calls = InstanceCalls(
            *(base.store, record, self.followed, held, workers, self.apaches),
            encrypted=encrypted,
        )
        functions = FunctionOperations(
            *(base.store, base.clock, base.entropy, client, record.id, self.followed),
            *(self.leader, routing, calls, self.apaches.client),
            superusers=base.settings.roles_withheld,
            trigger_s=worker.function_trigger_timeout_ms / 1000,
        )
        cluster = ClusterOperations(
            base.store, self.followed, self.leader, routing, calls, self.apaches
        )
        self.handlers = held.handlers | self.tried.handlers | functions.handlers | cluster.handlers

    def _follow(self) -> None:
        self.instances.follow(self.followed.assignments.of_worker(self.record.id))
