import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.avro.reflect.AvroDefault;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.schema.GenericObject;
import org.apache.pulsar.client.api.schema.GenericRecord;
import org.apache.pulsar.client.api.schema.SchemaDefinition;
import org.apache.pulsar.common.schema.KeyValue;
import org.apache.pulsar.common.schema.KeyValueEncodingType;
import org.apache.pulsar.common.schema.SchemaInfo;
import org.apache.pulsar.common.schema.SchemaType;

/** What Apache's Java client observes of schemas: a case's name on a line in, a line of JSON out. */
public final class SchemaCases {
    interface Case {
        Object run() throws Exception;
    }

    /** A user's first form. */
    static final class First {
        public static class User {
            public String name;
            public int age;

            public User() {}

            User(String name, int age) {
                this.name = name;
                this.age = age;
            }

            @Override
            public String toString() {
                return name + " " + age;
            }
        }
    }

    /** With a field that has a default: either form reads the other. */
    static final class Second {
        public static class User {
            public String name;
            public int age;

            @AvroDefault("\"unknown\"")
            public String mail = "unknown";

            public User() {}

            User(String name, int age, String mail) {
                this.name = name;
                this.age = age;
                this.mail = mail;
            }

            @Override
            public String toString() {
                return name + " " + age + " " + mail;
            }
        }
    }

    /** No form of a user follows this one: its age is a text. */
    static final class Third {
        public static class User {
            public String name;
            public String age;

            public User() {}

            User(String name, String age) {
                this.name = name;
                this.age = age;
            }
        }
    }

    static <T> SchemaDefinition<T> strict(Class<T> type) {
        return SchemaDefinition.<T>builder().withPojo(type).withAlwaysAllowNull(false).build();
    }

    static final Schema<First.User> AVRO_1 = Schema.AVRO(strict(First.User.class));
    static final Schema<Second.User> AVRO_2 = Schema.AVRO(strict(Second.User.class));
    static final Schema<Third.User> AVRO_3 = Schema.AVRO(strict(Third.User.class));
    static final Schema<First.User> JSON_1 = Schema.JSON(strict(First.User.class));
    static final Schema<Second.User> JSON_2 = Schema.JSON(strict(Second.User.class));
    static final Schema<Third.User> JSON_3 = Schema.JSON(strict(Third.User.class));

    final PulsarClient client;
    final String run;
    final Path keys;
    final Map<String, Case> cases = new LinkedHashMap<>();

    SchemaCases(String url, String run, Path keys) throws Exception {
        client = PulsarClient.builder().serviceUrl(url).operationTimeout(10, TimeUnit.SECONDS).build();
        this.run = run;
        this.keys = keys;
        cases.put("dead_letter", this::deadLetter);
        cases.put("retry_letter", this::retryLetter);
        cases.put("encryption", this::encryption);
        cases.put("reader", this::reader);
        cases.put("table_view", this::tableView);
        cases.put("several_schemas", this::severalSchemas);
        cases.put("one_schema_only", this::oneSchemaOnly);
        cases.put("avro_evolution", () -> evolution("avro", AVRO_1, AVRO_2));
        cases.put("json_evolution", () -> evolution("json", JSON_1, JSON_2));
        cases.put("key_value_inline", () -> keyValue("inline", KeyValueEncodingType.INLINE));
        cases.put("key_value_separated", () -> keyValue("separated", KeyValueEncodingType.SEPARATED));
        cases.put("protobuf_native", this::protobufNative);
        cases.put("protobuf", this::protobuf);
        cases.put("auto_consume", this::autoConsume);
        cases.put("auto_produce", this::autoProduce);
        cases.put("incompatible", this::incompatible);
        cases.put("another_type", this::anotherType);
        cases.put("enforced", this::enforced);
        cases.put("fixed", this::fixed);
        cases.put("primitives", this::primitives);
        cases.put("partitioned", this::partitioned);
        cases.put("several_topics", this::severalTopics);
        cases.put("regex", this::regex);
        cases.put("non_persistent", this::nonPersistent);
        cases.put("backward", () -> strategy("backward"));
        cases.put("forward", () -> strategy("forward"));
        cases.put("always", () -> strategy("always"));
        cases.put("attach", this::attach);
        cases.put("after_restart", this::afterRestart);
        cases.put("write_for_others", this::writeForOthers);
        for (String language : List.of("python", "go")) {
            cases.put("read_" + language, () -> readOthers(language));
        }
    }

    // --- letters, keys, readers -------------------------------------------------------------------

