import java.net.URI;
import java.net.http.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.impl.MessageIdImpl;
import org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff;

/**
 * What a broker refuses, as Apache's own Java client tells it: one line for each case, by name, with how each try ended.
 * Arguments: service URL, HTTP URL. All cases run at the same time, each on a topic and a client of its own.
 */
public class RefusalsDriver {
    private static final long CASE_S = 60;

    interface Try {
        Object run() throws Exception;
    }

    interface Case {
        void run(Stage stage) throws Exception;
    }

    /** A client, a topic, and what is to be told of it. */
    static class Stage {
        final PulsarClient client, other;
        final String topic;
        final List<String> said = Collections.synchronizedList(new ArrayList<>());

        Stage(String url, String namespace, String name) throws Exception {
            client = connect(url);
            other = connect(url);
            topic = "persistent://public/" + namespace + "/java-" + name;
        }

        static PulsarClient connect(String url) throws Exception {
            return PulsarClient.builder().serviceUrl(url).operationTimeout(8, TimeUnit.SECONDS)
                    .lookupTimeout(8, TimeUnit.SECONDS).build();
        }

        void end(Try attempt) {
            String end;
            try {
                Object found = attempt.run();
                end = found == null || found instanceof AutoCloseable || found instanceof MessageId ? "ok" : found.toString();
            } catch (Exception error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                end = cause.getClass().getSimpleName();
            }
            said.add(end);
        }

        ProducerBuilder<byte[]> producer() {
            return client.newProducer().topic(topic).enableBatching(false).sendTimeout(8, TimeUnit.SECONDS);
        }

        ConsumerBuilder<byte[]> consumer(String name) {
            return client.newConsumer().topic(topic).subscriptionName(name)
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
        }

        ConsumerBuilder<byte[]> shared(String name) {
            return consumer(name).subscriptionType(SubscriptionType.Shared);
        }
    }

    private static String http;

