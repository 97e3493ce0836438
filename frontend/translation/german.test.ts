import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import german from "./german.json";
import { lookedUp, textsOf } from "./texts";

const SRC = new URL("../src/", import.meta.url).pathname;
/** What is not translated yet; everything else is. */
const NOT_YET = [
  ...["features/access", "features/account", "features/analyses", "features/connect", "features/functions"],
  ...["features/people", "features/schema", "features/sign-in", "features/traces"],
  ...["shared/commands", "shared/connect", "shared/people"],
];
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
  ...["audit_verify --noted", "red", "pulse"],
]);
const words: Record<string, string> = german;

function filesOf(path: string): string[] {
  const all = statSync(join(SRC, path)).isFile()
    ? [path]
    : readdirSync(join(SRC, path), { recursive: true }).map((name) => join(path, String(name)));
  return all.filter((name) => /\.tsx?$/.test(name) && !/\.test\./.test(name));
}

/** Every file is parsed, which takes long on a machine that is busy. */
const PATIENCE_MS = 120_000;
const PARSED = new Map<string, string[]>();

function keysIn(path: string): string[] {
  let keys = PARSED.get(path);
  if (keys === undefined) {
    keys = textsOf(path, readFileSync(join(SRC, path), "utf8")).map(({ key }) => key);
    PARSED.set(path, keys);
  }
  return keys;
}

function keysOf(paths: readonly string[], without: readonly string[] = []): Map<string, string> {
  const found = new Map<string, string>();
  const files = paths.flatMap(filesOf).filter((path) => !without.some((part) => path.startsWith(`${part}/`)));
  for (const path of files) for (const key of keysIn(path)) found.set(key, path);
  return found;
}

const holes = (text: string) => (text.match(/\{\d?\}/g) ?? []).length;

test(
  "each text of the translated pages has its German",
  () => {
    const missing = [...keysOf([""], NOT_YET)].filter(([key]) => !(key in words) && !SAME.has(key));
    expect(missing).toEqual([]);
  },
  PATIENCE_MS,
);

test(
  "each German text is one of the console's, with its values",
  () => {
    const keys = keysOf([""]);
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
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: it is source text
