// The shapes of /api/v1. Times are integer milliseconds, rates are per second, and every 64-bit id is a
// string, because a JavaScript number cannot hold 2^63-1.

export type Domain = "persistent" | "non-persistent";

export interface Environment {
  cluster: string;
  clusters: string[];
  version: string;
  broker_url: string;
  http_url: string;
  user: { name: string; superuser: boolean } | null;
  now: number;
}

export interface TopicRow {
  name: string;
  domain: Domain;
  tenant: string;
  namespace: string;
  topic: string;
  partitions: number;
  producers: number;
  consumers: number;
  subscriptions: number;
  msg_rate_in: number;
  msg_rate_out: number;
  bytes_rate_in: number;
  bytes_rate_out: number;
  backlog: number;
  storage_bytes: number;
  at: number;
}

export interface Overview {
  at: number;
  cluster: string;
  totals: {
    topics: number;
    subscriptions: number;
    producers: number;
    consumers: number;
    backlog: number;
    storage_bytes: number;
    msg_rate_in: number;
    msg_rate_out: number;
    bytes_rate_in: number;
    bytes_rate_out: number;
  };
  attention: Attention[];
  top_backlogs: TopicRow[];
  brokers: {
    id: string;
    url: string;
    state: string;
    topics: number;
    msg_rate_in: number;
    msg_rate_out: number;
  }[];
  bookies: { id: string; state: string; free_bytes: number; total_bytes: number }[];
}

export interface Attention {
  severity: "error" | "warning";
  title: string;
  detail: string;
  link: string | null;
}

export interface TopicPage {
  at: number;
  total: number;
  offset: number;
  limit: number;
  rows: TopicRow[];
}

export interface Consumer {
  name: string;
  address: string;
  msg_rate_out: number;
  permits: number;
  unacked: number;
  connected_since: number | null;
}

export interface SubscriptionRow {
  name: string;
  type: string;
  durable: boolean;
  backlog: number;
  msg_rate_out: number;
  msg_rate_redeliver: number;
  unacked: number;
  consumers: Consumer[];
  mark_delete: string | null;
  read_position: string | null;
  oldest_unacked_ms?: number | null;
  net_rate: number;
  drain: { state: "empty" | "draining" | "growing" | "stalled"; eta_s: number | null };
}

export interface Producer {
  id: string;
  name: string;
  address: string;
  msg_rate_in: number;
  bytes_rate_in: number;
  client_version: string;
  connected_since: number | null;
}

export interface TopicDetail {
  at: number;
  row: TopicRow;
  owner: string | null;
  ledgers: { id: string; entries: number; bytes: number; state: string }[];
  producers: Producer[];
  subscriptions: SubscriptionRow[];
}

export type CursorAction = "skip-all" | "reset" | "skip";

export interface CursorPreview {
  affected: number;
  from: string | null;
  to: string | null;
}

export interface CursorReceipt {
  done: true;
  commands: { curl: string; pulsar_admin: string };
}

export interface JsonSchema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minItems?: number;
  maxItems?: number;
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
}

export interface Analysis {
  id: string;
  title: string;
  description: string;
  parameters_schema: JsonSchema;
}

export type RunState = "queued" | "running" | "succeeded" | "failed" | "cancelled" | (string & {});

export interface Run {
  id: string;
  analysis: string;
  title: string;
  parameters: Record<string, unknown>;
  state: RunState;
  stage: string | null;
  progress: { done: number; total: number } | null;
  created_at: number;
  started_at: number | null;
  finished_at: number | null;
  error: string | null;
  result: RunResult | null;
  downloads: { name: string; bytes: number; href: string }[];
}

export interface RunPage {
  total: number;
  rows: Run[];
}

export type Cell = string | number | boolean | null;

export interface Series {
  key: string;
  title: string;
  kind: "line" | "bar" | "histogram";
  x: { label: string; type: "time" | "number" | "category"; unit?: string | null };
  y: { label: string; unit?: string | null };
  points: [Cell, number | null][];
}

export interface ResultTable {
  key: string;
  title: string;
  columns: { key: string; label: string; type: string }[];
  rows: Cell[][];
}

export interface RunResult {
  schema_version: number;
  analysis: string;
  input: { topic: string; ledgers: number; entries: number; messages: number; bytes: number };
  summary: { key: string; label: string; value: Cell; unit?: string | null }[];
  series: Series[];
  tables: ResultTable[];
}
