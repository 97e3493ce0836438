"""``/admin/v2/persistent`` and ``/admin/v2/non-persistent``: topics."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from engine.base.errors import InvalidField, InvalidRequest
from engine.base.names import TopicName
from engine.tenancy import topics as metadata
from engine.tenancy.namespaces import namespace_name
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
from gateway.rest.base import AdminView
from gateway.rest.messages import message_answer, required_position
from gateway.services import topics

STATS_FLAGS = {
    "precise_backlog": ("getPreciseBacklog", False),
    "subscription_backlog_size": ("subscriptionBacklogSize", True),
    "earliest_time_in_backlog": ("getEarliestTimeInBacklog", False),
    "exclude_publishers": ("excludePublishers", False),
    "exclude_consumers": ("excludeConsumers", False),
}


class TopicView(AdminView):
    """Base: path segments to a topic's name."""

    permission = "topic"
    write_permission = "topic"
    domain = "persistent"

    def name(self, tenant: str, namespace: str, topic: str) -> TopicName:
        """The topic the path names. Raises PreconditionFailed."""
        return topics.topic_name(self.domain, tenant, namespace, topic)


def stats_flags(request: HttpRequest) -> dict[str, bool]:
    """The flags of the stats routes under the names of ``engine.admin.api.TopicStats``."""
    return {
        name: flag(request, parameter, default=default)
        for name, (parameter, default) in STATS_FLAGS.items()
    }


class TopicsOfNamespace(TopicView):
    """Concrete topics, partitions included."""

    permission = "namespace"

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        where = namespace_name(tenant, namespace)
        bundle = request.GET.get("bundle") or None
        system = flag(request, "includeSystemTopic")
        found = await self.work(
            lambda engine: topics.list_topics(
                engine, self.domain, where, bundle=bundle, include_system=system
            )
        )
        return await json_list(found)


class PartitionedTopics(TopicView):
    """Partitioned topics."""

    permission = "namespace"

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        where = namespace_name(tenant, namespace)
        found = await self.work(
            lambda engine: metadata.list_partitioned(engine.store, where, self.domain)
        )
        return await json_list(found)


