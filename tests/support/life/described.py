"""A topic whose schema changed twice: a producer that still writes the older version beside one that writes the newest,
messages of a closed producer, and some of a producer without a schema.

The effect of a candidate schema on these messages is known exactly.
"""

import pulsar
from pulsar.schema import Float, Integer, JsonSchema, Record, String

from tests.support.life.cast import Story

DESCRIBED = Story("persistent://shop/orders/described", "shipping", None)
FIRST, OLD, NEW, RAW = 20, 30, 50, 3
"""Messages of versions 0, 1 and 2, and without a version: those are not JSON."""


class _First(Record):
    _avro_namespace = "shop"
    id = Integer(required_default=True)


class _Second(Record):
    _avro_namespace = "shop"
    id = Integer(required_default=True)
    note = String(required_default=True)


class _Third(Record):
    _avro_namespace = "shop"
    id = Integer(required_default=True)
    note = String(required_default=True)
    price = Float(required_default=True)


for _version in (_First, _Second, _Third):
    _version.__name__ = "Order"


def describe(client: pulsar.Client) -> list[object]:
    """Publish everything. Producers ``cart-old`` and ``cart``, and a consumer of the newest version, stay for as long
    as the caller holds what is returned."""
    topic = DESCRIBED.topic
    versions = [JsonSchema(kind) for kind in (_First, _Second, _Third)]
    first = client.create_producer(topic, "importer", versions[0])
    for number in range(FIRST):
        first.send(_First(id=number))
    first.close()
    raw = client.create_producer(topic, "legacy")
    for _ in range(RAW):
        raw.send(b"not JSON")
    raw.close()
    old = client.create_producer(topic, "cart-old", versions[1])
    for number in range(OLD):
        old.send(_Second(id=number, note="by hand"))
    new = client.create_producer(topic, "cart", versions[2])
    for number in range(NEW):
        new.send(_Third(id=number, note="gift", price=number / 4))
    return [old, new, client.subscribe(topic, DESCRIBED.subscription, schema=versions[2])]
