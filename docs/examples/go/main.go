package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	topic := "persistent://public/default/orders-go"
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: "pulsar://127.0.0.1:6650"})
	check(err)
	defer client.Close()

	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic:            topic,
		SubscriptionName: "billing",
		Type:             pulsar.Shared,
	})
	check(err)
	defer consumer.Close()
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic})
	check(err)
	defer producer.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for number := 1; number <= 3; number++ {
		_, err := producer.Send(ctx, &pulsar.ProducerMessage{
			Payload:    []byte(fmt.Sprintf("order %d", number)),
			Key:        "customer-7",
			Properties: map[string]string{"shop": "web"},
		})
		check(err)
	}
	for count := 0; count < 3; count++ {
		message, err := consumer.Receive(ctx)
		check(err)
		fmt.Println(string(message.Payload()), message.Key(), message.Properties()["shop"])
		check(consumer.Ack(message))
	}
}
