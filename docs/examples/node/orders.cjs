const Pulsar = require("pulsar-client");

async function main() {
  const topic = "persistent://public/default/orders-node";
  const client = new Pulsar.Client({ serviceUrl: "pulsar://127.0.0.1:6650" });
  const consumer = await client.subscribe({
    topic,
    subscription: "billing",
    subscriptionType: "Shared",
  });
  const producer = await client.createProducer({ topic });

  for (const number of [1, 2, 3]) {
    await producer.send({
      data: Buffer.from(`order ${number}`),
      partitionKey: "customer-7",
      properties: { shop: "web" },
    });
  }
  for (let count = 0; count < 3; count++) {
    const message = await consumer.receive(10000);
    const { shop } = message.getProperties();
    console.log(message.getData().toString(), message.getPartitionKey(), shop);
    await consumer.acknowledge(message);
  }
  await client.close();
}

main();
