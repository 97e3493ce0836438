// Programs that send one message and receive it, for the addresses of this instance. Whole programs, ready to run.

export interface Instance {
  brokerUrl: string;
  httpUrl: string;
  /** tenant/namespace/topic */
  topic: string;
  /** Whether clients must present a token: the programs then read it from PULSAR_TOKEN. */
  authentication: boolean;
}

export interface Language {
  key: string;
  label: string;
  /** The commands that install the program's dependencies; empty without any. */
  install: string;
  /** The file name of the program, or the command that runs it. */
  run: string;
  program: (instance: Instance) => string;
}

/** A program of its lines, which no language of the console translates. */
const lines = (...all: (string | false)[]) => all.filter((line) => line !== false).join("\n");

const python: Language["program"] = ({ brokerUrl, topic, authentication }) =>
  lines(
    authentication && "import os",
    authentication && "",
    "import pulsar",
    "",
    authentication
      ? `client = pulsar.Client("${brokerUrl}", pulsar.AuthenticationToken(os.environ["PULSAR_TOKEN"]))`
      : `client = pulsar.Client("${brokerUrl}")`,
    `consumer = client.subscribe("${topic}", "first")`,
    `producer = client.create_producer("${topic}")`,
    'producer.send("Hello".encode())',
    "message = consumer.receive()",
    "print(message.data().decode())",
    "consumer.acknowledge(message)",
    "client.close()",
  );

const java: Language["program"] = ({ brokerUrl, topic, authentication }) =>
  lines(
    "import org.apache.pulsar.client.api.*;",
    "",
    "public class Hello {",
    "  public static void main(String[] args) throws Exception {",
    "    try (PulsarClient client = PulsarClient.builder()",
    `            .serviceUrl("${brokerUrl}")`,
    authentication &&
      '            .authentication(AuthenticationFactory.token(System.getenv("PULSAR_TOKEN")))',
    "            .build();",
    "        Consumer<String> consumer = client.newConsumer(Schema.STRING)",
    `            .topic("${topic}").subscriptionName("first").subscribe();`,
    "        Producer<String> producer = client.newProducer(Schema.STRING)",
    `            .topic("${topic}").create()) {`,
    '      producer.send("Hello");',
    "      Message<String> message = consumer.receive();",
    "      System.out.println(message.getValue());",
    "      consumer.acknowledge(message);",
    "    }",
    "  }",
    "}",
  );

const go: Language["program"] = ({ brokerUrl, topic, authentication }) =>
  lines(
    "package main",
    "",
    "import (",
    '\t"context"',
    '\t"fmt"',
    '\t"log"',
    authentication && '\t"os"',
    "",
    '\t"github.com/apache/pulsar-client-go/pulsar"',
    ")",
    "",
    "func must[T any](made T, err error) T {",
    "\tif err != nil {",
    "\t\tlog.Fatal(err)",
    "\t}",
    "\treturn made",
    "}",
    "",
    "func main() {",
    "\tclient := must(pulsar.NewClient(pulsar.ClientOptions{",
    `\t\tURL: "${brokerUrl}",`,
    authentication && '\t\tAuthentication: pulsar.NewAuthenticationToken(os.Getenv("PULSAR_TOKEN")),',
    "\t}))",
    "\tdefer client.Close()",
    `\tconsumer := must(client.Subscribe(pulsar.ConsumerOptions{Topic: "${topic}", SubscriptionName: "first"}))`,
    `\tproducer := must(client.CreateProducer(pulsar.ProducerOptions{Topic: "${topic}"}))`,
    '\tmust(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("Hello")}))',
    "\tmessage := must(consumer.Receive(context.Background()))",
    "\tfmt.Println(string(message.Payload()))",
    "\tconsumer.Ack(message)",
    "}",
  );

const node: Language["program"] = ({ brokerUrl, topic, authentication }) =>
  lines(
    'const Pulsar = require("pulsar-client");',
    "",
    "(async () => {",
    "  const client = new Pulsar.Client({",
    `    serviceUrl: "${brokerUrl}",`,
    authentication &&
      "    authentication: new Pulsar.AuthenticationToken({ token: process.env.PULSAR_TOKEN }),",
    "  });",
    `  const consumer = await client.subscribe({ topic: "${topic}", subscription: "first" });`,
    `  const producer = await client.createProducer({ topic: "${topic}" });`,
    '  await producer.send({ data: Buffer.from("Hello") });',
    "  const message = await consumer.receive();",
    "  console.log(message.getData().toString());",
    "  await consumer.acknowledge(message);",
    "  await client.close();",
    "})();",
  );

