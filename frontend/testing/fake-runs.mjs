// Runs of one analysis that make progress with the clock: queued, then stages, then a result.
import { generator } from "./fake-data.mjs";

export const ANALYSES = [
  {
    id: "topic_profile",
    title: "Topic profile",
    description:
      "Counts, sizes and rates of a topic's stored messages, its busiest keys and producers, and how well batching and compression work. Reads straight from the bookies.",
    parameters_schema: {
      type: "object",
      required: ["topic"],
      properties: {
        topic: {
          type: "string",
          title: "Topic",
          description: "Full name of a persistent topic.",
          pattern: "^persistent://[^/]+/[^/]+/.+$",
        },
        start: {
          anyOf: [{ type: "integer", format: "epoch-ms" }, { type: "null" }],
          title: "Published from",
          default: null,
        },
        end: {
          anyOf: [{ type: "integer", format: "epoch-ms" }, { type: "null" }],
          title: "Published until",
          default: null,
        },
        top: { type: "integer", title: "Keys and producers to list", minimum: 1, maximum: 100, default: 10 },
        buckets: { type: "integer", title: "Time buckets", minimum: 10, maximum: 500, default: 60 },
        sampling: { type: "string", title: "Sampling", enum: ["all", "tenth", "hundredth"], default: "all" },
        write_output: {
          type: "boolean",
          title: "Write Parquet",
          description: "Keep one row per message for download.",
          default: true,
        },
      },
    },
  },
];

const STAGES = ["Starting Spark", "Planning ledgers", "Reading entries", "Aggregating", "Writing Parquet"];
const TASKS = 64;
const TAKES_MS = 20_000;

export function createRuns({ start }) {
  const runs = new Map();
  let next = 1;

  function create(analysis, parameters, { at, state = null } = {}) {
    const id = `0b6c${String(next++).padStart(4, "0")}-7d3e-4c11-9a51-5f2a77e10c42`;
    runs.set(id, { id, analysis, parameters, at, fixed: state, cancelled: null });
    return id;
  }

  function view(id, now) {
    const run = runs.get(id);
    if (!run) return null;
    const age = now - run.at;
    const state =
      run.fixed ??
      (run.cancelled ? "cancelled" : age < 1500 ? "queued" : age < TAKES_MS ? "running" : "succeeded");
    const reached = run.cancelled ? run.cancelled - run.at : age;
    const share =
      state === "succeeded"
        ? 1
        : state === "failed"
          ? 0.42
          : Math.max(0, Math.min(0.99, (reached - 1500) / (TAKES_MS - 1500)));
    const over = state === "succeeded" || state === "failed" || state === "cancelled";
    return {
      id,
      analysis: run.analysis,
      title: "Topic profile",
      parameters: run.parameters,
      state,
      stage: state === "queued" ? "" : STAGES[Math.min(STAGES.length - 1, Math.floor(share * STAGES.length))],
      progress:
        state === "queued" ? { done: 0, total: 0 } : { done: Math.floor(share * TASKS), total: TASKS },
      created_at: run.at,
      started_at: state === "queued" ? null : run.at + 1500,
      finished_at: over ? (run.cancelled ?? run.at + TAKES_MS) : null,
      error:
        state === "failed"
          ? "LedgerError: ledger 1328, entry 40211: no bookie of the ensemble answered within 30 s\nTried 127.0.0.1:3181, 127.0.0.1:3183"
          : null,
      result: state === "succeeded" ? resultOf(run) : null,
      downloads:
        state === "succeeded"
          ? [
              {
                name: "messages.parquet",
                bytes: 48_210_332,
                href: `/api/v1/runs/${id}/downloads/messages.parquet`,
              },
            ]
          : [],
    };
  }

  const hello = {
    topic: "persistent://public/default/hello",
    top: 10,
    buckets: 60,
    sampling: "all",
    write_output: true,
  };
  create("topic_profile", hello, { at: start - 86_400_000, state: "succeeded" });
  create("topic_profile", hello, { at: start - 7_200_000, state: "failed" });
  create(
    "topic_profile",
    { ...hello, topic: "persistent://orders/events/invoice-created" },
    { at: start - 3_600_000, state: "cancelled" },
  );

  return {
    create: (analysis, parameters, now) => view(create(analysis, parameters, { at: now }), now),
    view,
    cancel: (id, now) => {
      const run = runs.get(id);
      if (run && !run.fixed && now - run.at < TAKES_MS) run.cancelled ??= now;
      return view(id, now);
    },
    list: ({ topic, analysis, offset = 0, limit = 50 }, now) => {
      const rows = [...runs.values()]
        .filter(
          (run) => (!topic || run.parameters.topic === topic) && (!analysis || run.analysis === analysis),
        )
        .sort((a, b) => b.at - a.at);
      return {
        total: rows.length,
        rows: rows
          .slice(Number(offset), Number(offset) + Number(limit))
          .map((run) => ({ ...view(run.id, now), result: null })),
      };
    },
  };
}

