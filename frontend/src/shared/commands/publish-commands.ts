// A message as command lines that publish it: of pulsar-client and of programs, which pulsarctl and pulsar-admin are not.

import { type Commands, curl, line, path, quoted } from "./shell";

export interface PublishedMessage {
  /** A text, null for none. */
  value?: unknown;
  value_base64?: string;
  key?: string | null;
  properties?: Record<string, string>;
  event_time?: number;
  deliver_at?: number;
  deliver_after_ms?: number;
}

interface Target {
  domain: string;
  tenant: string;
  namespace: string;
  topic: string;
}

const BYTES = JSON.stringify({ name: "", type: "BYTES", schema: "", properties: {} });

/** `schema`: the version that encodes it, null for none. `brokerUrl`: where clients connect. */
export function publishCommands(
  at: Target,
  { message, schema, brokerUrl }: { message: PublishedMessage; schema: number | null; brokerUrl: string },
): Commands {
  const name = `${at.domain}://${at.tenant}/${at.namespace}/${at.topic}`;
  const isText = typeof message.value === "string";
  return {
    curl: isText ? overRest(at, message, schema) : { why: "Pulsar's REST interface publishes texts only." },
    pulsarctl: { why: "pulsarctl publishes no messages." },
    pulsarAdmin: { why: "pulsar-admin publishes no messages." },
    client: client(name, message, schema, brokerUrl),
    python: python(name, message, schema, brokerUrl),
  };
}

function overRest(at: Target, message: PublishedMessage, schema: number | null) {
  const body = {
    ...(schema === null ? { valueSchema: BYTES } : { schemaVersion: schema }),
    messages: [
      {
        payload: message.value,
        ...(message.key ? { key: message.key } : {}),
        ...(message.properties ? { properties: message.properties } : {}),
        ...(message.event_time ? { eventTime: message.event_time } : {}),
        ...(message.deliver_at ? { deliverAt: message.deliver_at } : {}),
        ...(message.deliver_after_ms ? { deliverAfterMs: message.deliver_after_ms } : {}),
      },
    ],
  };
  return curl("POST", `/topics/${path(at.domain, at.tenant, ...at.namespace.split("/"), at.topic)}`, body);
}

/** The tool splits values at a separator, here an expression that matches nothing, and properties at commas. */
function client(name: string, message: PublishedMessage, schema: number | null, brokerUrl: string) {
  const properties = Object.entries(message.properties ?? {});
  if (typeof message.value !== "string") return { why: "pulsar-client publishes texts only." };
  if (schema !== null) return { why: "pulsar-client needs the definition of a schema, not its version." };
  if (message.event_time || message.deliver_at || message.deliver_after_ms)
    return { why: "pulsar-client cannot set a message's times." };
  if (properties.some(([key, value]) => /[,=]/.test(key) || /[,=]/.test(value)))
    return { why: "pulsar-client accepts no property that contains a comma or an equals sign." };
  return line(
    ...["pulsar-client", "--url", brokerUrl, "produce", "-s", "(?!)", "-m", message.value],
    ...(message.key ? ["-k", message.key] : []),
    ...properties.flatMap(([key, value]) => ["-p", `${key}=${value}`]),
    name,
  );
}

function python(name: string, message: PublishedMessage, schema: number | null, brokerUrl: string) {
  if (schema !== null) return { why: "The Python client needs the schema's class: see the schema page." };
  if (message.value === null) return { why: "The Python client cannot send a message without a value." };
  const value =
    message.value_base64 === undefined
      ? `${text(String(message.value))}.encode()`
      : `base64.b64decode(${text(message.value_base64)})`;
  const given = [
    value,
    message.key && `partition_key=${text(message.key)}`,
    message.properties && `properties=${text(message.properties)}`,
    message.event_time && `event_timestamp=${message.event_time}`,
    message.deliver_at && `deliver_at=${message.deliver_at}`,
    message.deliver_after_ms && `deliver_after=datetime.timedelta(milliseconds=${message.deliver_after_ms})`,
  ].filter(Boolean);
  const program = lines(
    "import base64, datetime, os, pulsar",
    'token = os.environ.get("PULSAR_TOKEN")',
    `client = pulsar.Client(${text(brokerUrl)}, authentication=pulsar.AuthenticationToken(token) if token else None)`,
    `client.create_producer(${text(name)}).send(${given.join(", ")})`,
    "client.close()",
  );
  return `python3 -c ${quoted(program)}`;
}

const lines = (...all: string[]) => all.join("\n");

/** A text, or an object of texts, as Python reads it: JSON's escapes are among its own. */
const text = (value: unknown) => JSON.stringify(value);
