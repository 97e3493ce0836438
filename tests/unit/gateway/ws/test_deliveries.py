"""Frames of messages are those that Apache's service sends."""

import json

from engine.base.ids import Position
from engine.client.consuming.incoming import Incoming
from engine.wire import pulsar_pb2 as pb
from gateway.ws.deliveries import DeliveryFrames, end_of_topic


def message(content: bytes | None = b"x", **fields: object) -> Incoming:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=1_795_256_802_746, **fields
    )
    return Incoming(None, Position(256, 0), 0, metadata, metadata, content)


def test_a_recorded_frame_is_made_again() -> None:
    recorded = (
        '{"messageId":"CIACEAAwAA==","payload":"aGVsbG8=","properties":{"k":"v"},'
        '"publishTime":"2026-11-21T10:26:42.746Z","redeliveryCount":0,"key":"kk"}'
    )
    delivery = message(b"hello", properties=[{"key": "k", "value": "v"}], partition_key="kk")
    assert DeliveryFrames().frame("CIACEAAwAA==", delivery) == recorded


def test_texts_of_every_kind_are_json() -> None:
    awkward = 'ü"\\\n\x00\u2028'
    delivery = message(None, properties=[{"key": awkward, "value": awkward}], partition_key=awkward)
    frame = json.loads(DeliveryFrames().frame("a", delivery))
    assert (frame["properties"], frame["key"]) == ({awkward: awkward}, awkward)
    assert frame["payload"] == ""


def test_times_are_those_of_each_message() -> None:
    frames = DeliveryFrames()
    first, second = message(), message(event_time=1000)
    second.metadata.publish_time += 4
    times = [
        json.loads(frames.frame("a", delivery))["publishTime"]
        for delivery in (first, second, first)
    ]
    assert [time[-5:] for time in times] == [".746Z", "2.75Z", ".746Z"]
    assert json.loads(frames.frame("a", second))["eventTime"] == "1970-01-01T00:00:01Z"


def test_a_time_out_of_range_is_sent_as_the_latest_time() -> None:
    delivery = message(event_time=(1 << 64) - 1)
    delivery.metadata.publish_time = (1 << 64) - 1
    frame = json.loads(DeliveryFrames().frame("a", delivery))
    assert frame["publishTime"] == frame["eventTime"] == "9999-12-31T23:59:59.999Z"


def test_the_end_of_a_topic() -> None:
    assert [end_of_topic(reached) for reached in (True, False)] == [
        '{"endOfTopic":true}',
        '{"endOfTopic":false}',
    ]
