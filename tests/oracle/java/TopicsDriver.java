import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.*;

/** Topics as Apache's own Java client sees them: one line for each step, the same from either broker. */
public class TopicsDriver {
    private static final long NEVER_MINUTES = 600;

    public static void main(String[] args) throws Exception {
        String url = args[0], http = args[1], start = args[2];
        for (int i = 3; i < args.length; i++) {
            try (PulsarClient client = PulsarClient.builder().serviceUrl(url).build();
                    PulsarClient byHttp = PulsarClient.builder().serviceUrl(http).build()) {
                switch (args[i]) {
                    case "watch" -> watch(client, start + "-watch");
                    case "metadata" -> metadata(client, start + "-metadata");
                    case "http" -> overHttp(byHttp, start + "-http");
                    case "legacy" -> legacy(args[i + 1], client, byHttp);
                    default -> { }
                }
            }
        }
        System.exit(0);
    }

    private static void say(Object... parts) {
        List<String> texts = new ArrayList<>();
        for (Object part : parts) {
            texts.add(String.valueOf(part));
        }
        System.out.println(String.join(" ", texts));
    }

    private static void send(PulsarClient client, String topic, String... values) throws Exception {
        try (Producer<byte[]> producer =
                client.newProducer().topic(topic).enableBatching(false).create()) {
            for (String value : values) {
                producer.send(value.getBytes());
            }
        }
    }

    /** A pattern consumer that asks for the list of topics only once sees topics that come later. */
    private static void watch(PulsarClient client, String start) throws Exception {
        send(client, start + "-1", "early");
        try (Consumer<byte[]> consumer = client.newConsumer()
                .topicsPattern(Pattern.compile(start + "-.*"))
                .subscriptionName("s")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .patternAutoDiscoveryPeriod((int) NEVER_MINUTES, TimeUnit.MINUTES)
                .subscribe()) {
            Set<String> got = new TreeSet<>();
            take(consumer, got, 1);
            send(client, start + "-2", "later");
            send(client, start + "-3", "last");
            take(consumer, got, 3);
            say("watch", got);
        }
    }

    private static void take(Consumer<byte[]> consumer, Set<String> got, int count) throws Exception {
        while (got.size() < count) {
            Message<byte[]> message = consumer.receive(30, TimeUnit.SECONDS);
            if (message == null) {
                return;
            }
            got.add(new String(message.getData()));
            consumer.acknowledge(message);
        }
    }

    /** Index and time of each message, singly and in a batch. */
    private static void metadata(PulsarClient client, String topic) throws Exception {
        try (Consumer<byte[]> consumer =
                client.newConsumer().topic(topic).subscriptionName("s").subscribe()) {
            send(client, topic, "a", "b");
            try (Producer<byte[]> producer = client.newProducer().topic(topic)
                    .batchingMaxPublishDelay(1, TimeUnit.HOURS).batchingMaxMessages(3).create()) {
                producer.sendAsync("c".getBytes());
                producer.sendAsync("d".getBytes());
                producer.sendAsync("e".getBytes()).get();
            }
            send(client, topic, "f");
            for (int i = 0; i < 6; i++) {
                Message<byte[]> message = consumer.receive(30, TimeUnit.SECONDS);
                boolean close = message.getBrokerPublishTime().isPresent()
                        && Math.abs(message.getBrokerPublishTime().get() - message.getPublishTime()) < 30_000;
                say("metadata", new String(message.getData()), message.getIndex(), close);
            }
        }
    }

    /** Everything that a client looks up, by HTTP. */
    private static void overHttp(PulsarClient client, String topic) throws Exception {
        send(client, topic, "1");
        say("http partitions", client.getPartitionsForTopic(topic).get().size());
        try (Producer<String> producer = client.newProducer(Schema.STRING).topic(topic + "-schema").create()) {
            producer.send("text");
        }
        try (Consumer<org.apache.pulsar.client.api.schema.GenericRecord> consumer =
                client.newConsumer(Schema.AUTO_CONSUME()).topic(topic + "-schema").subscriptionName("s")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            say("http schema", consumer.receive(30, TimeUnit.SECONDS).getValue().getNativeObject());
        }
        try (Consumer<byte[]> consumer = client.newConsumer().topicsPattern(topic + ".*").subscriptionName("p")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            Set<String> got = new TreeSet<>();
            take(consumer, got, 2);
            say("http pattern", got);
        }
    }

    /** A topic of a name in four parts, by both ways of looking it up. */
    private static void legacy(String topic, PulsarClient... clients) throws Exception {
        for (PulsarClient client : clients) {
            try (Consumer<byte[]> consumer =
                    client.newConsumer().topic(topic).subscriptionName("s").subscribe()) {
                send(client, topic, "old");
                Message<byte[]> message = consumer.receive(30, TimeUnit.SECONDS);
                say("legacy", message.getTopicName(), new String(message.getData()));
                consumer.acknowledge(message);
            } catch (PulsarClientException error) {
                say("legacy", error.getClass().getSimpleName());
            }
        }
    }
}