    Object deadLetter() throws Exception {
        String topic = topic("dead");
        List<Object> seen = new ArrayList<>();
        try (Consumer<First.User> dead = consumer(AVRO_1, topic + "-s-DLQ", "after");
                Consumer<First.User> consumer = client.newConsumer(AVRO_1).topic(topic)
                        .subscriptionName("s").subscriptionType(SubscriptionType.Shared)
                        .negativeAckRedeliveryDelay(50, TimeUnit.MILLISECONDS)
                        .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(1).build())
                        .subscribe();
                Producer<First.User> producer = producer(AVRO_1, topic)) {
            producer.newMessage().key("k").value(new First.User("ann", 1)).send();
            for (int i = 0; i < 2; i++) {
                consumer.negativeAcknowledge(taken(consumer));
            }
            Message<First.User> letter = receive(dead);
            seen.add(told(letter));
            seen.add(letter.getKey());
            seen.add(letter.getProperty("REAL_TOPIC").equals(topic));
        }
        seen.add(consumed(topic + "-s-DLQ"));
        return seen;
    }

    Object retryLetter() throws Exception {
        String topic = topic("retry");
        List<Object> seen = new ArrayList<>();
        try (Consumer<First.User> dead = consumer(JSON_1, topic + "-s-DLQ", "after");
                Consumer<First.User> consumer = client.newConsumer(JSON_1).topic(topic)
                        .subscriptionName("s").subscriptionType(SubscriptionType.Shared)
                        .enableRetry(true)
                        .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2).build())
                        .subscribe();
                Producer<First.User> producer = producer(JSON_1, topic)) {
            producer.send(new First.User("ann", 1));
            for (int i = 0; i < 3; i++) {
                Message<First.User> message = taken(consumer);
                seen.add(told(message) + " " + message.getProperty("RECONSUMETIMES"));
                consumer.reconsumeLater(message, 100, TimeUnit.MILLISECONDS);
            }
            seen.add(told(receive(dead)));
        }
        return seen;
    }

    final class Keys implements CryptoKeyReader {
        @Override
        public EncryptionKeyInfo getPublicKey(String name, Map<String, String> metadata) {
            return read("public.pem");
        }

        @Override
        public EncryptionKeyInfo getPrivateKey(String name, Map<String, String> metadata) {
            return read("private.pem");
        }

        private EncryptionKeyInfo read(String file) {
            try {
                return new EncryptionKeyInfo(Files.readAllBytes(keys.resolve(file)), new HashMap<>());
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        }
    }

    Object encryption() throws Exception {
        String topic = topic("encrypted");
        List<Object> seen = new ArrayList<>();
        try (Consumer<Second.User> consumer = client.newConsumer(AVRO_2).topic(topic).subscriptionName("s")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                        .cryptoKeyReader(new Keys()).subscribe();
                Producer<First.User> producer = encrypting(AVRO_1, topic)) {
            producer.send(new First.User("ann", 1));
            producer.newMessage(AVRO_2).value(new Second.User("bob", 2, "b@x")).send();
            for (int i = 0; i < 2; i++) {
                Message<Second.User> message = receive(consumer);
                seen.add(told(message) + " " + message.getEncryptionCtx().isPresent());
            }
        }
        try (Consumer<byte[]> blind = client.newConsumer().topic(topic).subscriptionName("blind")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .cryptoFailureAction(ConsumerCryptoFailureAction.CONSUME).subscribe()) {
            Message<byte[]> message = receive(blind);
            seen.add(message.getEncryptionCtx().isPresent() + " " + hex(message.getSchemaVersion()));
        }
        return seen;
    }

    <T> Producer<T> encrypting(Schema<T> schema, String topic) throws Exception {
        return client.newProducer(schema).topic(topic).addEncryptionKey("key")
                .cryptoKeyReader(new Keys()).create();
    }

    Object reader() throws Exception {
        String topic = topic("read");
        List<Object> seen = new ArrayList<>();
        try (Producer<First.User> first = producer(JSON_1, topic)) {
            first.send(new First.User("ann", 1));
        }
        try (Producer<Second.User> second = producer(JSON_2, topic)) {
            second.send(new Second.User("bob", 2, "b@x"));
        }
        try (Reader<First.User> reader = client.newReader(JSON_1).topic(topic)
                .startMessageId(MessageId.earliest).create()) {
            while (reader.hasMessageAvailable()) {
                seen.add(told(reader.readNext(10, TimeUnit.SECONDS)));
            }
        }
        try (Reader<GenericRecord> reader = client.newReader(Schema.AUTO_CONSUME()).topic(topic)
                .startMessageId(MessageId.earliest).create()) {
            while (reader.hasMessageAvailable()) {
                seen.add(generic(reader.readNext(10, TimeUnit.SECONDS)));
            }
        }
        seen.add(refused(() -> client.newReader(JSON_3).topic(topic)
                .startMessageId(MessageId.earliest).create().close()));
        return seen;
    }

    Object tableView() throws Exception {
        String topic = topic("table");
        Map<String, Object> rows = new TreeMap<>();
        try (Producer<First.User> producer = producer(AVRO_1, topic)) {
            producer.newMessage().key("a").value(new First.User("ann", 1)).send();
            producer.newMessage().key("b").value(new First.User("bob", 2)).send();
            producer.newMessage().key("a").value(new First.User("ann", 3)).send();
            producer.newMessage(AVRO_2).key("c").value(new Second.User("cid", 4, "c@x")).send();
        }
        try (TableView<Second.User> view = client.newTableView(AVRO_2).topic(topic).create()) {
            view.forEach((key, user) -> rows.put(key, user.toString()));
        }
        try (TableView<String> view = client.newTableView(Schema.STRING).topic(topic("words")).create();
                Producer<String> producer = producer(Schema.STRING, topic("words"))) {
            CompletableFuture<String> came = new CompletableFuture<>();
            view.listen((key, word) -> came.complete(key + " " + word));
            producer.newMessage().key("w").value("word").send();
            rows.put("listened", came.get(20, TimeUnit.SECONDS));
        }
        return rows;
    }

    // --- several schemas --------------------------------------------------------------------------

    Object severalSchemas() throws Exception {
        String topic = topic("several");
        List<Object> seen = new ArrayList<>();
        try (Consumer<GenericRecord> any = consumer(Schema.AUTO_CONSUME(), topic, "any");
                Consumer<First.User> old = consumer(AVRO_1, topic, "old");
                Producer<First.User> producer = client.newProducer(AVRO_1).topic(topic)
                        .batchingMaxPublishDelay(20, TimeUnit.MILLISECONDS).create()) {
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            sent.add(producer.newMessage().value(new First.User("ann", 1)).sendAsync());
            sent.add(producer.newMessage(AVRO_2).value(new Second.User("bob", 2, "b@x")).sendAsync());
            sent.add(producer.newMessage(AVRO_1).value(new First.User("cid", 3)).sendAsync());
            sent.add(producer.newMessage(AVRO_2).value(new Second.User("dan", 4, "d@x")).sendAsync());
            producer.flush();
            for (CompletableFuture<MessageId> each : sent) {
                each.get(20, TimeUnit.SECONDS);
            }
            for (int i = 0; i < sent.size(); i++) {
                seen.add(generic(receive(any)));
                seen.add(told(receive(old)));
            }
            seen.add(refused(() -> producer.newMessage(AVRO_3).value(new Third.User("fay", "6")).send()));
            producer.newMessage(AVRO_2).value(new Second.User("eve", 5, "e@x")).send();
            seen.add(generic(receive(any)));
        }
        return seen;
    }

    Object oneSchemaOnly() throws Exception {
        String topic = topic("single");
        try (Producer<First.User> producer = client.newProducer(AVRO_1).topic(topic)
                .enableMultiSchema(false).create()) {
            producer.send(new First.User("ann", 1));
            return refused(() -> producer.newMessage(AVRO_2).value(new Second.User("b", 2, "")).send());
        }
    }

    Object evolution(String name, Schema<First.User> first, Schema<Second.User> second) throws Exception {
        String topic = topic("evolution-" + name);
        List<Object> seen = new ArrayList<>();
        try (Consumer<First.User> old = consumer(first, topic, "old");
                Producer<First.User> one = producer(first, topic)) {
            one.send(new First.User("ann", 1));
            seen.add(told(receive(old)));
            try (Producer<Second.User> two = producer(second, topic);
                    Consumer<Second.User> young = consumer(second, topic, "young")) {
                two.send(new Second.User("bob", 2, "b@x"));
                one.send(new First.User("cid", 3));
                seen.add(told(receive(old)));
                seen.add(told(receive(old)));
                for (int i = 0; i < 3; i++) {
                    seen.add(told(receive(young)));
                }
            }
        }
        return seen;
    }

    Object keyValue(String name, KeyValueEncodingType encoding) throws Exception {
        String topic = topic("pairs-" + name);
        Schema<KeyValue<First.User, Second.User>> pairs = Schema.KeyValue(AVRO_1, JSON_2, encoding);
        List<Object> seen = new ArrayList<>();
        try (Consumer<KeyValue<First.User, Second.User>> consumer = consumer(pairs, topic, "same");
                Consumer<GenericRecord> any = consumer(Schema.AUTO_CONSUME(), topic, "any");
                Producer<KeyValue<First.User, Second.User>> producer = producer(pairs, topic)) {
            producer.send(new KeyValue<>(new First.User("ann", 1), new Second.User("bob", 2, "b@x")));
            Message<KeyValue<First.User, Second.User>> message = receive(consumer);
            seen.add(message.getValue().getKey() + " -> " + message.getValue().getValue());
            seen.add(message.hasKey());
            seen.add(hex(message.getSchemaVersion()));
            seen.add(generic(receive(any)));
            seen.add(info(topic));
        }
        Schema<KeyValue<String, Integer>> others = Schema.KeyValue(Schema.STRING, Schema.INT32, encoding);
        seen.add(refused(() -> producer(others, topic).close()));
        return seen;
    }

    Object protobufNative() throws Exception {
        String topic = topic("native");
        List<Object> seen = new ArrayList<>();
        Schema<Timestamp> schema = Schema.PROTOBUF_NATIVE(Timestamp.class);
        try (Consumer<Timestamp> consumer = consumer(schema, topic, "same");
                Consumer<GenericRecord> any = consumer(Schema.AUTO_CONSUME(), topic, "any");
                Producer<Timestamp> producer = producer(schema, topic)) {
            producer.send(Timestamp.newBuilder().setSeconds(7).setNanos(9).build());
            Message<Timestamp> message = receive(consumer);
            seen.add(message.getValue().getSeconds() + " " + message.getValue().getNanos());
            seen.add(hex(message.getSchemaVersion()));
            seen.add(generic(receive(any)));
            seen.add(info(topic));
        }
        seen.add(refused(() -> producer(Schema.PROTOBUF_NATIVE(Duration.class), topic).close()));
        seen.add(refused(() -> consumer(Schema.PROTOBUF_NATIVE(Duration.class), topic, "other").close()));
        return seen;
    }

    Object protobuf() throws Exception {
        String topic = topic("protobuf");
        List<Object> seen = new ArrayList<>();
        Schema<Timestamp> schema = Schema.PROTOBUF(Timestamp.class);
        try (Consumer<Timestamp> consumer = consumer(schema, topic, "same");
                Producer<Timestamp> producer = producer(schema, topic)) {
            producer.send(Timestamp.newBuilder().setSeconds(7).setNanos(9).build());
            Message<Timestamp> message = receive(consumer);
            seen.add(message.getValue().getSeconds() + " " + message.getValue().getNanos());
            seen.add(hex(message.getSchemaVersion()));
            seen.add(info(topic));
        }
        seen.add(refused(() -> producer(Schema.PROTOBUF(Duration.class), topic).close()));
        return seen;
    }

    // --- schemas of the topic ---------------------------------------------------------------------

    Object autoConsume() throws Exception {
        String topic = topic("any");
        List<Object> seen = new ArrayList<>();
        try (Consumer<GenericRecord> any = consumer(Schema.AUTO_CONSUME(), topic, "any")) {
            try (Producer<byte[]> bytes = producer(Schema.BYTES, topic)) {
                bytes.send("plain".getBytes(StandardCharsets.UTF_8));
                seen.add(generic(receive(any)));
            }
            try (Producer<First.User> users = producer(AVRO_1, topic)) {
                users.send(new First.User("ann", 1));
                seen.add(generic(receive(any)));
            }
            try (Producer<byte[]> bytes = producer(Schema.BYTES, topic)) {
                bytes.send("again".getBytes(StandardCharsets.UTF_8));
                Message<GenericRecord> message = receive(any);
                seen.add(new String(message.getData(), StandardCharsets.UTF_8));
                seen.add(hex(message.getSchemaVersion()));
            }
        }
        return seen;
    }

    Object autoProduce() throws Exception {
        String topic = topic("auto-produce");
        List<Object> seen = new ArrayList<>();
        try (Producer<First.User> users = producer(AVRO_1, topic);
                Consumer<First.User> consumer = consumer(AVRO_1, topic, "s")) {
            try (Producer<byte[]> auto = producer(Schema.AUTO_PRODUCE_BYTES(), topic)) {
                auto.send(AVRO_1.encode(new First.User("ann", 1)));
                seen.add(told(receive(consumer)));
                seen.add(refused(() -> auto.send(new byte[] {1, 2, 3})));
            }
            try (Producer<byte[]> auto = producer(Schema.AUTO_PRODUCE_BYTES(AVRO_2), topic)) {
                auto.send(AVRO_2.encode(new Second.User("bob", 2, "b@x")));
                seen.add(told(receive(consumer)));
            }
        }
        String plain = topic("auto-plain");
        try (Producer<byte[]> auto = producer(Schema.AUTO_PRODUCE_BYTES(), plain);
                Consumer<byte[]> consumer = consumer(Schema.BYTES, plain, "s")) {
            auto.send(new byte[] {1, 2, 3});
            seen.add(hex(receive(consumer).getData()));
        }
        return seen;
    }

    Object incompatible() throws Exception {
        List<Object> seen = new ArrayList<>();
        String avro = topic("incompatible-avro");
        String json = topic("incompatible-json");
        producer(AVRO_1, avro).close();
        producer(JSON_1, json).close();
        seen.add(refused(() -> producer(AVRO_3, avro).close()));
        seen.add(refused(() -> consumer(AVRO_3, avro, "s").close()));
        seen.add(refused(() -> producer(JSON_3, json).close()));
        seen.add(refused(() -> consumer(JSON_3, json, "s").close()));
        seen.add(refused(() -> client.newTableView(AVRO_3).topic(avro).create().close()));
        try (Producer<First.User> still = producer(AVRO_1, avro)) {
            still.send(new First.User("ann", 1));
        }
        seen.add(consumed(avro));
        return seen;
    }

    Object anotherType() throws Exception {
        List<Object> seen = new ArrayList<>();
        String topic = topic("typed");
        producer(AVRO_1, topic).close();
        seen.add(refused(() -> producer(JSON_1, topic).close()));
        seen.add(refused(() -> producer(Schema.STRING, topic).close()));
        seen.add(refused(() -> consumer(JSON_1, topic, "s").close()));
        seen.add(refused(() -> consumer(Schema.INT64, topic, "s").close()));
        seen.add(refused(() -> consumer(Schema.BYTES, topic, "s").close()));
        seen.add(refused(() -> producer(Schema.BYTES, topic).close()));
        String plain = topic("untyped");
        try (Producer<byte[]> bytes = producer(Schema.BYTES, plain)) {
            bytes.send(new byte[] {1});
            seen.add(refused(() -> consumer(Schema.STRING, plain, "s").close()));
            seen.add(refused(() -> producer(Schema.STRING, plain).close()));
            seen.add(refused(() -> consumer(Schema.STRING, plain, "s").close()));
        }
        return seen;
    }

    Object enforced() throws Exception {
        String topic = "persistent://public/schemas-enforced/" + run + "java";
        List<Object> seen = new ArrayList<>();
        seen.add(refused(() -> producer(Schema.BYTES, topic).close()));
        producer(AVRO_1, topic).close();
        seen.add(refused(() -> producer(Schema.BYTES, topic).close()));
        seen.add(refused(() -> producer(Schema.AUTO_PRODUCE_BYTES(), topic).close()));
        seen.add(refused(() -> consumer(Schema.BYTES, topic, "s").close()));
        return seen;
    }

    Object fixed() throws Exception {
        String topic = "persistent://public/schemas-fixed/" + run + "java";
        List<Object> seen = new ArrayList<>();
        seen.add(refused(() -> producer(AVRO_1, topic).close()));
        seen.add(refused(() -> producer(AVRO_2, topic).close()));
        seen.add(refused(() -> producer(AVRO_1, topic).close()));
        seen.add(refused(() -> consumer(AVRO_2, topic, "s").close()));
        return seen;
    }

    /** In namespaces with other strategies: may the second form follow, the first follow it, a text for a number? */
    Object strategy(String name) throws Exception {
        String topic = "persistent://public/schemas-" + name + "/" + run + "java";
        String without = "{\"type\":\"record\",\"name\":\"User\",\"fields\":[{\"name\":\"name\",\"type\":\"string\"}]}";
        String with = without.replace("]}", ",{\"name\":\"age\",\"type\":\"int\"}]}");
        List<Object> seen = new ArrayList<>();
        Schema<GenericRecord> small = Schema.generic(avro(without));
        Schema<GenericRecord> large = Schema.generic(avro(with));
        producer(small, topic + "-grows").close();
        seen.add(refused(() -> producer(large, topic + "-grows").close()));
        seen.add(refused(() -> consumer(large, topic + "-grows", "s").close()));
        producer(large, topic + "-shrinks").close();
        seen.add(refused(() -> producer(small, topic + "-shrinks").close()));
        seen.add(refused(() -> consumer(small, topic + "-shrinks", "s").close()));
        seen.add(refused(() -> producer(Schema.STRING, topic + "-shrinks").close()));
        return seen;
    }

    static SchemaInfo avro(String definition) {
        return SchemaInfo.builder().name("").type(SchemaType.AVRO).properties(Map.of())
                .schema(definition.getBytes(StandardCharsets.UTF_8)).build();
    }

    // --- types, topics ----------------------------------------------------------------------------

    static final Map<Schema<?>, Object> PRIMITIVES = new LinkedHashMap<>();

    static {
        PRIMITIVES.put(Schema.BOOL, true);
        PRIMITIVES.put(Schema.INT8, (byte) -8);
        PRIMITIVES.put(Schema.INT16, (short) -1600);
        PRIMITIVES.put(Schema.INT32, -320_000);
        PRIMITIVES.put(Schema.INT64, -64_000_000_000L);
        PRIMITIVES.put(Schema.FLOAT, 1.5f);
        PRIMITIVES.put(Schema.DOUBLE, -2.25d);
        PRIMITIVES.put(Schema.STRING, "gr\u00fc\u00dfe");
        PRIMITIVES.put(Schema.DATE, new java.util.Date(86_400_000L * 365));
        PRIMITIVES.put(Schema.TIME, new java.sql.Time(3_600_000L));
        PRIMITIVES.put(Schema.TIMESTAMP, new java.sql.Timestamp(1_700_000_000_123L));
        PRIMITIVES.put(Schema.INSTANT, Instant.ofEpochSecond(1_700_000_000L, 123_456_789));
        PRIMITIVES.put(Schema.LOCAL_DATE, LocalDate.of(2024, 2, 29));
        PRIMITIVES.put(Schema.LOCAL_TIME, LocalTime.of(1, 2, 3, 4));
        PRIMITIVES.put(Schema.LOCAL_DATE_TIME, LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4));
    }

    @SuppressWarnings("unchecked")
    Object primitives() throws Exception {
        Map<String, Object> seen = new TreeMap<>();
        for (Map.Entry<Schema<?>, Object> each : PRIMITIVES.entrySet()) {
            Schema<Object> schema = (Schema<Object>) each.getKey();
            String kind = schema.getSchemaInfo().getType().name();
            String topic = topic("primitive-" + kind);
            try (Producer<Object> producer = producer(schema, topic)) {
                producer.send(each.getValue());
            }
            try (Consumer<Object> typed = consumer(schema, topic, "typed");
                    Consumer<GenericRecord> any = consumer(Schema.AUTO_CONSUME(), topic, "any")) {
                Message<Object> message = receive(typed);
                GenericRecord read = receive(any).getValue();
                seen.put(kind, List.of(message.getValue().equals(each.getValue()), hex(message.getData()),
                        hex(message.getSchemaVersion()), read.getSchemaType().name(),
                        read.getNativeObject().equals(each.getValue())));
            }
        }
        return seen;
    }

    Object partitioned() throws Exception {
        String topic = topic("partitioned"); // of three partitions, made by who runs this
        Map<String, Integer> seen = new TreeMap<>();
        try (Consumer<Second.User> consumer = consumer(AVRO_2, topic, "s");
                Producer<First.User> producer = client.newProducer(AVRO_1).topic(topic).enableBatching(false)
                        .messageRoutingMode(MessageRoutingMode.RoundRobinPartition).create()) {
            for (int i = 0; i < 6; i++) {
                producer.send(new First.User("ann", i));
                producer.newMessage(AVRO_2).value(new Second.User("bob", i, "b@x")).send();
            }
            for (int i = 0; i < 12; i++) {
                Message<Second.User> message = receive(consumer);
                String[] words = told(message).toString().split(" ");
                seen.merge(words[0] + " " + words[words.length - 1], 1, Integer::sum);
            }
        }
        return List.of(seen, refused(() -> producer(AVRO_3, topic).close()),
                refused(() -> consumer(AVRO_3, topic, "other").close()));
    }

    Object severalTopics() throws Exception {
        String one = topic("many-1");
        String two = topic("many-2");
        TreeSet<String> seen = new TreeSet<>();
        try (Consumer<Second.User> consumer = client.newConsumer(JSON_2).topics(List.of(one, two))
                        .subscriptionName("s").subscribe();
                Producer<Second.User> old = producer(JSON_2, one);
                Producer<First.User> young = producer(JSON_1, two)) {
            old.send(new Second.User("ann", 1, "a@x"));
            young.send(new First.User("bob", 2));
            for (int i = 0; i < 2; i++) {
                Message<Second.User> message = receive(consumer);
                seen.add(last(message.getTopicName()) + " " + told(message));
            }
        }
        return seen;
    }

    Object regex() throws Exception {
        TreeSet<String> seen = new TreeSet<>();
        String one = topic("pattern-1");
        String two = topic("pattern-2");
        try (Producer<First.User> users = producer(AVRO_1, one); Producer<String> words = producer(Schema.STRING, two)) {
            users.send(new First.User("ann", 1));
            words.send("word");
        }
        try (Consumer<GenericRecord> consumer = client.newConsumer(Schema.AUTO_CONSUME())
                .topicsPattern(Pattern.compile(topic("pattern-") + ".*")).subscriptionName("s")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            for (int i = 0; i < 2; i++) {
                Message<GenericRecord> message = receive(consumer);
                seen.add(last(message.getTopicName()) + " " + generic(message));
            }
        }
        return seen;
    }

    static String last(String topic) {
        return topic.substring(topic.lastIndexOf('-') + 1);
    }

    Object nonPersistent() throws Exception {
        String topic = topic("passing").replace("persistent://", "non-persistent://");
        try (Consumer<First.User> consumer = consumer(AVRO_1, topic, "s");
                Producer<First.User> producer = producer(AVRO_1, topic)) {
            producer.send(new First.User("ann", 1));
            return List.of(told(receive(consumer)), refused(() -> producer(AVRO_3, topic).close()));
        }
    }

    // --- over a restart of the broker ---------------------------------------------------------------

    private Producer<First.User> attached;
    private Producer<String> words;
    private Consumer<GenericRecord> attachedConsumer;
    private Consumer<Second.User> attachedReader;
    private Thread sender;
    private volatile boolean stopped;
    private final List<CompletableFuture<MessageId>> receipts = new ArrayList<>();

    /** Two producers with several versions, which send until `after_restart`. */
    Object attach() throws Exception {
        String topic = topic("attached");
        attached = client.newProducer(AVRO_1).topic(topic).sendTimeout(0, TimeUnit.SECONDS).create();
        attachedConsumer = consumer(Schema.AUTO_CONSUME(), topic, "any");
        attachedReader = consumer(AVRO_2, topic, "young");
        attached.newMessage(AVRO_2).value(new Second.User("first", -1, "f@x")).send();
        words = client.newProducer(Schema.STRING).topic(topic + "-words").sendTimeout(0, TimeUnit.SECONDS).create();
        sender = new Thread(() -> {
            for (int i = 0; !stopped; i++) {
                receipts.add(i % 2 == 0
                        ? attached.newMessage().value(new First.User("ann", i)).sendAsync()
                        : attached.newMessage(AVRO_2).value(new Second.User("bob", i, "b@x")).sendAsync());
                words.sendAsync("w" + i);
                try {
                    Thread.sleep(5);
                } catch (InterruptedException error) {
                    return;
                }
            }
        });
        sender.start();
        return "sending";
    }

    Object afterRestart() throws Exception {
        Producer<String> other = producer(Schema.STRING, topic("attached") + "-words"); // the broker answers again
        other.close();
        stopped = true;
        sender.join(20_000);
        for (CompletableFuture<MessageId> each : receipts) {
            each.get(30, TimeUnit.SECONDS);
        }
        attached.newMessage(AVRO_2).value(new Second.User("last", receipts.size(), "l@x")).send();
        Map<Integer, String> versions = new TreeMap<>();
        Map<Integer, String> values = new TreeMap<>();
        for (boolean more = true; more; ) {
            Message<GenericRecord> message = receive(attachedConsumer);
            versions.put((Integer) message.getValue().getField("age"), hex(message.getSchemaVersion()));
            more = !message.getValue().getField("name").equals("last");
        }
        for (boolean more = true; more; ) {
            Second.User user = receive(attachedReader).getValue();
            values.put(user.age, user.toString());
            more = !user.name.equals("last");
        }
        boolean right = true;
        for (int i = 0; i < receipts.size(); i++) {
            right &= (i % 2 == 0 ? "0000000000000000" : "0000000000000001").equals(versions.get(i));
            right &= (i % 2 == 0 ? "ann " + i + " unknown" : "bob " + i + " b@x").equals(values.get(i));
        }
        List<Object> seen = List.of(receipts.size() > 10, versions.size() == receipts.size() + 2, right,
                refused(() -> producer(AVRO_3, topic("attached")).close()));
        attached.close();
        words.close();
        attachedConsumer.close();
        attachedReader.close();
        return seen;
    }

    // --- with other languages -----------------------------------------------------------------------

    static final String USER_1 = "{\"type\":\"record\",\"name\":\"User\",\"fields\":["
            + "{\"name\":\"name\",\"type\":\"string\"},{\"name\":\"age\",\"type\":\"int\"}]}";

    Object writeForOthers() throws Exception {
        try (Producer<First.User> avro = producer(AVRO_1, shared("java-avro"));
                Producer<First.User> json = producer(JSON_1, shared("java-json"));
                Producer<String> text = producer(Schema.STRING, shared("java-string"));
                Producer<Timestamp> stamp = producer(Schema.PROTOBUF_NATIVE(Timestamp.class), shared("java-native"));
                Producer<Long> number = producer(Schema.INT64, shared("java-int64"));
                Producer<First.User> sealed = encrypting(JSON_1, shared("java-encrypted"))) {
            avro.newMessage().key("k").value(new First.User("java", 1)).send();
            json.newMessage().key("k").value(new First.User("java", 1)).send();
            text.newMessage().key("k").value("java").send();
            stamp.newMessage().key("k").value(Timestamp.newBuilder().setSeconds(1).build()).send();
            number.newMessage().key("k").value(1L).send();
            sealed.newMessage().key("k").value(new First.User("java", 1)).send();
        }
        return "written";
    }

    Object readOthers(String language) throws Exception {
        Map<String, Object> seen = new TreeMap<>();
        List<String> kinds = new ArrayList<>(List.of("avro", "json", "string", "native", "encrypted"));
        if (language.equals("go")) {
            kinds.add("int64"); // in another order of bytes than Java's
        }
        for (String kind : kinds) {
            try (Consumer<GenericRecord> any = client.newConsumer(Schema.AUTO_CONSUME())
                    .topic(shared(language + "-" + kind)).subscriptionName("java").cryptoKeyReader(new Keys())
                    .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
                seen.put(kind, generic(receive(any)));
            }
        }
        try (Consumer<Second.User> typed = consumer(JSON_2, shared(language + "-json"), "typed")) {
            seen.put("json-typed", told(receive(typed)));
        }
        try (Consumer<First.User> typed = consumer(AVRO_1, shared(language + "-avro"), "typed")) {
            seen.put("avro-typed", told(receive(typed)));
        }
        return seen;
    }

    // --- what cases are made of ---------------------------------------------------------------------

    String topic(String name) {
        return "persistent://public/schemas/" + run + "java-" + name;
    }

    /** One that programs in other languages use, too. */
    String shared(String name) {
        return "persistent://public/schemas/" + run + "shared-" + name;
    }

    <T> Producer<T> producer(Schema<T> schema, String topic) throws Exception {
        return client.newProducer(schema).topic(topic).create();
    }

    <T> Consumer<T> consumer(Schema<T> schema, String topic, String name) throws Exception {
        return client.newConsumer(schema).topic(topic).subscriptionName(name)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
    }

    static <T> Message<T> taken(Consumer<T> consumer) throws Exception {
        Message<T> message = consumer.receive(20, TimeUnit.SECONDS);
        if (message == null) {
            throw new IllegalStateException("nothing to receive from " + consumer.getTopic());
        }
        return message;
    }

    static <T> Message<T> receive(Consumer<T> consumer) throws Exception {
        Message<T> message = taken(consumer);
        consumer.acknowledge(message);
        return message;
    }

    /** The class of what was raised, "taken" when nothing was. */
    static String refused(Case work) {
        try {
            work.run();
            return "taken";
        } catch (Exception error) {
            return error.getClass().getSimpleName();
        }
    }

    static String refused(Work work) {
        return refused(() -> {
            work.run();
            return null;
        });
    }

    interface Work {
        void run() throws Exception;
    }

    static String hex(byte[] bytes) {
        return bytes == null ? "none" : HexFormat.of().formatHex(bytes);
    }

    static String told(Message<?> message) {
        return message.getValue() + " " + hex(message.getSchemaVersion());
    }

    /** All that AUTO_CONSUME finds of the first message of a topic. */
    String consumed(String topic) throws Exception {
        try (Consumer<GenericRecord> any = consumer(Schema.AUTO_CONSUME(), topic, "consumed")) {
            return generic(receive(any));
        }
    }

    static String generic(Message<GenericRecord> message) {
        GenericRecord value = message.getValue();
        return value.getSchemaType() + " " + fields(value) + " " + hex(message.getSchemaVersion());
    }

    static String fields(Object value) {
        if (value instanceof GenericRecord record && record.getSchemaType().isStruct()) {
            Map<String, String> found = new TreeMap<>();
            record.getFields().forEach(field -> found.put(field.getName(), fields(record.getField(field))));
            return found.toString();
        }
        Object inner = value instanceof GenericObject object ? object.getNativeObject() : value;
        if (inner instanceof KeyValue<?, ?> pair) {
            return fields(pair.getKey()) + " -> " + fields(pair.getValue());
        }
        return inner instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : String.valueOf(inner);
    }

    /** The newest schema as the client gets it: type and properties that are not the client's own. */
    String info(String topic) throws Exception {
        SchemaInfo found = ((org.apache.pulsar.client.impl.PulsarClientImpl) client).getSchema(topic)
                .get(20, TimeUnit.SECONDS).orElseThrow();
        return found.getType() + " " + new TreeMap<>(found.getProperties()).keySet();
    }

    public static void main(String[] arguments) throws Exception {
        SchemaCases all = new SchemaCases(arguments[0], arguments[1], Path.of(arguments[2]));
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String name; (name = lines.readLine()) != null; ) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("seen", all.cases.get(name).run());
            } catch (Throwable error) {
                error.printStackTrace();
                answer.put("error", error.toString());
            }
            System.out.println("#" + json.writeValueAsString(answer));
        }
        Runtime.getRuntime().halt(0); // a client that cannot close must not keep the tests waiting
    }
}
