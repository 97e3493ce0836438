// Logins of Apache's own Go client by each kind of credentials: each publishes a message and receives it.
// A line "login NAME OUTCOME" for each, where the outcome is "ok", "received OTHER TEXT" or "refused".
// Arguments: service URL, TLS service URL, file of the authority, file of another authority, good token, bad token,
// user, password, certificate, key, URL of the issuer, file of a client's credentials there, audience.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

const (
	topic    = "persistent://public/default/go-login-"
	patience = 8 * time.Second
)

type login struct {
	name           string
	authentication func() (pulsar.Authentication, error)
}

func given(authentication pulsar.Authentication) func() (pulsar.Authentication, error) {
	return func() (pulsar.Authentication, error) { return authentication, nil }
}

func password(user, password string) func() (pulsar.Authentication, error) {
	return func() (pulsar.Authentication, error) { return pulsar.NewAuthenticationBasic(user, password) }
}

func exchange(name string, options pulsar.ClientOptions) (string, error) {
	client, err := pulsar.NewClient(options)
	if err != nil {
		return "", err
	}
	defer client.Close()
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{Topic: topic + name, SubscriptionName: name})
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: topic + name})
	if err != nil {
		return "", err
	}
	defer producer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err = producer.Send(ctx, &pulsar.ProducerMessage{Payload: []byte(name)}); err != nil {
		return "", err
	}
	message, err := consumer.Receive(ctx)
	if err != nil {
		return "", err
	}
	if text := string(message.Payload()); text != name {
		return "received " + text, nil
	}
	return "ok", consumer.Ack(message)
}

func main() {
	a := os.Args[1:]
	silent := logrus.New()
	silent.SetOutput(io.Discard)
	logins := []login{
		{"token", given(pulsar.NewAuthenticationToken(a[4]))},
		{"supplied-token", given(pulsar.NewAuthenticationTokenFromSupplier(func() (string, error) { return a[4], nil }))},
		{"bad-token", given(pulsar.NewAuthenticationToken(a[5]))},
		{"password", password(a[6], a[7])},
		{"wrong-password", password(a[6], a[7]+"x")},
		{"oauth2", given(pulsar.NewAuthenticationOAuth2(map[string]string{
			"type": "client_credentials", "issuerUrl": a[10], "clientId": "by-issuer", "privateKey": a[11],
			"audience": a[12]}))},
		{"none", given(nil)},
	}
	var wait sync.WaitGroup
	start := func(name string, login login, url, authority string) {
		wait.Add(1) // at once: a client that is refused tries again until its time is over
		go func() {
			defer wait.Done()
			try(name, login, url, authority, silent)
		}()
	}
	certificate := login{"certificate", given(pulsar.NewAuthenticationTLS(a[8], a[9]))}
	for index, port := range []string{"clear", "tls"} {
		tried := logins
		if port == "tls" {
			tried = append(tried, certificate)
		}
		for _, login := range tried {
			start(port+"-"+login.name, login, a[index], a[2])
		}
	}
	start("untrusted-token", logins[0], a[1], a[3])
	start("untrusted-certificate", certificate, a[1], a[3])
	wait.Wait()
}

func try(name string, login login, url, authority string, silent *logrus.Logger) {
	authentication, err := login.authentication()
	outcome := "refused"
	if err == nil {
		options := pulsar.ClientOptions{URL: url, Authentication: authentication, TLSTrustCertsFilePath: authority,
			TLSValidateHostname: true, OperationTimeout: patience, ConnectionTimeout: patience,
			Logger: log.NewLoggerWithLogrus(silent)}
		var result string
		if result, err = exchange(name, options); err == nil {
			outcome = result
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, name, err)
	}
	fmt.Println("login", name, outcome)
}
