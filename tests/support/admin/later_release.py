"""A release of Pulsar later than the known ones, as the log of topics' policies shows it."""

import json

from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.schema.kinds import Schema, SchemaKind
from engine.schema.locator import Registered, SchemaVersion, digest_of, entry, locator
from engine.tenancy.change_events import SCHEMA_TEXT, log_topic
from tests.support.ledger_cluster import Cluster, Listener, run_of


def newer() -> str:
    """Return our schema with one more policy, ``zNewPolicy``, a number."""
    definition = json.loads(SCHEMA_TEXT)
    event = definition["fields"][3]["type"][1]
    policies = next(field for field in event["fields"] if field["name"] == "policies")
    added = {"name": "zNewPolicy", "type": ["null", "int"], "default": None}
    policies["type"][1]["fields"].append(added)
    return json.dumps(definition, separators=(",", ":"))


async def register(cluster: Cluster, namespace: NamespaceName, *definitions: str) -> None:
    """Register ``definitions`` as the versions 0, 1, … of the log's schema."""
    schema_id = f"{namespace}/{log_topic(namespace).encoded_local}"
    versions = []
    for number, definition in enumerate(definitions):
        listener = Listener()
        writer = await cluster.client().create(1, 1, 1, listener=listener)
        schema = Schema(SchemaKind.AVRO, definition.encode(), {})
        writer.append(run_of(entry(schema_id, Registered(schema, 1))))
        await listener.reach(1)
        await writer.close()
        versions.append(SchemaVersion(number, writer.ledger_id, 0, digest_of(schema)))
    path = paths.schema(schema_id)
    if await cluster.store.exists(path) is not None:
        await cluster.store.delete(path)
    await cluster.store.create(path, locator(versions), make_parents=True)
