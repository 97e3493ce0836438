// What the Go client observes of schemas: a case's name on a line in, a line of JSON out.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// User has what both forms have; the first form's messages leave Mail empty.
type User struct {
	Name string `json:"name" avro:"name"`
	Age  int    `json:"age" avro:"age"`
	Mail string `json:"mail,omitempty" avro:"mail"`
}

const (
	first = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"},{"name":"age","type":"int"}]}`
	// either form reads the other
	second = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"},{"name":"age","type":"int"},` +
		`{"name":"mail","type":"string","default":"unknown"}]}`
	// no form of a user follows this one: its age is a text
	third = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"},{"name":"age","type":"string"}]}`
)

var (
	avro1 = pulsar.NewAvroSchema(first, nil)
	avro2 = pulsar.NewAvroSchema(second, nil)
	avro3 = pulsar.NewAvroSchema(third, nil)
	json1 = pulsar.NewJSONSchema(first, nil)
	json2 = pulsar.NewJSONSchema(second, nil)
	json3 = pulsar.NewJSONSchema(third, nil)
	text  = pulsar.NewStringSchema(nil)
)

type cases struct {
	client pulsar.Client
	run    string
	keys   string
	all    map[string]func() any
	// over a restart
	attached *attached
}

func newCases(url, run, keys string) *cases {
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL:              url,
		OperationTimeout: 10 * time.Second,
		Logger:           log.DefaultNopLogger(),
	})
	check(err)
	c := &cases{client: client, run: run, keys: keys}
	c.all = map[string]func() any{
		"dead_letter":      c.deadLetter,
		"retry_letter":     c.retryLetter,
		"encryption":       c.encryption,
		"reader":           c.reader,
		"table_view":       c.tableView,
		"several_schemas":  c.severalSchemas,
		"one_schema_only":  c.oneSchemaOnly,
		"avro_evolution":   func() any { return c.evolution("avro", avro1, avro2) },
		"json_evolution":   func() any { return c.evolution("json", json1, json2) },
		"protobuf_native":  c.protobufNative,
		"bytes":            c.bytes,
		"incompatible":     c.incompatible,
		"another_type":     c.anotherType,
		"enforced":         c.enforced,
		"fixed":            c.fixed,
		"primitives":       c.primitives,
		"partitioned":      c.partitioned,
		"several_topics":   c.severalTopics,
		"regex":            c.regex,
		"attach":           c.attach,
		"after_restart":    c.afterRestart,
		"write_for_others": c.writeForOthers,
		"read_java":        func() any { return c.readOthers("java") },
		"read_python":      func() any { return c.readOthers("python") },
	}
	return c
}

// --- letters, keys, readers ----------------------------------------------------------------------

func (c *cases) deadLetter() any {
	topic := c.topic("dead")
	dead := c.consumer(avro1, topic+"-DLQ", "after")
	defer dead.Close()
	consumer := must(c.client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", Type: pulsar.Shared, Schema: avro1,
		NackRedeliveryDelay: 50 * time.Millisecond,
		DLQ:                 &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: topic + "-DLQ"},
	}))
	defer consumer.Close()
	producer := c.producer(avro1, topic)
	defer producer.Close()
	send(producer, &pulsar.ProducerMessage{Key: "k", Value: User{Name: "ann", Age: 1}})
	for i := 0; i < 2; i++ {
		consumer.Nack(receive(consumer))
	}
	letter := receive(dead)
	return []any{told(letter), letter.Key()}
}

