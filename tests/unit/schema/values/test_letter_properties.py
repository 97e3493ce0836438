"""Dead letters are recognised by the names and properties that clients give them."""

import pytest

from engine.schema.values.letter_properties import (
    kind_of,
    normal,
    origin_of,
    reason_of,
    shape_of_value,
)

TOPIC = "persistent://public/default/orders"


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        (f"{TOPIC}-app-DLQ", "dead letters"),
        (f"{TOPIC}-app-RETRY-partition-3", "retries"),
        (f"{TOPIC}-dlq", ""),
        (f"{TOPIC}-DLQ-old", ""),
    ],
)
def test_a_topic_is_recognised_by_the_end_of_its_name(topic: str, kind: str) -> None:
    assert kind_of(topic) == kind


def test_the_origin_is_that_of_the_properties_and_of_the_name() -> None:
    assert origin_of(f"{TOPIC}-app-DLQ", {"REAL_TOPIC": TOPIC}) == (TOPIC, "app")
    given = {"REAL_TOPIC": TOPIC, "REAL_SUBSCRIPTION": "other"}
    assert origin_of(f"{TOPIC}-app-DLQ", given) == (TOPIC, "other")
    assert origin_of(f"{TOPIC}-app-DLQ", {}) == ("", "")


def test_reasons_that_differ_by_numbers_and_quotes_are_alike() -> None:
    reasons = [
        reason_of({"EXCEPTION_MESSAGE": f"order {n} of 'c{n}'\nat x", "EXCEPTION_CLASS": "E"})
        for n in (7, 1234)
    ]
    assert len({normal(reason) for reason in reasons}) == 1


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (None, "null"),
        (b"", "empty"),
        (b"\xff", "binary"),
        (b"{", "broken JSON"),
        (b"[1]", "JSON array"),
        (b'{"a": 1, "b": null}', "JSON {a: number, b: null}"),
        (b"plain", "text"),
    ],
)
def test_a_value_has_a_shape(value: bytes | None, shape: str) -> None:
    assert shape_of_value(value) == shape