function resultOf(run) {
  const random = generator(11);
  const first = run.at - 3_600_000;
  const perBucket = Array.from({ length: 60 }, (_, n) => [
    first + n * 60_000,
    Math.round(1150 + 260 * Math.sin(n / 6) + 90 * random()),
  ]);
  const sizes = [0, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
  const keys = Array.from({ length: 10 }, (_, n) => [
    `customer-${String(Math.floor(random() * 90_000)).padStart(5, "0")}`,
    Math.round(61_000 / (n + 1) ** 0.8),
  ]);
  return {
    schema_version: 1,
    analysis: run.analysis,
    input: {
      topic: run.parameters.topic,
      ledgers: 6,
      entries: 250_410,
      messages: 4_139_220,
      bytes: 3_992_110_842,
    },
    summary: [
      { key: "messages", label: "Messages", value: 4_139_220, unit: "messages" },
      { key: "bytes", label: "Payload", value: 3_992_110_842, unit: "bytes" },
      { key: "mean_size", label: "Mean size", value: 964.4, unit: "bytes" },
      { key: "rate", label: "Mean rate", value: 1149.8, unit: "messages/s" },
      { key: "batch", label: "Messages per entry", value: 16.53, unit: null },
      { key: "compression", label: "Compression", value: 2.42, unit: "ratio" },
    ],
    series: [
      {
        key: "rate",
        title: "Messages over time",
        kind: "line",
        x: { label: "Publish time", type: "time" },
        y: { label: "messages/s" },
        points: perBucket,
      },
      {
        key: "sizes",
        title: "Message sizes",
        kind: "histogram",
        x: { label: "Size", type: "number", unit: "bytes" },
        y: { label: "messages" },
        points: sizes.map((size, n) => [size, Math.round(900_000 * Math.exp(-((n - 5) ** 2) / 5))]),
      },
      {
        key: "keys",
        title: "Busiest keys",
        kind: "bar",
        x: { label: "Key", type: "category" },
        y: { label: "messages" },
        points: keys,
      },
      {
        key: "hours",
        title: "Messages by hour of day",
        kind: "bar",
        x: { label: "Hour", type: "number" },
        y: { label: "messages" },
        points: Array.from({ length: 24 }, (_, n) => [
          n,
          Math.round(120_000 + 90_000 * Math.sin((n - 6) / 3.8)),
        ]),
      },
    ],
    tables: [
      {
        key: "producers",
        title: "Producers",
        columns: [
          { key: "name", label: "Producer", type: "string" },
          { key: "messages", label: "Messages", type: "integer" },
          { key: "bytes", label: "Payload", type: "bytes" },
          { key: "last", label: "Last published", type: "time" },
        ],
        rows: Array.from({ length: 5 }, (_, n) => [
          `standalone-0-${n}`,
          1_600_000 - n * 290_000,
          1_500_000_000 - n * 260_000_000,
          run.at - n * 4000,
        ]),
      },
    ],
  };
}