func (c *cases) retryLetter() any {
	topic := c.topic("retry")
	dead := c.consumer(json1, topic+"-DLQ", "after")
	defer dead.Close()
	consumer := must(c.client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", Type: pulsar.Shared, Schema: json1, RetryEnable: true,
		DLQ: &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: topic + "-DLQ", RetryLetterTopic: topic + "-RETRY"},
	}))
	defer consumer.Close()
	producer := c.producer(json1, topic)
	defer producer.Close()
	send(producer, &pulsar.ProducerMessage{Value: User{Name: "ann", Age: 1}})
	var seen []any
	for i := 0; i < 3; i++ {
		message := receive(consumer)
		seen = append(seen, string(message.Payload())+" "+version(message)+" "+message.Properties()["RECONSUMETIMES"])
		consumer.ReconsumeLater(message, 100*time.Millisecond)
	}
	return append(seen, string(receive(dead).Payload()))
}

func (c *cases) keyReader() crypto.KeyReader {
	return crypto.NewFileKeyReader(filepath.Join(c.keys, "public.pem"), filepath.Join(c.keys, "private.pem"))
}

func (c *cases) encrypting(schema pulsar.Schema, topic string) pulsar.Producer {
	return must(c.client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, Schema: schema,
		Encryption: &pulsar.ProducerEncryptionInfo{KeyReader: c.keyReader(), Keys: []string{"key"}},
	}))
}

func (c *cases) decrypting(schema pulsar.Schema, topic, name string) pulsar.Consumer {
	return must(c.client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: name, Schema: schema,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
		Decryption:                  &pulsar.MessageDecryptionInfo{KeyReader: c.keyReader()},
	}))
}

func (c *cases) encryption() any {
	topic := c.topic("encrypted")
	consumer := c.decrypting(avro2, topic, "s")
	defer consumer.Close()
	producer := c.encrypting(avro1, topic)
	defer producer.Close()
	send(producer, &pulsar.ProducerMessage{Value: User{Name: "ann", Age: 1}})
	send(producer, &pulsar.ProducerMessage{Value: User{Name: "bob", Age: 2, Mail: "b@x"}, Schema: avro2})
	return []any{told(receive(consumer)), told(receive(consumer))}
}

func (c *cases) reader() any {
	topic := c.topic("read")
	c.write(json1, topic, User{Name: "ann", Age: 1})
	c.write(json2, topic, User{Name: "bob", Age: 2, Mail: "b@x"})
	reader := must(c.client.CreateReader(pulsar.ReaderOptions{
		Topic: topic, StartMessageID: pulsar.EarliestMessageID(), Schema: json1,
	}))
	defer reader.Close()
	var seen []any
	for reader.HasNext() {
		context, cancel := bounded()
		seen = append(seen, told(must(reader.Next(context))))
		cancel()
	}
	_, err := c.client.CreateReader(pulsar.ReaderOptions{
		Topic: topic, StartMessageID: pulsar.EarliestMessageID(), Schema: json3,
	})
	return append(seen, refused(err))
}

func (c *cases) tableView() any {
	topic := c.topic("table")
	producer := c.producer(json1, topic)
	defer producer.Close()
	for i, key := range []string{"a", "b", "a"} {
		send(producer, &pulsar.ProducerMessage{Key: key, Value: User{Name: key, Age: i}})
	}
	send(producer, &pulsar.ProducerMessage{Key: "c", Value: User{Name: "c", Age: 3, Mail: "c@x"}, Schema: json2})
	view := must(c.client.CreateTableView(pulsar.TableViewOptions{
		Topic: topic, Schema: json2, SchemaValueType: reflect.TypeOf(User{}), Logger: log.DefaultNopLogger(),
	}))
	defer view.Close()
	rows := map[string]any{}
	check(view.ForEach(func(key string, value any) error {
		rows[key] = fmt.Sprint(value)
		return nil
	}))
	_, err := c.client.CreateTableView(pulsar.TableViewOptions{
		Topic: topic, Schema: json3, SchemaValueType: reflect.TypeOf(User{}), Logger: log.DefaultNopLogger(),
	})
	return []any{rows, refused(err)}
}

// --- several schemas -----------------------------------------------------------------------------

