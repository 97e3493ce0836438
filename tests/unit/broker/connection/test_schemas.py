"""GET_SCHEMA and GET_OR_CREATE_SCHEMA over a connection."""

from typing import Any

import pytest

from engine.schema.kinds import version_bytes
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import REFUSALS, RefusedError, ServerError
from tests.support.broker_bench import NAME, link_to, served

pytestmark = pytest.mark.virtual_time

STRING = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")


async def test_a_schema_is_registered_once_and_found_by_its_version() -> None:
    async with served() as (_, _, url):
        link = await link_to(url)

        async def create(topic: str, schema: pb.Schema) -> Any:
            at = link.new_id()
            return await link.request(at, say.get_or_create_schema(topic, at, schema))

        async def get(topic: str, version: bytes | None = None) -> Any:
            at = link.new_id()
            return await link.request(at, say.get_schema(topic, at, version))

        none = pb.Schema(name="", type=pb.Schema.None_, schema_data=b"")
        assert (await create(NAME.full, none)).schema_version == b""
        for _ in range(2):
            assert (await create(NAME.full, STRING)).schema_version == version_bytes(0)
        answer = await get(NAME.full)
        assert (answer.schema.name, answer.schema.type) == ("public/default/d", pb.Schema.String)
        assert answer.schema_version == version_bytes(0)
        assert (await get(f"{NAME.full}-partition-3", version_bytes(0))).schema == answer.schema
        for topic, version, code in (
            (NAME.full, version_bytes(1), ServerError.TopicNotFound),
            (NAME.full, b"", ServerError.IncompatibleSchema),
            ("persistent://public/default/none", None, ServerError.TopicNotFound),
            ("nope://x", None, ServerError.InvalidTopicName),
        ):
            with pytest.raises(RefusedError) as refused:
                await get(topic, version)
            assert type(refused.value) is REFUSALS[code]
        with pytest.raises(RefusedError, match="exists schema type STRING"):
            await create(NAME.full, pb.Schema(name="i", type=pb.Schema.Int32, schema_data=b""))
        link.close()
