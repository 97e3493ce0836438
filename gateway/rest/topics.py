"""``/admin/v2/persistent`` and ``/admin/v2/non-persistent``: the topics of a namespace."""

from contextlib import suppress
from typing import Any, ClassVar

from django.http import Http404, HttpRequest, HttpResponse

from engine.auth.actions import Action
from engine.base.errors import InvalidField, InvalidNameError, InvalidRequest
from engine.base.names import NamespaceName, TopicName
from engine.tenancy import topics as metadata
from engine.tenancy.geo.shadow_topics import source_of
from engine.tenancy.namespaces import namespace_name
from gateway.http.auth.access import LIST_NAMESPACE, authorize_needs
from gateway.http.bodies import (
    flag,
    json_answer,
    json_body,
    json_list,
    no_content,
    object_body,
    string_map,
    whole_number,
)
from gateway.rest.access.seen import seen_topics
from gateway.rest.base import AdminResource
from gateway.rest.messages import message_answer, required_position
from gateway.rest.rights import ADMIN, CONSUME, LOOKUP
from gateway.services.admin import (
    existence,
    messages,
    names,
    partitioned_topics,
    statistics,
    topics,
)

STATS_FLAGS = {
    "precise_backlog": ("getPreciseBacklog", False),
    "subscription_backlog_size": ("subscriptionBacklogSize", True),
    "earliest_time_in_backlog": ("getEarliestTimeInBacklog", False),
    "exclude_publishers": ("excludePublishers", False),
    "exclude_consumers": ("excludeConsumers", False),
}


class TopicPathResource(AdminResource):
    """Base of resources whose path holds a topic's name."""

    domain = "persistent"
    of_this_cluster: ClassVar[frozenset[str]] = frozenset()
    """Methods about what this cluster stores of the topic, also after its namespace was moved to others."""

    async def admit(self, request: HttpRequest, served_cluster: str) -> None:
        """Admit a call as ``AdminResource.admit`` does. Raises HeldElsewhereError and PreconditionFailed for a
        namespace that this cluster does not hold."""
        await super().admit(request, served_cluster)
        if request.method not in self.of_this_cluster:
            with suppress(InvalidNameError):  # which is refused with the text of its route
                parent = NamespaceName.parse(f"{self.kwargs['tenant']}/{self.kwargs['namespace']}")
                await self.work(lambda engine: existence.require_held(engine, parent))

    def name(self, tenant: str, namespace: str, topic: str) -> TopicName:
        """Return the topic that the path names. Raises PreconditionFailed."""
        return names.topic_name(self.domain, tenant, namespace, topic)

    async def admit_source(self, properties: dict[str, str]) -> None:
        """Check that the caller administers the source of a shadow topic that it makes: all of it can be read there.

        Raises AccessRefusedError, and PreconditionFailed for an invalid name.
        """
        source = source_of(properties)
        if source is not None:
            await authorize_needs([(Action.TENANT_ADMIN, source)], self.identity, self.cluster)


def stats_flags(request: HttpRequest) -> dict[str, bool]:
    """Return the query's flags of the stats routes by the names of ``engine.admin.api.statistics.TopicStats``."""
    return {
        name: flag(request, parameter, default=default)
        for name, (parameter, default) in STATS_FLAGS.items()
    }


class TopicsOfNamespaceResource(TopicPathResource):
    """The topics of a namespace, partitions included."""

    of_this_cluster = frozenset({"GET"})
    read_rights = LIST_NAMESPACE
    for_viewer = True

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        parent = namespace_name(tenant, namespace)
        bundle = request.GET.get("bundle") or None
        system = flag(request, "includeSystemTopic")
        names = await self.work(
            lambda engine: topics.list_topics(
                engine, self.domain, parent, bundle=bundle, include_system=system
            )
        )
        return await json_list(seen_topics(self.viewer, parent, names))


class PartitionedTopicsResource(TopicPathResource):
    """The partitioned topics of a namespace."""

    of_this_cluster = frozenset({"GET"})
    read_rights = LIST_NAMESPACE
    for_viewer = True

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        parent = namespace_name(tenant, namespace)
        names = await self.work(
            lambda engine: metadata.list_partitioned(engine.store, parent, self.domain)
        )
        return await json_list(seen_topics(self.viewer, parent, names))