func (c *cases) severalSchemas() any {
	topic := c.topic("several")
	consumer := c.consumer(avro1, topic, "old")
	defer consumer.Close()
	producer := c.producer(avro1, topic)
	defer producer.Close()
	var seen []any
	var sent sync.WaitGroup
	for i, schema := range []pulsar.Schema{avro1, avro2, avro1, avro2} {
		sent.Add(1)
		message := &pulsar.ProducerMessage{Value: User{Name: "ann", Age: i, Mail: "a@x"}, Schema: schema}
		producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
			check(err)
			sent.Done()
		})
	}
	check(producer.Flush())
	sent.Wait()
	for i := 0; i < 4; i++ {
		seen = append(seen, told(receive(consumer)))
	}
	age := struct {
		Name string `avro:"name"`
		Age  string `avro:"age"`
	}{"fay", "6"}
	context, cancel := bounded()
	defer cancel()
	_, err := producer.Send(context, &pulsar.ProducerMessage{Value: age, Schema: avro3})
	seen = append(seen, refused(err))
	send(producer, &pulsar.ProducerMessage{Value: User{Name: "eve", Age: 5, Mail: "e@x"}, Schema: avro2})
	return append(seen, told(receive(consumer)))
}

func (c *cases) oneSchemaOnly() any {
	producer := must(c.client.CreateProducer(pulsar.ProducerOptions{
		Topic: c.topic("single"), Schema: avro1, DisableMultiSchema: true,
	}))
	defer producer.Close()
	send(producer, &pulsar.ProducerMessage{Value: User{Name: "ann", Age: 1}})
	context, cancel := bounded()
	defer cancel()
	_, err := producer.Send(context, &pulsar.ProducerMessage{Value: User{Name: "bob", Age: 2}, Schema: avro2})
	return refused(err)
}

func (c *cases) evolution(name string, one, two pulsar.Schema) any {
	topic := c.topic("evolution-" + name)
	old := c.consumer(one, topic, "old")
	defer old.Close()
	c.write(one, topic, User{Name: "ann", Age: 1})
	c.write(two, topic, User{Name: "bob", Age: 2, Mail: "b@x"})
	c.write(one, topic, User{Name: "cid", Age: 3})
	young := c.consumer(two, topic, "young")
	defer young.Close()
	var seen []any
	for i := 0; i < 3; i++ {
		seen = append(seen, told(receive(old)), told(receive(young)))
	}
	return seen
}

func (c *cases) protobufNative() any {
	topic := c.topic("native")
	schema := pulsar.NewProtoNativeSchemaWithMessage(&timestamppb.Timestamp{}, nil)
	consumer := c.consumer(schema, topic, "s")
	defer consumer.Close()
	c.write(schema, topic, &timestamppb.Timestamp{Seconds: 7, Nanos: 9})
	message := receive(consumer)
	var value timestamppb.Timestamp
	check(message.GetSchemaValue(&value))
	seen := []any{fmt.Sprint(value.Seconds, " ", value.Nanos), version(message)}
	other := pulsar.NewProtoNativeSchemaWithMessage(&durationpb.Duration{}, nil)
	return append(seen, c.producing(other, topic), c.consuming(other, topic))
}

func (c *cases) bytes() any {
	topic := c.topic("bytes")
	schema := pulsar.NewBytesSchema(nil)
	var seen []any
	seen = append(seen, c.producing(schema, topic), c.consuming(schema, topic))
	producer, err := c.client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: schema})
	if err != nil {
		return append(seen, refused(err))
	}
	defer producer.Close()
	context, cancel := bounded()
	defer cancel()
	_, err = producer.Send(context, &pulsar.ProducerMessage{Value: []byte("plain")})
	return append(seen, refused(err))
}

// --- what is refused -----------------------------------------------------------------------------

func (c *cases) incompatible() any {
	avro, json := c.topic("incompatible-avro"), c.topic("incompatible-json")
	return []any{
		c.producing(avro1, avro), c.producing(json1, json),
		c.producing(avro3, avro), c.consuming(avro3, avro),
		c.producing(json3, json), c.consuming(json3, json),
		c.producing(avro1, avro),
	}
}

