// Topics as Apache's own Go client sees them: one line for each case, by name, the same from either broker.
// Arguments: service URL, HTTP URL.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

const patience = 30 * time.Second

type stage struct {
	client pulsar.Client
	topic  string
	web    string
	said   []string
}

func (s *stage) say(parts ...any) { s.said = append(s.said, strings.TrimSpace(fmt.Sprintln(parts...))) }

func (s *stage) rest(method, path, body string) {
	url := s.web + "/admin/v2/" + strings.Replace(s.topic, "://", "/", 1) + path
	request, _ := http.NewRequest(method, url, bytes.NewBufferString(body))
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	must(err)
	answer.Body.Close()
	s.say(answer.StatusCode)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// result is the kind of error that the client gives.
func result(err error) string {
	var known *pulsar.Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &known):
		text := known.Error()
		return text[strings.LastIndex(text, " ")+1:]
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	}
	for _, word := range []string{"TopicNotFound", "TopicTerminated", "ProducerBusy", "ConsumerBusy", "ProducerFenced",
		"IncompatibleSchema", "NotAllowed", "MetadataError", "SubscriptionNotFound"} {
		if strings.Contains(err.Error(), word) {
			return word
		}
	}
	return err.Error()
}

func (s *stage) producer(options pulsar.ProducerOptions) pulsar.Producer {
	options.Topic = s.topic
	made, err := s.client.CreateProducer(options)
	must(err)
	return made
}

func (s *stage) subscribe(options pulsar.ConsumerOptions) pulsar.Consumer {
	options.Topic = s.topic
	if options.SubscriptionName == "" {
		options.SubscriptionName = "s"
	}
	options.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	made, err := s.client.Subscribe(options)
	must(err)
	return made
}

func (s *stage) send(producer pulsar.Producer, texts ...string) []pulsar.MessageID {
	ids := make([]pulsar.MessageID, len(texts))
	var wait sync.WaitGroup
	for i, text := range texts {
		wait.Add(1)
		producer.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: []byte(text)},
			func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				must(err)
				ids[i] = id
				wait.Done()
			})
	}
	must(producer.Flush())
	wait.Wait()
	return ids
}

func next(consumer pulsar.Consumer) pulsar.Message {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	message, err := consumer.Receive(ctx)
	must(err)
	return message
}

func texts(consumer pulsar.Consumer, count int) []string {
	var found []string
	for range count {
		message := next(consumer)
		must(consumer.Ack(message))
		found = append(found, string(message.Payload()))
	}
	return found
}

func produceBatches(s *stage) {
	consumer := s.subscribe(pulsar.ConsumerOptions{EnableBatchIndexAcknowledgment: true, AckWithResponse: true})
	producer := s.producer(pulsar.ProducerOptions{BatchingMaxPublishDelay: time.Hour, BatchingMaxMessages: 4})
	for _, id := range s.send(producer, "a", "b", "c", "d", "e") {
		s.say(id.EntryID(), id.BatchIdx(), id.BatchSize())
	}
	s.say(texts(consumer, 5), producer.LastSequenceID())
	must(consumer.Unsubscribe())
}

func chunks(s *stage) {
	consumer := s.subscribe(pulsar.ConsumerOptions{})
	producer := s.producer(pulsar.ProducerOptions{EnableChunking: true, DisableBatching: true, ChunkMaxMessageSize: 1000})
	s.send(producer, strings.Repeat("x", 4500), "small")
	for range 2 {
		message := next(consumer)
		s.say(len(message.Payload()))
		must(consumer.Ack(message))
	}
}

func keyShared(s *stage) {
	first := s.subscribe(pulsar.ConsumerOptions{Type: pulsar.KeyShared, Name: "one"})
	second := s.subscribe(pulsar.ConsumerOptions{Type: pulsar.KeyShared, Name: "two"})
	producer := s.producer(pulsar.ProducerOptions{BatcherBuilderType: pulsar.KeyBasedBatchBuilder})
	for i := range 60 {
		producer.SendAsync(context.Background(), &pulsar.ProducerMessage{
			Key: fmt.Sprintf("k%d", i%10), Payload: []byte(fmt.Sprintf("%02d", i))},
			func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { must(err) })
	}
	must(producer.Flush())
	owners, ordered, last := map[string]map[string]bool{}, true, map[string]string{}
	for range 60 {
		var message pulsar.ConsumerMessage
		select {
		case message = <-first.Chan():
		case message = <-second.Chan():
		case <-time.After(patience):
			panic("no message")
		}
		key, text := message.Key(), string(message.Payload())
		if owners[key] == nil {
			owners[key] = map[string]bool{}
		}
		owners[key][message.Consumer.Name()] = true
		ordered = ordered && last[key] < text
		last[key] = text
		must(message.Consumer.Ack(message))
	}
	shares := map[string]int{}
	for _, names := range owners {
		s.say(len(names))
		for name := range names {
			shares[name]++
		}
	}
	s.say(ordered, shares)
}

func reading(s *stage) {
	producer := s.producer(pulsar.ProducerOptions{DisableBatching: true})
	ids := s.send(producer, "a", "b", "c", "d")
	for _, inclusive := range []bool{false, true} {
		reader, err := s.client.CreateReader(pulsar.ReaderOptions{
			Topic: s.topic, StartMessageID: ids[1], StartMessageIDInclusive: inclusive})
		must(err)
		var found []string
		for reader.HasNext() {
			message, err := reader.Next(context.Background())
			must(err)
			found = append(found, string(message.Payload()))
		}
		s.say(found)
		must(reader.SeekByTime(time.Now().Add(-time.Hour)))
		message, err := reader.Next(context.Background())
		must(err)
		s.say(string(message.Payload()))
		reader.Close()
	}
}

