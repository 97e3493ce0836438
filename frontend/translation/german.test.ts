import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import german from "./german.json";
import { lookedUp, textsOf } from "./texts";

const SRC = new URL("../src/", import.meta.url).pathname;
/** Names and words that are the same in both languages, and the words by which the palette is searched. */
const SAME = new Set([
  ...[
    "Magnetar",
    "Apache Pulsar",
    "Cluster",
    "Broker",
    "Brokers",
    "Bookie",
    "Bookies",
    "Tenant",
    "Namespace",
  ],
  ...[
    "tenant",
    "namespace",
    "Topic",
    "Consumer",
    "Partition",
    "Hash",
    "Ledger",
    "Client",
    "Gateway",
    "Redis",
  ],
  ...["Name", "Version", "Status", "Export", "Schema", "Traces", "Bytes", "Spark", "CSV", "JSON", "curl"],
  ...["Tab", "mod + K", "show go overview", "consumers cursors", "analyze profile run", "discard some"],
  ...[
    "clear drain backlog discard",
    "rewind replay seek cursor",
    "new add",
    "new run analyse analyze profile",
  ],
  ...["move balance broker owner", "cluster disk rack", "English", "Deutsch", "Bundles", "Geo"],
  ...["value", "value_base64", "key", "properties", "event_time", "deliver_at", "deliver_after_ms"],
  ...['{"key": "k1", "value": {"id": 1}}', "pulsar://BROKER:6650", "persistent://{}"],
  ...["audit_verify --noted", "red", "pulse", "secure", "--secure", "--hash-names "],
  ...[
    "Browser",
    "Code",
    "Connector",
    "Definition",
    "Downloads",
    "Log",
    "Logs",
    "Parameter",
    "Tokens",
    "Worker",
  ],
  ...["Version {}", "WebSocket", "Java", "Go", "pulsar-client", "pulsarctl", "pulsar-admin"],
  ...["Edge", "Opera", "Firefox", "Chrome", "Safari", "Android", "Windows", "Linux"],
  ...["PULSAR_TOKEN_FILE", "PULSAR_HEADER_FILE", "Authorization: Bearer …", "Content-Type: application/json"],
  ...["advertised_address", "advertised_listeners", "persistent://{}/{}/{}", "builtin://{}"],
  ...["Maven: org.apache.pulsar : pulsar-client : 4.0.8"],
]);
/** The begin of a program or a command. */
const PROGRAM =
  /^(class |g\+\+ |go |namespaces |node |npm |openssl |pip |pulsar-admin \{|pulsarctl \{|python3? |sh |while |\{\} \| )/;
const isSame = (key: string) => SAME.has(key) || PROGRAM.test(key);
const words: Record<string, string> = german;

/** Every file is parsed, which takes long on a machine that is busy. */
const PATIENCE_MS = 120_000;
/** The texts of all files, each with a file that has it. */
function allKeys(): Map<string, string> {
  const found = new Map<string, string>();
  const files = readdirSync(SRC, { recursive: true }).map(String);
  for (const path of files.filter((name) => /\.tsx?$/.test(name) && !/\.test\./.test(name)))
    for (const text of textsOf(path, readFileSync(join(SRC, path), "utf8")))
      if (!text.within || isUsed(text.within)) found.set(text.key, path);
  return found;
}

/** Whether the German of a template shows a value of it. */
function isUsed({ key, value }: { key: string; value: number }): boolean {
  const text = words[key] ?? "";
  return /\{\d\}/.test(text) ? text.includes(`{${value}}`) : true;
}

let parsed: Map<string, string> | undefined;
const keysOfConsole = () => {
  parsed ??= allKeys();
  return parsed;
};

const holes = (text: string) => (text.match(/\{\d?\}/g) ?? []).length;

test(
  "each text of the console has its German",
  () => {
    const missing = [...keysOfConsole()].filter(([key]) => !(key in words) && !isSame(key));
    expect(missing).toEqual([]);
  },
  PATIENCE_MS,
);

test(
  "each German text is one of the console's, with its values",
  () => {
    const keys = keysOfConsole();
    expect(Object.keys(words).filter((key) => !keys.has(key))).toEqual([]);
    const wrong = Object.entries(words).filter(
      ([key, text]) => holes(text) > holes(key) || (!/\{\d\}/.test(text) && holes(text) !== holes(key)),
    );
    expect(wrong).toEqual([]);
  },
  PATIENCE_MS,
);

test("names of the program stay as they are, also where a text is the same word", () => {
  const source = [
    "export function Part({ kind }: { kind: string }) {",
    "  const at = field('Stored');",
    "  const amount = Number(headers.get('Stored'));",
    "  return <p>{['State', 'Stored'].includes(kind) && at && amount}</p>;",
    "}",
  ].join("\n");
  expect(lookedUp("part.tsx", source, (key) => key in words, "words")).toBe(null);
});

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: it is source text
test("a module looks up what is shown, and nothing else", () => {
  const source = [
    "import { State } from './State';",
    "const kind = 'Stored';",
    "export function Part({ name, count }: { name: string; count: number }) {",
    "  if (name === 'Stored') return null;",
    "  const row = { key: 'State', header: 'State', note: count > 1 ? 'Show' : `Copy ${name}` };",
    "  return <p className='Stored' title='Stored'>Show all {name} <b>{plural(count, 'topic')}</b></p>;",
    "}",
  ].join("\n");
  const changed = lookedUp("part.tsx", source, (key) => key in words, "words");
  expect(changed).toBe(
    `import { w as w_ } from "words";${source
      .replace("header: 'State'", 'header: w_("State")')
      .replace("'Show' :", 'w_("Show") :')
      .replace("`Copy ${name}`", 'w_("Copy {}", name)')
      .replace("title='Stored'", 'title={w_("Stored")}')
      .replace("Show all {", '{w_("Show all")} {')
      .replace("kind = 'Stored'", 'kind = w_("Stored")')}`,
  );
});
test("a template's values are looked up, too, also a word that it chooses", () => {
  const source =
    "const text = `Change ${isAll ? 'all topics' : `all of ${name}`}, which ${one ? 'is' : 'are'} new`;";
  const has = new Set(["Change {}, which {} new", "all topics", "all of {}", "is"]);
  const changed = lookedUp("part.ts", source, (key) => has.has(key), "words");
  expect(changed).toBe(
    'import { w as w_ } from "words";const text = w_("Change {}, which {} new", ' +
      'isAll ? w_("all topics") : w_("all of {}", name), one ? w_("is") : \'are\');',
  );
});
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: it is source text