func (c *cases) anotherType() any {
	typed, plain := c.topic("typed"), c.topic("untyped")
	seen := []any{
		c.producing(avro1, typed), c.producing(json1, typed), c.producing(text, typed),
		c.consuming(json1, typed), c.consuming(pulsar.NewInt64Schema(nil), typed),
		c.consuming(nil, typed), c.producing(nil, typed),
	}
	producer := c.producer(nil, plain)
	defer producer.Close()
	send(producer, &pulsar.ProducerMessage{Payload: []byte{1}})
	return append(seen, c.consuming(text, plain), c.producing(text, plain), c.consuming(text, plain))
}

func (c *cases) enforced() any {
	topic := "persistent://public/schemas-enforced/" + c.run + "go"
	return []any{
		c.producing(nil, topic), c.producing(avro1, topic), c.producing(nil, topic), c.consuming(nil, topic),
	}
}

func (c *cases) fixed() any {
	topic := "persistent://public/schemas-fixed/" + c.run + "go"
	return []any{c.producing(avro1, topic), c.consuming(avro2, topic)}
}

// --- types, topics -------------------------------------------------------------------------------

func (c *cases) primitives() any {
	seen := map[string]any{}
	for name, each := range map[string]struct {
		schema pulsar.Schema
		value  any
	}{
		"int8":   {pulsar.NewInt8Schema(nil), int8(-8)},
		"int16":  {pulsar.NewInt16Schema(nil), int16(-1600)},
		"int32":  {pulsar.NewInt32Schema(nil), int32(-320_000)},
		"int64":  {pulsar.NewInt64Schema(nil), int64(-64_000_000_000)},
		"float":  {pulsar.NewFloatSchema(nil), float32(1.5)},
		"double": {pulsar.NewDoubleSchema(nil), float64(-2.25)},
		"string": {text, "gr\u00fc\u00dfe"},
	} {
		topic := c.topic("primitive-" + name)
		c.write(each.schema, topic, each.value)
		consumer := c.consumer(each.schema, topic, "s")
		message := receive(consumer)
		consumer.Close()
		seen[name] = hex.EncodeToString(message.Payload()) + " " + version(message)
	}
	return seen
}

func (c *cases) partitioned() any {
	topic := c.topic("partitioned") // of three partitions, made by who runs this
	consumer := c.consumer(avro2, topic, "s")
	defer consumer.Close()
	producer := must(c.client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, Schema: avro1, DisableBatching: true,
		MessageRouter: func(message *pulsar.ProducerMessage, topic pulsar.TopicMetadata) int {
			return len(message.Properties) % int(topic.NumPartitions())
		},
	}))
	defer producer.Close()
	seen := map[string]int{}
	for i := 0; i < 6; i++ {
		properties := map[string]string{}
		for j := 0; j < i; j++ {
			properties[fmt.Sprint(j)] = ""
		}
		send(producer, &pulsar.ProducerMessage{Value: User{Name: "ann", Age: 1}, Properties: properties})
		user := User{Name: "bob", Age: 1, Mail: "b@x"}
		send(producer, &pulsar.ProducerMessage{Value: user, Schema: avro2, Properties: properties})
	}
	for i := 0; i < 12; i++ {
		seen[told(receive(consumer))]++
	}
	return []any{seen, c.producing(avro3, topic), c.consuming(avro3, topic)}
}

func (c *cases) severalTopics() any {
	one, two := c.topic("many-1"), c.topic("many-2")
	c.write(json2, one, User{Name: "ann", Age: 1, Mail: "a@x"})
	c.write(json1, two, User{Name: "bob", Age: 2})
	return c.both(pulsar.ConsumerOptions{Topics: []string{one, two}, Schema: json2})
}