func seeking(s *stage) {
	producer := s.producer(pulsar.ProducerOptions{DisableBatching: true})
	ids := s.send(producer, "a", "b", "c", "d")
	consumer := s.subscribe(pulsar.ConsumerOptions{})
	s.say(texts(consumer, 4))
	must(consumer.Seek(ids[2]))
	s.say(texts(consumer, 1))
}

func deadLetters(s *stage) {
	dead := s.topic + "-dead"
	letters, err := s.client.Subscribe(pulsar.ConsumerOptions{Topic: dead, SubscriptionName: "d"})
	must(err)
	consumer := s.subscribe(pulsar.ConsumerOptions{
		Type: pulsar.Shared, NackRedeliveryDelay: 200 * time.Millisecond,
		DLQ: &pulsar.DLQPolicy{MaxDeliveries: 3, DeadLetterTopic: dead}})
	s.send(s.producer(pulsar.ProducerOptions{}), "poison")
	for range 3 {
		message := next(consumer)
		s.say(string(message.Payload()), message.RedeliveryCount())
		consumer.Nack(message)
	}
	letter := next(letters)
	s.say(string(letter.Payload()), letter.Properties()["REAL_TOPIC"] == s.topic)
}

func growing(s *stage) {
	s.rest("PUT", "/partitions", "2")
	consumer := s.subscribe(pulsar.ConsumerOptions{AutoDiscoveryPeriod: 500 * time.Millisecond, Type: pulsar.Shared})
	producer := s.producer(pulsar.ProducerOptions{PartitionsAutoDiscoveryInterval: 500 * time.Millisecond,
		DisableBatching: true})
	s.rest("POST", "/partitions", "4")
	seen := map[int32]bool{}
	for until := time.Now().Add(patience); len(seen) < 4 && time.Now().Before(until); {
		s.send(producer, "m")
		message := next(consumer)
		seen[message.ID().PartitionIdx()] = true
		must(consumer.Ack(message))
	}
	s.say(len(seen))
}

func tableView(s *stage) {
	producer := s.producer(pulsar.ProducerOptions{DisableBatching: true, Schema: pulsar.NewStringSchema(nil)})
	put := func(key, value string) {
		_, err := producer.Send(context.Background(), &pulsar.ProducerMessage{Key: key, Value: value})
		must(err)
	}
	for i := range 12 {
		put(fmt.Sprintf("k%d", i%4), fmt.Sprintf("v%d", i))
	}
	var kind *string
	view, err := s.client.CreateTableView(pulsar.TableViewOptions{
		Topic: s.topic, Schema: pulsar.NewStringSchema(nil), SchemaValueType: reflect.TypeOf(kind)})
	must(err)
	defer view.Close()
	shown := func() string {
		var found []string
		for key, value := range view.Entries() {
			found = append(found, key+"="+*value.(*string))
		}
		sort.Strings(found)
		return strings.Join(found, ",")
	}
	s.say(shown())
	put("k1", "new")
	put("end", "x")
	for until := time.Now().Add(patience); !view.ContainsKey("end") && time.Now().Before(until); {
		time.Sleep(20 * time.Millisecond)
	}
	s.say(shown())
}

func refused(s *stage) {
	_, err := s.client.CreateProducer(pulsar.ProducerOptions{Topic: "persistent://public/none/t"})
	s.say(result(err))
	s.producer(pulsar.ProducerOptions{Name: "p"})
	_, err = s.client.CreateProducer(pulsar.ProducerOptions{Topic: s.topic, Name: "p"})
	s.say(result(err))
	s.subscribe(pulsar.ConsumerOptions{})
	_, err = s.client.Subscribe(pulsar.ConsumerOptions{Topic: s.topic, SubscriptionName: "s"})
	s.say(result(err))
	_, err = s.client.CreateProducer(pulsar.ProducerOptions{Topic: s.topic, ProducerAccessMode: pulsar.ProducerAccessModeExclusive})
	s.say(result(err))
	s.rest("POST", "/terminate", "")
	_, err = s.client.CreateProducer(pulsar.ProducerOptions{Topic: s.topic})
	s.say(result(err))
	_, err = s.client.Subscribe(pulsar.ConsumerOptions{Topic: "persistent://none/default/t", SubscriptionName: "s"})
	s.say(result(err))
}

var cases = map[string]func(*stage){
	"batches": produceBatches, "chunks": chunks, "dead-letters": deadLetters, "growing": growing, "key-shared": keyShared,
	"reading": reading, "refused": refused, "seeking": seeking, "table-view": tableView,
}

func run(name string, url, web string) (told string) {
	quiet := logrus.New()
	quiet.SetLevel(logrus.FatalLevel)
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL: url, OperationTimeout: 10 * time.Second, Logger: log.NewLoggerWithLogrus(quiet)})
	must(err)
	s := &stage{client: client, topic: "persistent://public/default/go-" + name, web: web}
	defer func() {
		if failed := recover(); failed != nil {
			s.say("FAILED", failed)
		}
		told = name + ": " + strings.Join(s.said, "; ")
	}()
	cases[name](s)
	return
}

func main() {
	lines := make(chan string)
	for name := range cases {
		go func() { lines <- run(name, os.Args[1], os.Args[2]) }()
	}
	for range cases {
		select {
		case line := <-lines:
			fmt.Println(line)
		case <-time.After(2 * time.Minute):
			fmt.Println("HANGS")
			return
		}
	}
}
