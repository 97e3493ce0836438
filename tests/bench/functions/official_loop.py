"""A loop around user code on the official client: batches in, results out, an acknowledgement for each receipt.

    python -m tests.bench.functions.official_loop URL INPUT OUTPUT PACKAGE

It has none of an instance's other work, and is the floor of what one on that client would cost.
"""

import runpy
import sys
from functools import partial
from typing import Any

import pulsar


def main(url: str, inside: str, out: str, package: str) -> None:
    process = runpy.run_path(package)["Fn"]().process
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(
        out,
        batching_enabled=True,
        batching_max_publish_delay_ms=1,
        block_if_queue_full=True,
        compression_type=pulsar.CompressionType.LZ4,
    )
    consumer = client.subscribe(
        inside,
        "function",
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(100, -1, 2),
    )

    def stored(message: pulsar.Message, result: Any, message_id: Any) -> None:
        consumer.acknowledge(message)

    while True:
        for message in consumer.batch_receive():
            data = process(message.data().decode(), None).encode()
            properties = {
                "__pfn_input_topic__": inside,
                "__pfn_input_msg_id__": str(message.message_id()),
            }
            producer.send_async(data, partial(stored, message), properties=properties)


main(*sys.argv[1:])
