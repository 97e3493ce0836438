// The shapes of /api/v1, under the console's names. They are generated from the gateway's OpenAPI
// document (`npm run types`). Only types that the document leaves open are written by hand: JSON Schemas, and the
// results of analyses (docs/formats/analysis-result.md).

import type { components } from "./schema";

type Schemas = components["schemas"];

export type Environment = Schemas["EnvironmentAnswer"];
export type Overview = Schemas["OverviewAnswer"];
export type History = Schemas["HistoryAnswer"];
export type Attention = Schemas["Attention"];
export type AttentionItem = Schemas["AttentionItem"];
export type TopicRow = Schemas["TopicRow"];
export type ListedRow = Schemas["ListedRow"];
export type TopicPage = Schemas["TopicsAnswer"];
export type ListedSubscription = Schemas["ListedSubscriptionRow"];
export type SubscriptionPage = Schemas["SubscriptionsAnswer"];
export type TopicDetail = Schemas["TopicAnswer"];
export type PartitionRow = Schemas["PartitionRow"];
/** Whether figures are true now: live, stored and nowhere loaded, as last known, or not known at all. */
export type Known = Schemas["KnownEnum"];
export type Lag = Schemas["LagShape"];
export type SavedView = Schemas["ViewRow"];
export type SubscriptionRow = Schemas["SubscriptionRow"];

export type SchemaKind = Schemas["SchemaKindEnum"];
export type SchemaVersions = Schemas["VersionsAnswer"];
export type SchemaVersion = Schemas["VersionAnswer"];
export type SchemaStrategy = Schemas["StrategyRow"];
/** A schema typed in by a user, as it would be registered. */
export type Candidate = Schemas["CandidateShapeRequest"];
export type Verdict = Schemas["VerdictShape"];
export type Rehearsal = Schemas["Rehearsal"];

export type Trace = Schemas["TraceShape"];
export type Span = Schemas["SpanShape"];
export type TraceRequest = Schemas["TraceBodyRequest"];

export type Health = Schemas["HealthAnswer"];
/** A part between this page and the stored data, with its state. */
export type Hop = Schemas["HopShape"];

export type CursorAction = "skip-all" | "reset" | "skip" | "undo";
export type CursorPreview = Schemas["CursorPreview"];
export type CursorReceipt = Schemas["CursorReceipt"];
export type CursorAmounts = Pick<
  CursorPreview,
  "lost" | "again" | "lost_entries" | "again_entries" | "exact" | "entries" | "affected"
>;
export type CursorPart = Schemas["ReceiptPart"];
export type LastChange = Schemas["LastChangeShape"];
export type LastChanges = Schemas["LastChanges"];

export type SparkSetup = Schemas["SparkShape"];
export type Analysis = Omit<Schemas["AnalysisShape"], "parameters"> & {
  parameters: JsonSchema;
};
export type Run = Omit<Schemas["RunShape"], "parameters" | "result" | "partial"> & {
  parameters: Record<string, unknown>;
  result: RunResult | null;
  partial: RunResult | null;
};
export type RunPage = Omit<Schemas["RunPage"], "rows"> & { rows: Run[] };

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
  /** A secret, which is shown nowhere. */
  writeOnly?: boolean;
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
}

export type Cell = string | number | boolean | null;

export interface Series {
  key: string;
  title: string;
  kind: "line" | "bar" | "histogram";
  x: { label: string; type: "time" | "number" | "category"; unit?: string | null };
  y: { label: string; unit?: string | null };
  points: [Cell, number | null][];
  partial?: Cell[]; // x of the points whose interval was read only partly
}

export interface ResultTable {
  key: string;
  title: string;
  columns: { key: string; label: string; type: string }[];
  rows: Cell[][];
  total?: number; // rows that there are, where these may be the first only
  at_least?: boolean;
}

export interface RunResult {
  schema_version: number;
  analysis: string;
  /** The data that was read, as far as the analysis counts it. */
  input: { ledgers?: number; entries?: number; messages?: number; bytes?: number };
  conclusions?: string[]; // older runs have none
  links?: { text: string; path: string }[]; // below the cluster's pages
  summary: { key: string; label: string; value: Cell; unit?: string | null }[];
  series: Series[];
  tables: ResultTable[];
}
