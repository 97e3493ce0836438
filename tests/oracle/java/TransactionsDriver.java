import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.transaction.*;

/** Transactions as Apache's own Java client makes them: one line for each step, the same from either broker. */
public class TransactionsDriver {
    private static final long LIFE_S = 20;

    public static void main(String[] args) throws Exception {
        String url = args[0], start = args[1];
        try (PulsarClient client =
                PulsarClient.builder().serviceUrl(url).enableTransaction(true).build()) {
            for (int i = 2; i < args.length; i++) {
                String topic = start + "-" + args[i];
                switch (args[i]) {
                    case "commit" -> commit(client, topic);
                    case "abort" -> abort(client, topic);
                    case "acks" -> acks(client, topic);
                    case "batch" -> batch(client, topic);
                    case "cumulative" -> cumulative(client, topic);
                    case "conflict" -> conflict(client, topic);
                    case "timeout" -> timeout(client, topic);
                    case "pipeline" -> pipeline(client, topic);
                    case "restart" -> restart(client, topic);
                    default -> throw new IllegalArgumentException(args[i]);
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

    private static Transaction begin(PulsarClient client, long seconds) throws Exception {
        return client.newTransaction().withTransactionTimeout(seconds, TimeUnit.SECONDS).build().get();
    }

    private static Producer<byte[]> producer(PulsarClient client, String topic) throws Exception {
        return client.newProducer().topic(topic).sendTimeout(0, TimeUnit.SECONDS)
                .enableBatching(false).create();
    }

    private static Consumer<byte[]> consumer(PulsarClient client, String topic, String name)
            throws Exception {
        return client.newConsumer().topic(topic).subscriptionName(name)
                .subscriptionType(SubscriptionType.Shared).enableBatchIndexAcknowledgment(true)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    /** Receives until nothing comes for a while; the values, in order. */
    private static List<Message<byte[]>> all(Consumer<byte[]> consumer, int seconds) throws Exception {
        List<Message<byte[]>> got = new ArrayList<>();
        Message<byte[]> message;
        while ((message = consumer.receive(seconds, TimeUnit.SECONDS)) != null) {
            got.add(message);
        }
        return got;
    }

    private static List<String> values(List<Message<byte[]>> messages) {
        List<String> texts = new ArrayList<>();
        for (Message<byte[]> message : messages) {
            texts.add(new String(message.getValue()));
        }
        return texts;
    }

    private static String failure(Throwable error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        return cause.getClass().getSimpleName();
    }

    /** Messages of two topics appear together, behind them those that were published meanwhile. */
    private static void commit(PulsarClient client, String topic) throws Exception {
        try (Consumer<byte[]> first = consumer(client, topic + "-1", "s");
                Consumer<byte[]> second = consumer(client, topic + "-2", "s");
                Producer<byte[]> to1 = producer(client, topic + "-1");
                Producer<byte[]> to2 = producer(client, topic + "-2")) {
            to1.send("before".getBytes());
            Transaction txn = begin(client, LIFE_S);
            to1.newMessage(txn).value("one".getBytes()).send();
            to2.newMessage(txn).value("two".getBytes()).send();
            to1.send("after".getBytes());
            say("commit open", values(all(first, 2)), values(all(second, 1)));
            txn.commit().get();
            say("commit done", values(all(first, 2)), values(all(second, 2)), txn.getState());
        }
    }

    /** Waits for a line between the messages with an acknowledgement and the commit: brokers are killed meanwhile. */
    private static void restart(PulsarClient client, String topic) throws Exception {
        try (Consumer<byte[]> consumer = consumer(client, topic, "s");
                Producer<byte[]> producer = producer(client, topic)) {
            producer.send("before".getBytes());
            Transaction txn = begin(client, 120);
            Message<byte[]> before = consumer.receive(30, TimeUnit.SECONDS);
            consumer.acknowledgeAsync(before.getMessageId(), txn).get();
            producer.newMessage(txn).value("one".getBytes()).send();
            producer.newMessage(txn).value("two".getBytes()).send();
            say("restart sent");
            System.out.flush();
            System.in.read();
            txn.commit().get();
            say("restart done", values(all(consumer, 10)), txn.getState());
        }
    }

    private static void abort(PulsarClient client, String topic) throws Exception {
        try (Consumer<byte[]> consumer = consumer(client, topic, "s");
                Producer<byte[]> producer = producer(client, topic)) {
            Transaction txn = begin(client, LIFE_S);
            producer.newMessage(txn).value("never".getBytes()).send();
            producer.send("plain".getBytes());
            txn.abort().get();
            say("abort done", values(all(consumer, 2)), txn.getState());
            try {
                producer.newMessage(txn).value("late".getBytes()).send();
                say("abort late sent");
            } catch (PulsarClientException error) {
                say("abort late", failure(error));
            }
        }
    }

    private static void acks(PulsarClient client, String topic) throws Exception {
        try (Consumer<byte[]> consumer = consumer(client, topic, "s");
                Producer<byte[]> producer = producer(client, topic)) {
            for (int i = 0; i < 3; i++) {
                producer.send(("m" + i).getBytes());
            }
            Transaction txn = begin(client, LIFE_S);
            for (Message<byte[]> message : all(consumer, 1)) {
                consumer.acknowledgeAsync(message.getMessageId(), txn).get();
            }
            consumer.redeliverUnacknowledgedMessages();
            say("acks pending", values(all(consumer, 1)));
            txn.abort().get();
            List<Message<byte[]>> again = all(consumer, 2);
            say("acks aborted", values(again));
            txn = begin(client, LIFE_S);
            for (Message<byte[]> message : again) {
                consumer.acknowledgeAsync(message.getMessageId(), txn).get();
            }
            txn.commit().get();
            consumer.redeliverUnacknowledgedMessages();
            say("acks committed", values(all(consumer, 1)));
        }
    }

    private static void batch(PulsarClient client, String topic) throws Exception {
        try (Consumer<byte[]> consumer = consumer(client, topic, "s");
                Producer<byte[]> producer = client.newProducer().topic(topic)
                        .sendTimeout(0, TimeUnit.SECONDS).batchingMaxMessages(4)
                        .batchingMaxPublishDelay(2, TimeUnit.SECONDS).create()) {
            Transaction sent = begin(client, LIFE_S);
            for (int i = 0; i < 4; i++) {
                producer.newMessage(sent).value(("b" + i).getBytes()).sendAsync();
            }
            producer.flush();
            sent.commit().get();
            List<Message<byte[]>> got = all(consumer, 2);
            say("batch sent", values(got));
            Transaction first = begin(client, LIFE_S), second = begin(client, LIFE_S);
            consumer.acknowledgeAsync(got.get(0).getMessageId(), first).get();
            consumer.acknowledgeAsync(got.get(1).getMessageId(), second).get();
            first.commit().get();
            second.abort().get();
            consumer.redeliverUnacknowledgedMessages();
            // Twice where this redelivery and that of the abort cross on their way.
            say("batch left", new LinkedHashSet<>(values(all(consumer, 2))));
        }
    }

    private static void cumulative(PulsarClient client, String topic) throws Exception {
        try (Consumer<byte[]> consumer = client.newConsumer().topic(topic).subscriptionName("s")
                        .subscriptionType(SubscriptionType.Failover).subscribe();
                Producer<byte[]> producer = producer(client, topic)) {
            for (int i = 0; i < 4; i++) {
                producer.send(("c" + i).getBytes());
            }
            List<Message<byte[]>> got = all(consumer, 1);
            Transaction txn = begin(client, LIFE_S);
            consumer.acknowledgeCumulativeAsync(got.get(2).getMessageId(), txn).get();
            txn.commit().get();
            consumer.redeliverUnacknowledgedMessages();
            say("cumulative left", values(all(consumer, 2)));
        }
    }

    private static void conflict(PulsarClient client, String topic) throws Exception {
        try (Consumer<byte[]> consumer = consumer(client, topic, "s");
                Producer<byte[]> producer = producer(client, topic)) {
            producer.send("m".getBytes());
            MessageId id = all(consumer, 1).get(0).getMessageId();
            Transaction first = begin(client, LIFE_S), second = begin(client, LIFE_S);
            consumer.acknowledgeAsync(id, first).get();
            try {
                consumer.acknowledgeAsync(id, second).get();
                say("conflict none");
            } catch (Exception error) {
                say("conflict", failure(error));
            }
            second.abort().get();
            first.commit().get();
            say("conflict", first.getState(), second.getState());
        }
    }

    private static void timeout(PulsarClient client, String topic) throws Exception {
        try (Consumer<byte[]> consumer = consumer(client, topic, "s");
                Producer<byte[]> producer = producer(client, topic)) {
            Transaction txn = begin(client, 3);
            producer.newMessage(txn).value("never".getBytes()).send();
            producer.send("plain".getBytes());
            say("timeout", values(all(consumer, 8)), txn.getState());
            try {
                txn.commit().get();
                say("timeout committed");
            } catch (Exception error) {
                say("timeout", failure(error));
            }
        }
    }

    /** Consume, produce and acknowledge in one transaction, every third one aborted; each value arrives once. */
    private static void pipeline(PulsarClient client, String topic) throws Exception {
        int count = 12;
        try (Producer<byte[]> source = producer(client, topic + "-in");
                Consumer<byte[]> in = consumer(client, topic + "-in", "s");
                Producer<byte[]> to = producer(client, topic + "-out");
                Consumer<byte[]> out = consumer(client, topic + "-out", "s")) {
            for (int i = 0; i < count; i++) {
                source.send(String.format("v%02d", i).getBytes());
            }
            int moved = 0, turn = 0;
            while (moved < count) {
                Message<byte[]> message = in.receive(10, TimeUnit.SECONDS);
                if (message == null) {
                    say("pipeline stuck at", moved);
                    return;
                }
                Transaction txn = begin(client, LIFE_S);
                to.newMessage(txn).value(message.getValue()).send();
                in.acknowledgeAsync(message.getMessageId(), txn).get();
                if (++turn % 3 == 0) {
                    txn.abort().get();
                } else {
                    txn.commit().get();
                    moved++;
                }
            }
            List<String> got = new ArrayList<>();
            for (Message<byte[]> message : all(out, 2)) {
                got.add(new String(message.getValue()));
            }
            got.sort(null);
            say("pipeline", got);
        }
    }
}