const cpp: Language["program"] = ({ brokerUrl, topic, authentication }) =>
  lines(
    "#include <pulsar/Client.h>",
    "",
    authentication && "#include <cstdlib>",
    "#include <iostream>",
    "",
    "int main() {",
    "  pulsar::ClientConfiguration configuration;",
    authentication &&
      '  configuration.setAuth(pulsar::AuthToken::createWithToken(std::getenv("PULSAR_TOKEN")));',
    `  pulsar::Client client("${brokerUrl}", configuration);`,
    "  pulsar::Consumer consumer;",
    `  if (client.subscribe("${topic}", "first", consumer) != pulsar::ResultOk) return 1;`,
    "  pulsar::Producer producer;",
    `  if (client.createProducer("${topic}", producer) != pulsar::ResultOk) return 1;`,
    '  producer.send(pulsar::MessageBuilder().setContent("Hello").build());',
    "  pulsar::Message message;",
    "  if (consumer.receive(message) != pulsar::ResultOk) return 1;",
    "  std::cout << message.getDataAsString() << std::endl;",
    "  consumer.acknowledge(message);",
    "  client.close();",
    "}",
  );

const webSocket: Language["program"] = ({ httpUrl, topic, authentication }) => {
  const base = `${httpUrl.replace(/^http/, "ws")}/ws/v2`;
  const token = authentication ? "?token=" : "";
  return lines(
    authentication && 'const token = "…"; // of a role that may use the topic',
    `const consumer = new WebSocket("${base}/consumer/persistent/${topic}/first${token}"${authentication ? " + token" : ""});`,
    "consumer.onmessage = ({ data }) => {",
    "  const { messageId, payload } = JSON.parse(data);",
    "  console.log(atob(payload));",
    "  consumer.send(JSON.stringify({ messageId })); // acknowledges it",
    "};",
    "consumer.onopen = () => {",
    `  const producer = new WebSocket("${base}/producer/persistent/${topic}${token}"${authentication ? " + token" : ""});`,
    '  producer.onopen = () => producer.send(JSON.stringify({ payload: btoa("Hello") }));',
    "};",
  );
};

const curl: Language["program"] = ({ httpUrl, topic, authentication }) => {
  const by = authentication ? '-H "Authorization: Bearer $PULSAR_TOKEN" ' : "";
  const at = `${httpUrl}/admin/v2/persistent/${topic}`;
  return lines(
    "# creates the topic and a subscription; any client above then sends to it",
    `curl ${by}-X PUT ${at}`,
    `curl ${by}-X PUT ${at}/subscription/first`,
    "# what it holds, and the connected clients",
    `curl ${by}${at}/stats`,
  );
};

export const LANGUAGES: readonly Language[] = [
  {
    key: "python",
    label: "Python",
    install: "pip install pulsar-client",
    run: "python hello.py",
    program: python,
  },
  {
    key: "java",
    label: "Java",
    install: "Maven: org.apache.pulsar : pulsar-client : 4.0.8",
    run: "Hello.java",
    program: java,
  },
  {
    key: "go",
    label: "Go",
    install: "go mod init hello && go get github.com/apache/pulsar-client-go/pulsar",
    run: "go run .",
    program: go,
  },
  {
    key: "node",
    label: "Node.js",
    install: "npm install pulsar-client",
    run: "node hello.cjs",
    program: node,
  },
  {
    key: "cpp",
    label: "C++",
    install: "The packages of the Apache Pulsar C++ client, or vcpkg install pulsar-client-cpp",
    run: "g++ -std=c++17 hello.cc -o hello -lpulsar && ./hello",
    program: cpp,
  },
  {
    key: "websocket",
    label: "WebSocket",
    install: "",
    run: "node hello.mjs, from Node.js 22 on, or a browser's console",
    program: webSocket,
  },
  { key: "curl", label: "curl", install: "", run: "sh hello.sh", program: curl },
];

/** The error of a topic name that was typed in; null for one that any client accepts. */
export function problemOfTopic(text: string): string | null {
  const parts = text.split("/");
  if (parts.length !== 3) return "Give tenant/namespace/topic";
  return parts.every((part) => /^[\w.=-]+$/.test(part))
    ? null
    : "Use letters, digits and - _ . = here; other names work too, but need care in a program";
}