class Topic(TopicView):
    """A plain topic: creation and deletion."""

    write_permission = "namespace"

    async def put(self, request: HttpRequest, **where: str) -> HttpResponse:
        properties = string_map(object_body(request), "properties")
        name = self.name(**where)
        await self.work(lambda engine: topics.create(engine, name, properties))
        return no_content()

    async def delete(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, force = self.name(**where), flag(request, "force")
        await self.work(lambda engine: topics.delete(engine, name, force=force))
        return no_content()


class Partitions(TopicView):
    """A partitioned topic: its record, creation, growth, deletion."""

    write_permission = "namespace"

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        missing_ok = flag(request, "checkAllowAutoCreation")
        return json_answer(
            await self.work(
                lambda engine: topics.partitions(engine, name, allow_missing=missing_ok)
            )
        )

    async def put(self, request: HttpRequest, **where: str) -> HttpResponse:
        count, properties = partition_count(request)
        name = self.name(**where)
        await self.work(lambda engine: topics.create_partitioned(engine, name, count, properties))
        return no_content()

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        count, _ = partition_count(request)
        name = self.name(**where)
        await self.work(lambda engine: topics.grow(engine, name, count))
        return no_content()

    async def delete(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, force = self.name(**where), flag(request, "force")
        await self.work(lambda engine: topics.delete_partitioned(engine, name, force=force))
        return no_content()


def partition_count(request: HttpRequest) -> tuple[int, dict[str, str]]:
    """A bare number, or ``{"partitions": n, "properties": {…}}``. Raises InvalidField."""
    body: Any = json_body(request, also=("text/plain",))
    if body is None:
        raise InvalidField("body", "The request entity cannot be empty.")
    if isinstance(body, dict):
        count = whole_number(body.get("partitions"), "partitions")
        return count, string_map(body.get("properties"), "properties")
    return whole_number(body, "partitions"), {}


class MissedPartitions(TopicView):
    """Make partitions that are missing."""

    write_permission = "namespace"

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        await self.work(lambda engine: topics.create_missed(engine, name))
        return no_content()


class Properties(TopicView):
    """What users noted about the topic."""

    write_permission = "namespace"

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(await self.work(lambda engine: topics.properties(engine, name)))

    async def put(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, given = self.name(**where), string_map(object_body(request), "properties")
        await self.work(lambda engine: topics.set_properties(engine, name, given))
        return no_content()

    async def delete(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, key = self.name(**where), request.GET.get("key")
        if key is None:
            raise InvalidField("key", "is missing")
        await self.work(lambda engine: topics.remove_property(engine, name, key))
        return no_content()


class Stats(TopicView):
    """Live numbers."""

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, flags = self.name(**where), stats_flags(request)
        return json_answer(await self.work(lambda engine: topics.stats(engine, name, flags)))


class PartitionedStats(TopicView):
    """Live numbers, summed over partitions."""

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, flags = self.name(**where), stats_flags(request)
        each = flag(request, "perPartition", default=True)
        found = await self.work(
            lambda engine: topics.partitioned_stats(engine, name, flags, per_partition=each)
        )
        return json_answer(found)


class InternalStats(TopicView):
    """Ledgers and cursors."""

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, details = self.name(**where), flag(request, "metadata")
        found = await self.work(
            lambda engine: topics.internal_stats(engine, name, with_metadata=details)
        )
        return json_answer(found)


class PartitionedInternalStats(TopicView):
    """Ledgers and cursors of each partition."""

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(
            await self.work(lambda engine: topics.partitioned_internal_stats(engine, name))
        )


class InternalInfo(TopicView):
    """Ledgers and cursors as they are stored."""

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(await self.work(lambda engine: topics.internal_info(engine, name)))


class LastMessageId(TopicView):
    """Id of the newest message."""

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(await self.work(lambda engine: topics.last_message_id(engine, name)))


class MessageIdByTime(TopicView):
    """Id of the first message published at or after a time."""

    async def get(self, request: HttpRequest, timestamp: int, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(
            await self.work(
                lambda engine: topics.message_id_by_time(engine, name, max(0, timestamp))
            )
        )


class Terminate(TopicView):
    """Seal the topic."""

    write_permission = "namespace"

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(await self.work(lambda engine: topics.terminate(engine, name)))


class TerminatePartitions(TopicView):
    """Seal every partition."""

    write_permission = "namespace"

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(
            await self.work(lambda engine: topics.terminate_partitions(engine, name))
        )


class Unload(TopicView):
    """Close the topic on its broker; clients reconnect."""

    write_permission = "namespace"

    async def put(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        await self.work(lambda engine: topics.unload(engine, name))
        return no_content()


class Trim(TopicView):
    """Delete ledgers that nobody needs."""

    write_permission = "namespace"

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        await self.work(lambda engine: topics.trim(engine, name))
        return no_content(200)


class Truncate(TopicView):
    """Delete all messages but those of the open ledger."""

    write_permission = "namespace"

    async def delete(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        await self.work(lambda engine: topics.truncate(engine, name))
        return no_content()


class Compaction(TopicView):
    """Keep the last message of each key, in the background."""

    permission = write_permission = "namespace"

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(await self.work(lambda engine: topics.compaction_status(engine, name)))

    async def put(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        await self.work(lambda engine: topics.compact(engine, name))
        return no_content()


class Examine(TopicView):
    """The nth message from an end."""

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        initial = request.GET.get("initialPosition", "latest")
        try:
            nth = int(request.GET.get("messagePosition", "1"))
        except ValueError:
            raise Http404 from None
        nth = min(max(1, nth), 1 << 31)
        return message_answer(
            await self.work(lambda engine: topics.examine(engine, name, initial, nth))
        )


class MessageById(TopicView):
    """One message by its place."""

    async def get(
        self, request: HttpRequest, ledgerId: int, entryId: int, **where: str
    ) -> HttpResponse:
        name = self.name(**where)
        if ledgerId < 0 or entryId < 0:
            raise InvalidField("ledgerId" if ledgerId < 0 else "entryId", "must not be negative")
        return message_answer(
            await self.work(lambda engine: topics.message_by_id(engine, name, ledgerId, entryId))
        )


_TREE = "/admin/v2/persistent/{tenant}/{namespace}"
_ONE = f"{_TREE}/{{topic}}"


class BacklogSize(TopicView):
    """Bytes stored behind a message."""

    reading_methods = frozenset({"PUT"})

    async def put(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, position = self.name(**where), required_position(request)
        return json_answer(
            await self.work(lambda engine: topics.backlog_size(engine, name, position))
        )


class Offload(TopicView):
    """Moving ledgers to other storage, which nothing does: it never ran."""

    write_permission = "namespace"

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(await self.work(lambda engine: topics.offload_status(engine, name)))

    async def put(self, request: HttpRequest, **where: str) -> HttpResponse:
        name, given = self.name(**where), object_body(request)
        if given is None:
            raise InvalidRequest("messageId is null")
        await self.work(lambda engine: topics.offload(engine, name))
        return no_content()


ROUTES: list[tuple[str, type[AdminView]]] = [
    (_TREE, TopicsOfNamespace),
    (f"{_TREE}/partitioned", PartitionedTopics),
    (_ONE, Topic),
    (f"{_ONE}/partitions", Partitions),
    (f"{_ONE}/createMissedPartitions", MissedPartitions),
    (f"{_ONE}/properties", Properties),
    (f"{_ONE}/stats", Stats),
    (f"{_ONE}/partitioned-stats", PartitionedStats),
    (f"{_ONE}/internalStats", InternalStats),
    (f"{_ONE}/partitioned-internalStats", PartitionedInternalStats),
    (f"{_ONE}/internal-info", InternalInfo),
    (f"{_ONE}/backlogSize", BacklogSize),
    (f"{_ONE}/offload", Offload),
    (f"{_ONE}/lastMessageId", LastMessageId),
    (f"{_ONE}/messageid/{{timestamp}}", MessageIdByTime),
    (f"{_ONE}/terminate", Terminate),
    (f"{_ONE}/terminate/partitions", TerminatePartitions),
    (f"{_ONE}/unload", Unload),
    (f"{_ONE}/trim", Trim),
    (f"{_ONE}/truncate", Truncate),
    (f"{_ONE}/compaction", Compaction),
    (f"{_ONE}/examinemessage", Examine),
    (f"{_ONE}/ledger/{{ledgerId}}/entry/{{entryId}}", MessageById),
]