func (c *cases) regex() any {
	one, two := c.topic("pattern-1"), c.topic("pattern-2")
	c.write(json1, one, User{Name: "ann", Age: 1})
	c.write(json2, two, User{Name: "bob", Age: 2, Mail: "b@x"})
	return c.both(pulsar.ConsumerOptions{TopicsPattern: c.topic("pattern-") + ".*", Schema: json1})
}

func (c *cases) both(options pulsar.ConsumerOptions) any {
	options.SubscriptionName = "s"
	options.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	consumer := must(c.client.Subscribe(options))
	defer consumer.Close()
	var seen []string
	for i := 0; i < 2; i++ {
		message := receive(consumer)
		seen = append(seen, message.Topic()[len(message.Topic())-1:]+" "+told(message))
	}
	sort.Strings(seen)
	return seen
}

// --- over a restart of the broker ------------------------------------------------------------------

type attached struct {
	consumer pulsar.Consumer
	producer pulsar.Producer
	stop     chan struct{}
	stopped  chan int
	errors   chan error
}

// attach starts a producer of two versions, which sends until after_restart.
func (c *cases) attach() any {
	topic := c.topic("attached")
	a := &attached{stop: make(chan struct{}), stopped: make(chan int), errors: make(chan error, 1)}
	a.consumer = c.consumer(avro1, topic, "s")
	a.producer = must(c.client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, Schema: avro1, SendTimeout: -1, MaxPendingMessages: 100_000,
	}))
	send(a.producer, &pulsar.ProducerMessage{Value: User{Name: "first", Age: -1, Mail: "f@x"}, Schema: avro2})
	c.attached = a
	go func() {
		var sent sync.WaitGroup
		count := 0
		for ; ; count++ {
			select {
			case <-a.stop:
				sent.Wait()
				a.stopped <- count
				return
			case <-time.After(5 * time.Millisecond):
			}
			schema := avro1
			if count%2 == 1 {
				schema = avro2
			}
			message := &pulsar.ProducerMessage{Value: User{Name: "ann", Age: count, Mail: "a@x"}, Schema: schema}
			sent.Add(1)
			a.producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				if err != nil {
					select {
					case a.errors <- err:
					default:
					}
				}
				sent.Done()
			})
		}
	}()
	return "sending"
}

func (c *cases) afterRestart() any {
	a := c.attached
	c.producer(text, c.topic("attached")+"-words").Close() // the broker answers again
	close(a.stop)
	count := <-a.stopped
	select {
	case err := <-a.errors:
		check(err)
	default:
	}
	send(a.producer, &pulsar.ProducerMessage{Value: User{Name: "last", Age: count, Mail: "l@x"}, Schema: avro2})
	versions := map[int]string{}
	for more := true; more; {
		message := receive(a.consumer)
		var user User
		check(message.GetSchemaValue(&user))
		versions[user.Age] = version(message)
		more = user.Name != "last"
	}
	right := true
	for i := 0; i < count; i++ {
		right = right && versions[i] == fmt.Sprintf("%016x", i%2)
	}
	a.producer.Close()
	a.consumer.Close()
	return []any{count > 10, len(versions) == count+2, right, c.producing(avro3, c.topic("attached"))}
}

// --- with other languages --------------------------------------------------------------------------

var native = pulsar.NewProtoNativeSchemaWithMessage(&timestamppb.Timestamp{}, nil)

func (c *cases) writeForOthers() any {
	user := User{Name: "go", Age: 1}
	for kind, one := range map[string]struct {
		schema pulsar.Schema
		value  any
	}{
		"avro": {avro1, user}, "json": {json1, user}, "string": {text, "go"}, "int64": {pulsar.NewInt64Schema(nil), int64(1)},
		"native": {native, &timestamppb.Timestamp{Seconds: 1}},
	} {
		producer := c.producer(one.schema, c.shared("go-"+kind))
		send(producer, &pulsar.ProducerMessage{Key: "k", Value: one.value})
		producer.Close()
	}
	producer := c.encrypting(json1, c.shared("go-encrypted"))
	defer producer.Close()
	send(producer, &pulsar.ProducerMessage{Key: "k", Value: user})
	return "written"
}

