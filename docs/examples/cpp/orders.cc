#include <pulsar/Client.h>

#include <iostream>
#include <string>

int main() {
  const std::string topic = "persistent://public/default/orders-cpp";
  pulsar::Client client("pulsar://127.0.0.1:6650");

  pulsar::ConsumerConfiguration shared;
  shared.setConsumerType(pulsar::ConsumerShared);
  pulsar::Consumer consumer;
  if (client.subscribe(topic, "billing", shared, consumer) != pulsar::ResultOk) return 1;
  pulsar::Producer producer;
  if (client.createProducer(topic, producer) != pulsar::ResultOk) return 1;

  for (int number = 1; number <= 3; number++) {
    pulsar::Message message = pulsar::MessageBuilder()
                                  .setContent("order " + std::to_string(number))
                                  .setPartitionKey("customer-7")
                                  .setProperty("shop", "web")
                                  .build();
    if (producer.send(message) != pulsar::ResultOk) return 1;
  }
  for (int count = 0; count < 3; count++) {
    pulsar::Message message;
    if (consumer.receive(message, 10000) != pulsar::ResultOk) return 1;
    std::cout << message.getDataAsString() << " " << message.getPartitionKey() << " "
              << message.getProperty("shop") << std::endl;
    consumer.acknowledge(message);
  }
  client.close();
}
