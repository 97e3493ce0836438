// Transactions as Apache's own Go client makes them: one line for each step, the same from either broker.
// Arguments: service URL, start of topic names, steps. In a step "restart-…" the brokers are disturbed before a line is
// written to its input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

const life = 20 * time.Second
const patience = 120 * time.Second

func must(err error) {
	if err != nil {
		panic(err)
	}
}

type stage struct {
	client   pulsar.Client
	topic    string
	producer pulsar.Producer
	consumer pulsar.Consumer
}

func open(client pulsar.Client, topic string) *stage {
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic:                       topic,
		SubscriptionName:            "s",
		Type:                        pulsar.Shared,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	})
	must(err)
	producer, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic:           topic,
		SendTimeout:     -1,
		DisableBatching: true,
	})
	must(err)
	return &stage{client, topic, producer, consumer}
}

func (s *stage) close() {
	s.producer.Close()
	s.consumer.Close()
}

func (s *stage) begin(timeout time.Duration) pulsar.Transaction {
	txn, err := s.client.NewTransaction(timeout)
	must(err)
	return txn
}

func (s *stage) send(value string, txn pulsar.Transaction) error {
	message := &pulsar.ProducerMessage{Payload: []byte(value), Transaction: txn}
	_, err := s.producer.Send(context.Background(), message)
	return err
}

// all receives until nothing comes for a while.
func (s *stage) all(quiet time.Duration) ([]pulsar.Message, []string) {
	var messages []pulsar.Message
	values := []string{}
	for {
		wait, cancel := context.WithTimeout(context.Background(), quiet)
		message, err := s.consumer.Receive(wait)
		cancel()
		if err != nil {
			return messages, values
		}
		messages = append(messages, message)
		values = append(values, string(message.Payload()))
	}
}

func commit(s *stage) {
	txn := s.begin(life)
	must(s.send("one", txn))
	must(s.send("plain", nil))
	_, open := s.all(2 * time.Second)
	fmt.Println("commit open", open)
	must(txn.Commit(context.Background()))
	_, done := s.all(2 * time.Second)
	fmt.Println("commit done", done, txn.GetState() == pulsar.TxnCommitted)
}

func abort(s *stage) {
	txn := s.begin(life)
	must(s.send("never", txn))
	must(s.send("plain", nil))
	must(txn.Abort(context.Background()))
	_, done := s.all(2 * time.Second)
	fmt.Println("abort", done, txn.GetState() == pulsar.TxnAborted)
}

func acks(s *stage) {
	for i := 0; i < 3; i++ {
		must(s.send(fmt.Sprint("m", i), nil))
	}
	messages, _ := s.all(2 * time.Second)
	txn := s.begin(life)
	for _, message := range messages {
		must(s.consumer.AckWithTxn(message, txn))
	}
	must(txn.Abort(context.Background()))
	messages, again := s.all(3 * time.Second)
	fmt.Println("acks aborted", again)
	txn = s.begin(life)
	for _, message := range messages {
		must(s.consumer.AckWithTxn(message, txn))
	}
	must(txn.Commit(context.Background()))
	s.consumer.Close()
	consumer, err := s.client.Subscribe(pulsar.ConsumerOptions{
		Topic: s.topic, SubscriptionName: "s", Type: pulsar.Shared,
	})
	must(err)
	s.consumer = consumer
	_, left := s.all(2 * time.Second)
	fmt.Println("acks committed", left)
}

func timeout(s *stage) {
	txn := s.begin(3 * time.Second)
	must(s.send("never", txn))
	must(s.send("plain", nil))
	_, got := s.all(8 * time.Second)
	fmt.Println("timeout", got, txn.Commit(context.Background()) != nil)
}

// restart commits what was sent and acknowledged before the brokers were disturbed, together with what came later.
func restart(s *stage) {
	must(s.send("taken", nil))
	messages, _ := s.all(2 * time.Second)
	txn := s.begin(2 * patience)
	must(s.send("one", txn))
	for _, message := range messages {
		must(s.consumer.AckWithTxn(message, txn))
	}
	fmt.Println("restart sent", len(messages))
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	must(err)
	must(s.send("two", txn))
	for until := time.Now().Add(patience); ; time.Sleep(time.Second) {
		err := txn.Commit(context.Background())
		if err == nil {
			break
		}
		fmt.Fprintln(os.Stderr, "not committed yet:", err, txn.GetState())
		if time.Now().After(until) {
			panic(err)
		}
	}
	_, done := s.all(5 * time.Second)
	fmt.Println("restart done", done, txn.GetState() == pulsar.TxnCommitted)
}

func main() {
	quiet := logrus.New()
	quiet.SetLevel(logrus.ErrorLevel)
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL:               os.Args[1],
		EnableTransaction: true,
		Logger:            log.NewLoggerWithLogrus(quiet),
	})
	must(err)
	steps := map[string]func(*stage){"commit": commit, "abort": abort, "acks": acks, "timeout": timeout}
	for _, name := range os.Args[3:] {
		s := open(client, os.Args[2]+"-"+name)
		if step, known := steps[name]; known {
			step(s)
		} else if strings.HasPrefix(name, "restart-") {
			restart(s)
		} else {
			panic("no such step: " + name)
		}
		s.close()
	}
	client.Close()
}
