"""The removal of what a deleted function leaves: its subscriptions, its state, its leases."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from engine.admin.api.subscriptions import DELETE_SUBSCRIPTION, DeleteSubscription
from engine.admin.api.topics import DELETE_TOPIC, DeleteTopic
from engine.admin.client import AdminClient
from engine.base.errors import NotFound
from engine.base.names import FUNCTION_STATE_PREFIX, NamespaceName, TopicName
from engine.client.client import PulsarClient, partition_names
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import FunctionName
from engine.functions.worker.placing.known_functions import full_name
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError, NotEmptyError
from engine.tenancy.topics import topic_exists

log = logging.getLogger(__name__)

Removal = Callable[[pb.FunctionMetaData], Awaitable[None]]
"""Removes another thing that a function leaves; may be repeated. Raises MagnetarError."""


def subscription_of(metadata: pb.FunctionMetaData) -> str:
    """Return the name of a function's subscription."""
    return metadata.functionDetails.source.subscriptionName or full_name(metadata)


class FunctionCleanup:
    """Removal of what deleted functions leave; ``further``: what other parts keep for them."""

    def __init__(
        self,
        store: MetadataStore,
        client: PulsarClient,
        brokers: AdminClient,
        further: tuple[Removal, ...] = (),
    ) -> None:
        self._store = store
        self._client = client
        self._brokers = brokers
        self._further = further

    async def __call__(self, metadata: pb.FunctionMetaData) -> bool:
        """Remove everything and return True; False while an instance has not ended yet. May be repeated.

        Raises MagnetarError.
        """
        leases = paths.function_instances(full_name(metadata))
        try:
            if await self._store.children(leases):
                return False
        except NoNodeError:
            pass
        if metadata.functionDetails.source.cleanupSubscription:
            await self._delete_subscriptions(metadata)
        await self._delete_state(metadata)
        for remove in self._further:
            await remove(metadata)
        with suppress(NoNodeError, NotEmptyError):
            await self._store.delete(leases)
        return True

    async def _delete_subscriptions(self, metadata: pb.FunctionMetaData) -> None:
        subscription = subscription_of(metadata)
        for topic in await self._inputs(metadata):
            with suppress(NotFound):
                args = DeleteSubscription(TopicName.parse(topic), subscription, force=True)
                await self._brokers.call(DELETE_SUBSCRIPTION, args)
                log.info("subscription %s of %s deleted with its function", subscription, topic)

    async def _delete_state(self, metadata: pb.FunctionMetaData) -> None:
        name = FunctionName.of(metadata.functionDetails)
        namespace = NamespaceName.parse(f"{name.tenant}/{name.namespace}")
        topic = namespace.topic(f"{FUNCTION_STATE_PREFIX}{name.name}")
        if await topic_exists(self._store, topic):
            with suppress(NotFound):
                await self._brokers.call(DELETE_TOPIC, DeleteTopic(topic, force=True))
                log.info("state of %s deleted with it", name)

    async def _inputs(self, metadata: pb.FunctionMetaData) -> list[str]:
        """Return the topics that a function reads, partitions in place of partitioned ones. Raises MagnetarError."""
        topics: list[str] = []
        for topic, spec in metadata.functionDetails.source.inputSpecs.items():
            name = TopicName.parse(topic)
            if spec.isRegexPattern:
                topics += await self._client.topics_matching(name)
            else:
                topics += partition_names(str(name), await self._client.partitions(str(name)))
        return topics
