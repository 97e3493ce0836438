import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;

public class Orders {
  public static void main(String[] args) throws Exception {
    String topic = "persistent://public/default/orders-java";
    try (PulsarClient client = PulsarClient.builder().serviceUrl("pulsar://127.0.0.1:6650").build();
        Consumer<String> consumer = client.newConsumer(Schema.STRING)
            .topic(topic)
            .subscriptionName("billing")
            .subscriptionType(SubscriptionType.Shared)
            .subscribe();
        Producer<String> producer = client.newProducer(Schema.STRING).topic(topic).create()) {
      for (int number = 1; number <= 3; number++) {
        producer.newMessage()
            .key("customer-7")
            .property("shop", "web")
            .value("order " + number)
            .send();
      }
      for (int count = 0; count < 3; count++) {
        Message<String> message = consumer.receive(10, TimeUnit.SECONDS);
        System.out.println(message.getValue() + " " + message.getKey() + " " + message.getProperty("shop"));
        consumer.acknowledge(message);
      }
    }
  }
}
