import pulsar

quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)
client = pulsar.Client("pulsar://127.0.0.1:6650", logger=quiet)
topic = "persistent://public/default/orders-python"

consumer = client.subscribe(topic, "billing", consumer_type=pulsar.ConsumerType.Shared)
producer = client.create_producer(topic)

for number in (1, 2, 3):
    producer.send(
        f"order {number}".encode(), partition_key="customer-7", properties={"shop": "web"}
    )

for _ in range(3):
    message = consumer.receive(timeout_millis=10_000)
    print(message.data().decode(), message.partition_key(), message.properties()["shop"])
    consumer.acknowledge(message)

client.close()