    private static int rest(String method, String path, String body) throws Exception {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(http + "/admin/v2" + path))
                .method(method, HttpRequest.BodyPublishers.ofString(body));
        if (!body.isEmpty()) {
            request.header("Content-Type", "application/json");
        }
        return HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.discarding()).statusCode();
    }

    private static String path(Stage s) {
        return "/" + s.topic.replace("://", "/");
    }

    private static void until(Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(CASE_S / 2);
        while (!condition.call() && System.nanoTime() < deadline) {
            Thread.sleep(50);
        }
    }

    private static final Map<String, Case> CASES = new TreeMap<>();
    private static final Map<String, String> NAMESPACES = new HashMap<>();

    private static void add(String name, String namespace, Case one) {
        CASES.put(name, one);
        NAMESPACES.put(name, namespace);
    }

    static {
        add("a-name-is-taken", "default", s -> {
            s.end(() -> s.producer().producerName("p").create());
            s.end(() -> s.other.newProducer().topic(s.topic).producerName("p").create());
        });
        add("a-topic-to-itself", "default", s -> {
            Producer<byte[]> first = s.producer().producerName("a").accessMode(ProducerAccessMode.Exclusive).create();
            s.end(() -> s.producer().producerName("b").accessMode(ProducerAccessMode.Exclusive).create());
            s.end(() -> s.producer().producerName("c").create());
            s.end(() -> s.producer().producerName("d").accessMode(ProducerAccessMode.ExclusiveWithFencing).create());
            s.end(() -> first.send("x".getBytes()));
        });
        add("subscriptions-that-are-taken", "default", s -> {
            s.end(() -> s.consumer("s").subscribe());
            s.end(() -> s.other.newConsumer().topic(s.topic).subscriptionName("s").subscribe());
            s.end(() -> s.shared("s").subscribe());
            s.end(() -> s.consumer("s").subscriptionType(SubscriptionType.Failover).subscribe());
            Consumer<byte[]> one = s.shared("t").subscribe(), two = s.shared("t").consumerName("two").subscribe();
            s.end(() -> { one.unsubscribe(); return null; });
            s.end(() -> { two.close(); one.unsubscribe(); return null; });
        });
        add("keys-that-are-taken", "default", s -> {
            for (int[] range : new int[][] {{0, 100}, {50, 60}, {101, 65535}}) {
                s.end(() -> s.consumer("s").subscriptionType(SubscriptionType.Key_Shared)
                        .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(range[0], range[1]))).subscribe());
            }
            s.end(() -> s.consumer("s").subscriptionType(SubscriptionType.Key_Shared).subscribe());
        });
        add("terminated", "default", s -> {
            Producer<byte[]> producer = s.producer().create();
            Consumer<byte[]> consumer = s.consumer("s").subscribe();
            producer.send("last".getBytes());
            s.end(() -> rest("POST", path(s) + "/terminate", ""));
            s.end(() -> producer.send("x".getBytes()));
            s.end(() -> s.producer().create());
            s.end(() -> new String(consumer.receive(8, TimeUnit.SECONDS).getData()));
            consumer.acknowledgeCumulative(MessageId.latest);
            s.end(() -> s.consumer("new").subscribe());
        });
        add("schemas-that-do-not-fit", "default", s -> {
            s.end(() -> s.client.newProducer(Schema.INT64).topic(s.topic).create());
            s.end(() -> s.client.newProducer(Schema.JSON(Map.class)).topic(s.topic).create());
            s.end(() -> s.client.newConsumer(Schema.STRING).topic(s.topic).subscriptionName("s").subscribe());
            s.end(() -> s.client.newReader(Schema.STRING).topic(s.topic).startMessageId(MessageId.earliest).create());
            s.end(() -> s.producer().create());
            s.end(() -> s.consumer("bytes").subscribe());
            Producer<byte[]> producer = s.client.newProducer(Schema.AUTO_PRODUCE_BYTES()).topic(s.topic).create();
            s.end(() -> producer.send("no long".getBytes()));
        });
        add("names-that-cannot-be", "default", s -> {
            for (String topic : List.of("persistent://public/default", "persistent://none/default/t", "persistent://public/none/t",
                    "other://public/default/t", "persistent://public/default/", "persistent://public/default/a-partition-7")) {
                s.end(() -> s.client.newProducer().topic(topic).create());
                s.end(() -> s.client.newConsumer().topic(topic).subscriptionName("s").subscribe());
            }
        });
        add("a-partition-too-many", "default", s -> {
            s.end(() -> rest("PUT", path(s) + "/partitions", "2"));
            s.end(() -> s.client.newProducer().topic(s.topic + "-partition-1").create());
            s.end(() -> s.client.newProducer().topic(s.topic + "-partition-9").create());
            s.end(() -> s.client.newReader().topic(s.topic + "-partition-9").startMessageId(MessageId.earliest).create());
        });
        add("topics-are-not-made", "refusing-topics", s -> {
            s.end(() -> s.producer().create());
            s.end(() -> s.consumer("s").subscribe());
            s.end(() -> s.client.newReader().topic(s.topic).startMessageId(MessageId.earliest).create());
            s.end(() -> s.client.getPartitionsForTopic(s.topic).get());
            s.end(() -> s.client.getPartitionsForTopic(s.topic, false).get());
            try (PulsarClient byHttp = Stage.connect(http)) {
                s.end(() -> byHttp.newProducer().topic(s.topic).create());
                s.end(() -> byHttp.newConsumer().topic(s.topic).subscriptionName("s").subscribe());
            }
        });
        add("topics-that-are-gone", "refusing-topics", s -> {
            s.end(() -> rest("PUT", path(s), ""));
            Producer<byte[]> producer = s.producer().create();
            Consumer<byte[]> consumer = s.consumer("s").subscribe();
            producer.send("x".getBytes());
            s.end(() -> rest("DELETE", path(s) + "?force=true", ""));
            s.end(() -> producer.send("y".getBytes()));
            s.end(() -> consumer.isConnected());
            s.end(() -> { consumer.seek(MessageId.earliest); return null; });
            s.end(() -> s.client.newProducer().topic(s.topic).create());
        });
        add("subscriptions-are-not-made", "refusing-subscriptions", s -> {
            s.end(() -> rest("PUT", path(s), ""));
            s.end(() -> s.consumer("s").subscribe());
            s.end(() -> s.shared("s").subscribe());
            s.end(() -> s.client.newReader().topic(s.topic).startMessageId(MessageId.earliest).create());
            s.end(() -> rest("PUT", path(s) + "/subscription/s", "\"earliest\""));
            s.end(() -> s.consumer("s").subscribe());
        });
        add("no-more-than-so-many", "refusing-many", s -> {
            for (int i = 0; i < 3; i++) {
                s.end(() -> s.producer().create());
            }
            for (String name : List.of("s", "s", "s", "t", "u")) {
                s.end(() -> s.shared(name).subscribe());
            }
            s.end(() -> s.client.newReader().topic(s.topic).startMessageId(MessageId.earliest).create());
        });
        add("types-that-are-not-enabled", "refusing-types", s -> {
            for (SubscriptionType type : SubscriptionType.values()) {
                s.end(() -> s.consumer("s" + type).subscriptionType(type).subscribe());
            }
        });
        add("without-a-schema", "refusing-bytes", s -> {
            s.end(() -> s.client.newProducer(Schema.STRING).topic(s.topic).create());
            s.end(() -> s.producer().create());
            s.end(() -> s.consumer("s").subscribe());
        });
        add("schemas-are-not-made", "refusing-schemas", s -> {
            s.end(() -> s.client.newProducer(Schema.STRING).topic(s.topic).create());
            s.end(() -> s.client.newConsumer(Schema.STRING).topic(s.topic).subscriptionName("s").subscribe());
        });
        for (String action : List.of("hold", "exception")) {
            add("beyond-the-quota-" + action, "refusing-" + action, s -> {
                s.end(() -> rest("PUT", path(s), ""));
                s.end(() -> rest("PUT", path(s) + "/subscription/s", "\"earliest\""));
                Producer<byte[]> producer = s.producer().create();
                producer.send(new byte[5000]);
                until(() -> !producer.isConnected());
                s.end(() -> producer.send("x".getBytes()));
                s.end(() -> s.client.newProducer().topic(s.topic).create());
                s.end(() -> rest("POST", path(s) + "/subscription/s/skip_all", ""));
                Producer<?>[] made = new Producer<?>[1];
                until(() -> {
                    try {
                        made[0] = s.other.newProducer().topic(s.topic).create();
                    } catch (PulsarClientException error) {
                        return false;
                    }
                    return true;
                });
                s.end(() -> made[0] != null);
            });
        }
        add("what-cannot-be-sent", "default", s -> {
            Producer<byte[]> producer = s.producer().create();
            s.end(() -> producer.send(new byte[900]));
            s.end(() -> producer.send(new byte[6_000_000]));
            s.end(() -> producer.send(new byte[2000]));
            s.end(() -> s.producer().create().send("x".getBytes()));
        });
        add("acknowledged-with-receipts", "default", s -> {
            s.producer().create().send("x".getBytes());
            Consumer<byte[]> consumer = s.shared("s").isAckReceiptEnabled(true).subscribe();
            Message<byte[]> message = consumer.receive(8, TimeUnit.SECONDS);
            s.end(() -> { consumer.acknowledge(message); return null; });
            s.end(() -> { consumer.acknowledge(message); return null; });
            s.end(() -> { consumer.acknowledge(new MessageIdImpl(1L << 40, 3, -1)); return null; });
            s.end(() -> { consumer.acknowledgeCumulative(message); return null; });
            s.end(() -> { consumer.close(); return null; });
            s.end(() -> { consumer.acknowledge(message); return null; });
        });
        add("what-is-closed", "default", s -> {
            Producer<byte[]> producer = s.producer().create();
            Consumer<byte[]> consumer = s.consumer("s").subscribe();
            consumer.unsubscribe();
            s.end(() -> consumer.receive(1, TimeUnit.SECONDS));
            producer.close();
            s.end(() -> producer.send("x".getBytes()));
            s.client.close();
            s.end(() -> s.producer().create());
        });
        add("redelivery-backs-off", "default", s -> {
            s.producer().create().send("x".getBytes());
            RedeliveryBackoff backoff = MultiplierRedeliveryBackoff.builder()
                    .minDelayMs(200).maxDelayMs(1600).multiplier(2).build();
            Consumer<byte[]> consumer = s.shared("s").negativeAckRedeliveryBackoff(backoff).subscribe();
            List<Long> at = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                Message<byte[]> message = consumer.receive(8, TimeUnit.SECONDS);
                at.add(System.nanoTime());
                s.said.add(String.valueOf(message.getRedeliveryCount()));
                consumer.negativeAcknowledge(message);
            }
            for (int i = 1; i < 5; i++) {
                long least = 200L << (i - 1);
                s.said.add(String.valueOf((at.get(i) - at.get(i - 1)) / 1_000_000 >= Math.min(1600, least) * 3 / 4));
            }
        });
        add("a-table-view", "default", s -> {
            s.end(() -> rest("PUT", path(s) + "/partitions", "2"));
            Producer<String> producer = s.client.newProducer(Schema.STRING).topic(s.topic).create();
            for (int i = 0; i < 20; i++) {
                producer.newMessage().key("k" + i % 5).value("v" + i).send();
            }
            producer.newMessage().key("k0").value(null).send();
            BlockingQueue<String> heard = new LinkedBlockingQueue<>();
            try (TableView<String> view = s.client.newTableView(Schema.STRING).topic(s.topic)
                    .autoUpdatePartitionsInterval(1, TimeUnit.SECONDS).create()) {
                s.said.add(new TreeMap<>(snapshot(view)).toString());
                view.listen((key, value) -> heard.add(key + "=" + value));
                producer.newMessage().key("k1").value("new").send();
                producer.newMessage().key("k2").value(null).send();
                producer.newMessage().key("k9").value("more").send();
                until(() -> "more".equals(view.get("k9")) && !view.containsKey("k2") && "new".equals(view.get("k1")));
                s.said.add(new TreeMap<>(snapshot(view)).toString());
                s.said.add(new TreeSet<>(heard).toString());
                s.end(() -> rest("POST", path(s) + "/partitions", "4"));
                until(() -> {
                    try (Producer<String> more = s.other.newProducer(Schema.STRING).topic(s.topic)
                            .messageRoutingMode(MessageRoutingMode.RoundRobinPartition).enableBatching(false).create()) {
                        for (int i = 0; i < 40; i++) {
                            more.newMessage().key("p" + i).value("later").send();
                        }
                    }
                    Thread.sleep(300);
                    return snapshot(view).keySet().stream().filter(key -> key.startsWith("p")).count() == 40;
                });
                s.said.add(String.valueOf(snapshot(view).size()));
            }
        });
    }

    private static Map<String, String> snapshot(TableView<String> view) {
        Map<String, String> found = new HashMap<>();
        view.forEach(found::put);
        return found;
    }

    public static void main(String[] args) throws Exception {
        http = args[1];
        Map<String, Future<List<String>>> running = new TreeMap<>();
        ExecutorService threads = Executors.newFixedThreadPool(4);
        for (String name : CASES.keySet()) {
            if (args.length > 2 && !args[2].equals(name)) {
                continue;
            }
            running.put(name, threads.submit(() -> {
                Stage stage = new Stage(args[0], NAMESPACES.get(name), name);
                Thread runner = new Thread(() -> {
                    try {
                        CASES.get(name).run(stage);
                    } catch (Throwable error) {
                        stage.said.add("FAILED " + error);
                    }
                });
                long began = System.nanoTime();
                runner.start();
                runner.join(TimeUnit.SECONDS.toMillis(CASE_S));
                if (runner.isAlive()) {
                    stage.said.add("HANGS");
                }
                System.err.println(name + " " + (System.nanoTime() - began) / 1_000_000 + " ms");
                stage.client.closeAsync();
                stage.other.closeAsync();
                return stage.said;
            }));
        }
        for (Map.Entry<String, Future<List<String>>> one : running.entrySet()) {
            System.out.println("told " + one.getKey() + ": " + String.join(" ", one.getValue().get()));
        }
        System.exit(0);
    }
}