class TopicResource(TopicPathResource):
    """A topic without partitions: its creation and deletion."""

    of_this_cluster = frozenset({"DELETE"})
    write_rights = ADMIN

    async def put(self, request: HttpRequest, **path: str) -> HttpResponse:
        properties = string_map(object_body(request), "properties")
        name = self.name(**path)
        await self.admit_source(properties)
        await self.work(lambda engine: topics.create(engine, name, properties))
        return no_content()

    async def delete(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, force = self.name(**path), flag(request, "force")
        await self.work(lambda engine: topics.delete(engine, name, force=force))
        return no_content()


class PartitionsResource(TopicPathResource):
    """A partitioned topic: its number of partitions, creation, growth and deletion."""

    of_this_cluster = frozenset({"DELETE"})
    read_rights = LOOKUP
    write_rights = ADMIN

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        missing_ok = flag(request, "checkAllowAutoCreation")
        return json_answer(
            await self.work(
                lambda engine: partitioned_topics.get_metadata(
                    engine, name, allow_missing=missing_ok
                )
            )
        )

    async def put(self, request: HttpRequest, **path: str) -> HttpResponse:
        count, properties = partition_count(request)
        name = self.name(**path)
        await self.admit_source(properties)
        await self.work(lambda engine: partitioned_topics.create(engine, name, count, properties))
        return no_content()

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        count, _ = partition_count(request)
        name, only_here = self.name(**path), flag(request, "updateLocalTopicOnly")
        await self.work(
            lambda engine: partitioned_topics.grow(engine, name, count, only_here=only_here)
        )
        return no_content()

    async def delete(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, force = self.name(**path), flag(request, "force")
        await self.work(lambda engine: partitioned_topics.delete(engine, name, force=force))
        return no_content()


def partition_count(request: HttpRequest) -> tuple[int, dict[str, str]]:
    """Return the number of partitions and the properties in a body.

    It is a number, or ``{"partitions": n, "properties": {…}}``. Raises InvalidField.
    """
    body: Any = json_body(request, also=("text/plain",))
    if body is None:
        raise InvalidField("body", "The request entity cannot be empty.")
    if isinstance(body, dict):
        count = whole_number(body.get("partitions"), "partitions")
        return count, string_map(body.get("properties"), "properties")
    return whole_number(body, "partitions"), {}


class MissedPartitionsResource(TopicPathResource):
    """The creation of partitions that are missing."""

    write_rights = ADMIN

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        await self.work(lambda engine: partitioned_topics.create_missed(engine, name))
        return no_content()


class TopicPropertiesResource(TopicPathResource):
    """The properties that users set on a topic."""

    read_rights = LOOKUP
    write_rights = ADMIN

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(await self.work(lambda engine: topics.properties(engine, name)))

    async def put(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, given = self.name(**path), string_map(object_body(request), "properties")
        await self.work(lambda engine: topics.set_properties(engine, name, given))
        return no_content()

    async def delete(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, key = self.name(**path), request.GET.get("key")
        if key is None:
            raise InvalidField("key", "is missing")
        await self.work(lambda engine: topics.remove_property(engine, name, key))
        return no_content()


class TopicStatsResource(TopicPathResource):
    """The statistics of a topic."""

    read_rights = LOOKUP

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, flags = self.name(**path), stats_flags(request)
        return json_answer(await self.work(lambda engine: statistics.stats(engine, name, flags)))


class PartitionedStatsResource(TopicPathResource):
    """The statistics of a partitioned topic, summed over its partitions."""

    read_rights = LOOKUP

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, flags = self.name(**path), stats_flags(request)
        per_partition = flag(request, "perPartition", default=True)
        stats = await self.work(
            lambda engine: partitioned_topics.stats(
                engine, name, flags, per_partition=per_partition
            )
        )
        return json_answer(stats)


class InternalStatsResource(TopicPathResource):
    """The ledgers and cursors of a topic."""

    read_rights = LOOKUP

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, details = self.name(**path), flag(request, "metadata")
        stats = await self.work(
            lambda engine: statistics.internal_stats(engine, name, with_metadata=details)
        )
        return json_answer(stats)


class PartitionedInternalStatsResource(TopicPathResource):
    """The ledgers and cursors of each partition."""

    read_rights = LOOKUP

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(
            await self.work(lambda engine: partitioned_topics.internal_stats(engine, name))
        )


class InternalInfoResource(TopicPathResource):
    """The ledgers and cursors as they are stored in the metadata."""

    read_rights = LOOKUP

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(await self.work(lambda engine: statistics.internal_info(engine, name)))


class LastMessageIdResource(TopicPathResource):
    """The id of the newest message."""

    read_rights = CONSUME

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(await self.work(lambda engine: messages.last_message_id(engine, name)))


class MessageIdByTimeResource(TopicPathResource):
    """The id of the first message published at or after a time."""

    read_rights = CONSUME

    async def get(self, request: HttpRequest, timestamp: int, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(
            await self.work(
                lambda engine: messages.message_id_by_time(engine, name, max(0, timestamp))
            )
        )


class TerminateResource(TopicPathResource):
    """The termination of a topic, which then accepts no further messages."""

    write_rights = ADMIN

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(await self.work(lambda engine: topics.terminate(engine, name)))


class TerminatePartitionsResource(TopicPathResource):
    """The termination of every partition."""

    write_rights = ADMIN

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(
            await self.work(lambda engine: partitioned_topics.terminate(engine, name))
        )


class TopicUnloadResource(TopicPathResource):
    """The unload of a topic from its broker; clients reconnect."""

    write_rights = ADMIN
    for_operators = frozenset({"PUT"})

    async def put(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        await self.work(lambda engine: topics.unload(engine, name))
        return no_content()


class TrimResource(TopicPathResource):
    """The deletion of ledgers that no cursor and no retention needs."""

    write_rights = ADMIN

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        await self.work(lambda engine: topics.trim(engine, name))
        return no_content(200)


class TruncateResource(TopicPathResource):
    """The deletion of all messages except those of the open ledger."""

    write_rights = ADMIN

    async def delete(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        await self.work(lambda engine: topics.truncate(engine, name))
        return no_content()


class CompactionResource(TopicPathResource):
    """The compaction of a topic in the background, and its status."""

    read_rights = write_rights = ADMIN
    for_operators = frozenset({"PUT"})

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(await self.work(lambda engine: topics.compaction_status(engine, name)))

    async def put(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        await self.work(lambda engine: topics.compact(engine, name))
        return no_content()


class ExamineResource(TopicPathResource):
    """The nth message from the start or the end of a topic."""

    read_rights = CONSUME
    shows_payloads = frozenset({"GET"})

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        initial = request.GET.get("initialPosition", "latest")
        try:
            nth = int(request.GET.get("messagePosition", "1"))
        except ValueError:
            raise Http404 from None
        nth = min(max(1, nth), 1 << 31)
        return message_answer(
            await self.work(lambda engine: messages.examine(engine, name, initial, nth))
        )


class MessageByIdResource(TopicPathResource):
    """A message by its position."""

    read_rights = CONSUME
    shows_payloads = frozenset({"GET"})

    async def get(
        self, request: HttpRequest, ledgerId: int, entryId: int, **path: str
    ) -> HttpResponse:
        name = self.name(**path)
        if ledgerId < 0 or entryId < 0:
            raise InvalidField("ledgerId" if ledgerId < 0 else "entryId", "must not be negative")
        return message_answer(
            await self.work(lambda engine: messages.message_by_id(engine, name, ledgerId, entryId))
        )


_TREE = "/admin/v2/persistent/{tenant}/{namespace}"
_TOPIC = f"{_TREE}/{{topic}}"


class BacklogSizeResource(TopicPathResource):
    """The size in bytes of the messages behind a position."""

    read_rights = CONSUME
    reading_methods = frozenset({"PUT"})

    async def put(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, position = self.name(**path), required_position(request)
        return json_answer(
            await self.work(lambda engine: statistics.backlog_size(engine, name, position))
        )


class OffloadResource(TopicPathResource):
    """Moving of closed ledgers to tiered storage, and its status."""

    read_rights = write_rights = ADMIN

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(await self.work(lambda engine: topics.offload_status(engine, name)))

    async def put(self, request: HttpRequest, **path: str) -> HttpResponse:
        name, given = self.name(**path), object_body(request)
        if given is None:
            raise InvalidRequest("messageId is null")
        before = required_position(request)
        await self.work(lambda engine: topics.offload(engine, name, before))
        return no_content()


ROUTES: list[tuple[str, type[AdminResource]]] = [
    (_TREE, TopicsOfNamespaceResource),
    (f"{_TREE}/partitioned", PartitionedTopicsResource),
    (_TOPIC, TopicResource),
    (f"{_TOPIC}/partitions", PartitionsResource),
    (f"{_TOPIC}/createMissedPartitions", MissedPartitionsResource),
    (f"{_TOPIC}/properties", TopicPropertiesResource),
    (f"{_TOPIC}/stats", TopicStatsResource),
    (f"{_TOPIC}/partitioned-stats", PartitionedStatsResource),
    (f"{_TOPIC}/internalStats", InternalStatsResource),
    (f"{_TOPIC}/partitioned-internalStats", PartitionedInternalStatsResource),
    (f"{_TOPIC}/internal-info", InternalInfoResource),
    (f"{_TOPIC}/backlogSize", BacklogSizeResource),
    (f"{_TOPIC}/offload", OffloadResource),
    (f"{_TOPIC}/lastMessageId", LastMessageIdResource),
    (f"{_TOPIC}/messageid/{{timestamp}}", MessageIdByTimeResource),
    (f"{_TOPIC}/terminate", TerminateResource),
    (f"{_TOPIC}/terminate/partitions", TerminatePartitionsResource),
    (f"{_TOPIC}/unload", TopicUnloadResource),
    (f"{_TOPIC}/trim", TrimResource),
    (f"{_TOPIC}/truncate", TruncateResource),
    (f"{_TOPIC}/compaction", CompactionResource),
    (f"{_TOPIC}/examinemessage", ExamineResource),
    (f"{_TOPIC}/ledger/{{ledgerId}}/entry/{{entryId}}", MessageByIdResource),
]