func (c *cases) readOthers(language string) any {
	schemas := map[string]pulsar.Schema{
		"avro": avro2, "json": json2, "string": text, "native": native, "encrypted": json1,
	}
	if language == "java" {
		schemas["int64"] = pulsar.NewInt64Schema(nil)
	}
	seen := map[string]any{}
	for kind, schema := range schemas {
		consumer := c.decrypting(schema, c.shared(language+"-"+kind), "go")
		message := receive(consumer)
		if kind == "avro" || kind == "json" || kind == "encrypted" {
			seen[kind] = told(message)
		} else {
			seen[kind] = hex.EncodeToString(message.Payload()) + " " + version(message)
		}
		consumer.Close()
	}
	return seen
}

// --- what cases are made of ------------------------------------------------------------------------

func (c *cases) topic(name string) string {
	return "persistent://public/schemas/" + c.run + "go-" + name
}

// shared is a topic that programs in other languages use, too.
func (c *cases) shared(name string) string {
	return "persistent://public/schemas/" + c.run + "shared-" + name
}

func (c *cases) producer(schema pulsar.Schema, topic string) pulsar.Producer {
	return must(c.client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: schema}))
}

func (c *cases) consumer(schema pulsar.Schema, topic, name string) pulsar.Consumer {
	return must(c.client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: name, Schema: schema,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	}))
}

// producing is how an attempt to produce ends.
func (c *cases) producing(schema pulsar.Schema, topic string) string {
	producer, err := c.client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Schema: schema})
	if err == nil {
		producer.Close()
	}
	return refused(err)
}

// consuming is how an attempt to consume ends.
func (c *cases) consuming(schema pulsar.Schema, topic string) string {
	options := pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "tried", Schema: schema}
	consumer, err := c.client.Subscribe(options)
	if err == nil {
		consumer.Close()
	}
	return refused(err)
}

func (c *cases) write(schema pulsar.Schema, topic string, value any) {
	producer := c.producer(schema, topic)
	defer producer.Close()
	send(producer, &pulsar.ProducerMessage{Value: value})
}

func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 20*time.Second)
}

func send(producer pulsar.Producer, message *pulsar.ProducerMessage) {
	context, cancel := bounded()
	defer cancel()
	must(producer.Send(context, message))
}

func receive(consumer pulsar.Consumer) pulsar.Message {
	context, cancel := bounded()
	defer cancel()
	message := must(consumer.Receive(context))
	return message
}

// told is a user as the message's own schema reads it, and the version of that.
func told(message pulsar.Message) string {
	var user User
	if message.GetSchemaValue(&user) != nil {
		return "no user " + version(message)
	}
	return strings.TrimSpace(fmt.Sprint(user.Name, " ", user.Age, " ", user.Mail)) + " " + version(message)
}

func version(message pulsar.Message) string {
	return hex.EncodeToString(message.SchemaVersion())
}

var fromServer = regexp.MustCompile(`server error: (\w+):`)

// refused is the kind of an error: the server's code where it has one.
func refused(err error) string {
	if err == nil {
		return "taken"
	}
	if found := fromServer.FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	var own *pulsar.Error
	if errors.As(err, &own) {
		return strings.SplitN(own.Error(), ":", 2)[0]
	}
	return err.Error()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](made T, err error) T {
	check(err)
	return made
}

func (c *cases) answer(name string) (answer map[string]any) {
	defer func() {
		if cause := recover(); cause != nil {
			answer = map[string]any{"error": fmt.Sprint(cause)}
		}
	}()
	return map[string]any{"seen": c.all[name]()}
}

func main() {
	c := newCases(os.Args[1], os.Args[2], os.Args[3])
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println("#" + string(must(json.Marshal(c.answer(lines.Text())))))
	}
}
