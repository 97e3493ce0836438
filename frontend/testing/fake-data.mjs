// A deterministic cluster for the console's own checks: the same seed gives the same topics, and their
// numbers are a function of the time, so that any two answers agree with each other.

const TENANTS = ["public", "orders", "payments", "telemetry", "search", "billing", "media", "risk"];
const NAMESPACES = ["default", "ingest", "events", "retries", "audit"];
const WORDS = [
  "click",
  "invoice",
  "sensor",
  "session",
  "fraud-check",
  "shipment",
  "price",
  "login",
  "thumbnail",
  "ledger",
];
const KINDS = ["created", "updated", "raw", "enriched", "dlq", "v2", "daily", "eu-west"];

export function createCluster({ topics = 100_000, seed = 7, start = Date.now() } = {}) {
  const random = generator(seed);
  const pick = (list) => list[Math.floor(random() * list.length)];
  const base = [];
  for (let index = 0; index < topics; index++) {
    const heat = random() ** 6; // few topics are busy, most are nearly idle
    const persistent = index === 0 || random() < 0.97;
    const tenant = index === 0 ? "public" : pick(TENANTS);
    const namespace = index === 0 ? "default" : pick(NAMESPACES);
    const topic = index === 0 ? "hello" : `${pick(WORDS)}-${pick(KINDS)}-${String(index).padStart(5, "0")}`;
    const rate = index === 0 ? 1200 : heat < 0.01 ? 0 : Math.round(heat * 40_000) / 10;
    const size = 80 + Math.floor(random() * 2000);
    const subscriptions = index === 0 ? 4 : Math.floor(random() * 4);
    base.push({
      name: `${persistent ? "persistent" : "non-persistent"}://${tenant}/${namespace}/${topic}`,
      domain: persistent ? "persistent" : "non-persistent",
      tenant,
      namespace,
      topic,
      partitions: random() < 0.08 ? 4 : 0,
      producers: rate > 0 ? 1 + Math.floor(random() * 5) : 0,
      consumers: subscriptions ? Math.floor(random() * 6) : 0,
      subscriptions,
      rate,
      size,
      drift: index === 0 ? 14 : random() < 0.0004 ? 40 * random() : 0,
      backlog: persistent && subscriptions ? Math.floor(random() ** 14 * 2_000_000) : 0,
      stored: persistent ? Math.floor(random() ** 4 * 2 ** 36) : 0,
      phase: random() * 6.28,
    });
  }
  if (base[0]) Object.assign(base[0], { partitions: 0, backlog: 184_000 });

  function row(topic, now) {
    const t = (now - start) / 1000;
    const wave = 1 + 0.18 * Math.sin(t / 7 + topic.phase) + 0.06 * Math.sin(t * 1.7 + topic.phase);
    const rateIn = topic.rate * wave;
    const rateOut = topic.subscriptions ? Math.max(0, topic.rate * (2 - wave) - topic.drift) : 0;
    return {
      name: topic.name,
      domain: topic.domain,
      tenant: topic.tenant,
      namespace: topic.namespace,
      topic: topic.topic,
      partitions: topic.partitions,
      producers: topic.producers,
      consumers: topic.consumers,
      subscriptions: topic.subscriptions,
      msg_rate_in: rateIn,
      msg_rate_out: rateOut,
      bytes_rate_in: rateIn * topic.size,
      bytes_rate_out: rateOut * topic.size,
      backlog: Math.max(0, Math.round(topic.backlog + topic.drift * t)),
      storage_bytes: Math.round(
        topic.stored + (topic.domain === "persistent" ? topic.rate * topic.size * t : 0),
      ),
      at: now,
    };
  }

  // Sorting 100,000 fresh rows per keystroke would measure this fake, not the console: order is by the
  // resting values and cached.
  const orders = new Map();
  function ordered(sort) {
    if (orders.has(sort)) return orders.get(sort);
    const descending = sort.startsWith("-");
    const key = descending ? sort.slice(1) : sort;
    const resting = base.map((topic) => ({ topic, value: row(topic, start)[key] }));
    resting.sort((a, b) => (a.value < b.value ? -1 : a.value > b.value ? 1 : 0) * (descending ? -1 : 1));
    const list = resting.map((each) => each.topic);
    orders.set(sort, list);
    return list;
  }

  function list({ q = "", tenant, namespace, domain, sort = "-backlog", offset = 0, limit = 100 }, now) {
    const text = q.toLowerCase();
    const found = ordered(sort).filter(
      (topic) =>
        (!text || topic.name.toLowerCase().includes(text)) &&
        (!tenant || topic.tenant === tenant) &&
        (!namespace || topic.namespace === namespace) &&
        (!domain || topic.domain === domain),
    );
    const rows = found.slice(Number(offset), Number(offset) + Number(limit)).map((topic) => row(topic, now));
    return { at: now, total: found.length, offset: Number(offset), limit: Number(limit), rows };
  }

  const sum = (read) => base.reduce((total, topic) => total + read(topic), 0);
  const resting = {
    rate: sum((topic) => topic.rate),
    bytes: sum((topic) => topic.rate * topic.size),
    backlog: sum((topic) => topic.backlog),
    stored: sum((topic) => topic.stored),
    subscriptions: sum((topic) => topic.subscriptions),
    producers: sum((topic) => topic.producers),
    consumers: sum((topic) => topic.consumers),
  };
  const totalsOf = (now) => {
    const t = (now - start) / 1000;
    const wave = 1 + 0.1 * Math.sin(t / 9) + 0.03 * Math.sin(t * 1.3);
    const { rate } = resting;
    return {
      topics: base.length,
      subscriptions: resting.subscriptions,
      producers: resting.producers,
      consumers: resting.consumers,
      backlog: Math.round(resting.backlog + 900 * t),
      storage_bytes: Math.round(resting.stored + resting.bytes * t),
      msg_rate_in: rate * wave,
      msg_rate_out: rate * (2 - wave) * 0.97,
      bytes_rate_in: resting.bytes * wave,
      bytes_rate_out: resting.bytes * (2 - wave) * 0.97,
    };
  };

  function overview(now) {
    const totals = base.length ? totalsOf(now) : emptyTotals();
    const worst = base.length ? list({ sort: "-backlog", limit: 10 }, now).rows : [];
    return {
      at: now,
      cluster: "standalone",
      totals,
      attention: base.length
        ? [
            {
              severity: "error",
              title: "Bookie 127.0.0.1:3182 is read-only",
              detail: "Its disk is 96 % full; nothing new is written there.",
              link: null,
            },
            {
              severity: "warning",
              title: "Subscription billing of hello is growing",
              detail: "No consumer is connected; 184,000 messages wait.",
              link: "/c/standalone/t/public/default/hello/subscriptions",
            },
          ]
        : [],
      top_backlogs: worst,
      brokers: [1, 2].map((n) => ({
        id: `127.0.0.1:808${n}`,
        url: `pulsar://127.0.0.1:665${n - 1}`,
        state: "ready",
        topics: Math.round(totals.topics / 2),
        msg_rate_in: totals.msg_rate_in / 2,
        msg_rate_out: totals.msg_rate_out / 2,
      })),
      bookies: [
        { id: "127.0.0.1:3181", state: "writable", free_bytes: 310 * 2 ** 30, total_bytes: 512 * 2 ** 30 },
        { id: "127.0.0.1:3182", state: "read-only", free_bytes: 20 * 2 ** 30, total_bytes: 512 * 2 ** 30 },
        { id: "127.0.0.1:3183", state: "writable", free_bytes: 190 * 2 ** 30, total_bytes: 512 * 2 ** 30 },
      ],
    };
  }

  function history(now) {
    const columns = ["at", "msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out", "backlog"];
    const points = base.length
      ? Array.from({ length: 900 }, (_, n) => {
          const at = now - (900 - n) * 1000;
          const totals = totalsOf(at);
          return columns.map((column) => (column === "at" ? at : totals[column]));
        })
      : [];
    return { at: now, step_ms: 1000, columns, points };
  }

  const moved = new Map(); // subscriptions whose cursor a check has moved

  function detail(name, now) {
    const topic = base.find((each) => each.name === name);
    if (!topic) return null;
    const shown = row(topic, now);
    const producers = Array.from({ length: shown.producers }, (_, n) => ({
      id: String(n),
      name: `standalone-0-${n}`,
      address: `10.0.4.${20 + n}:5${1000 + n}`,
      msg_rate_in: shown.msg_rate_in / shown.producers,
      bytes_rate_in: shown.bytes_rate_in / shown.producers,
      client_version: "3.6.1",
      connected_since: new Date(start - 3_600_000 * (n + 1)).toISOString(),
      partitions: Array.from({ length: shown.partitions }, (_, number) => number),
    }));
    const stored = topic.domain === "persistent";
    const ledgers = stored
      ? Array.from({ length: 6 }, (_, n) => ({
          id: n === 5 ? "9223372036854775807" : String(1180 + n * 37),
          entries: n === 5 ? Math.floor((now - start) / 10) : 50_000,
          bytes: n === 5 ? Math.floor((now - start) * 110) : 50_000 * topic.size,
          state: n === 5 ? "OPEN" : "CLOSED",
          partition: shown.partitions ? n % shown.partitions : null,
        }))
      : [];
    return {
      at: now,
      row: { ...shown, known: "live" },
      partitions: Array.from({ length: shown.partitions }, (_, number) => partition(shown, number)),
      missing: [],
      owner: "127.0.0.1:8081",
      ledgers,
      producers,
      subscriptions: subscriptions(topic, shown, now),
    };
  }

  /** An even share of the topic's numbers. */
  function partition(shown, number) {
    const share = (value) => Math.floor(value / shown.partitions);
    return {
      ...shown,
      name: `${shown.name}-partition-${number}`,
      topic: `${shown.topic}-partition-${number}`,
      partitions: 0,
      backlog: share(shown.backlog),
      storage_bytes: share(shown.storage_bytes),
      msg_rate_in: shown.msg_rate_in / shown.partitions,
      msg_rate_out: shown.msg_rate_out / shown.partitions,
      bytes_rate_in: shown.bytes_rate_in / shown.partitions,
      bytes_rate_out: shown.bytes_rate_out / shown.partitions,
      known: "live",
      partition: number,
      owner: "127.0.0.1:8081",
    };
  }

  function subscriptions(topic, shown, now) {
    const t = (now - start) / 1000;
    const makers = [
      ["billing", "Shared", "growing", 0, Math.round(topic.backlog + topic.drift * t)],
      ["search-index", "Shared", "draining", 3, Math.max(0, Math.round(46_000 - 60 * t))],
      ["audit-trail", "Exclusive", "empty", 1, 0],
      ["fraud", "Exclusive", "stalled", 1, 12_034],
    ];
    return makers.slice(0, topic.subscriptions).map(([name, type, state, count, backlog]) => {
      const cleared = moved.get(`${topic.name} ${name}`);
      const waiting = cleared ? 0 : backlog;
      const out =
        state === "growing" || state === "stalled" ? 0 : shown.msg_rate_in + (state === "draining" ? 60 : 0);
      return {
        name,
        type,
        durable: true,
        backlog: waiting,
        msg_rate_out: out,
        msg_rate_redeliver: state === "stalled" ? 0.4 : 0,
        unacked: state === "stalled" ? 1000 : count * 12,
        consumers: Array.from({ length: count }, (_, n) => ({
          name: `${name}-${n}`,
          address: `10.0.7.${30 + n}:4${2000 + n}`,
          msg_rate_out: out / count,
          permits: state === "stalled" ? 0 : 870 + n,
          unacked: state === "stalled" ? 1000 : 12,
          connected_since: new Date(start - 600_000 * (n + 1)).toISOString(),
          partition: shown.partitions ? n % shown.partitions : null,
        })),
        positions: (shown.partitions
          ? Array.from({ length: shown.partitions }, (_, number) => number)
          : [null]
        ).map((number) => ({
          partition: number,
          mark_delete: "1328:40211",
          read_position: "9223372036854775807:1004",
          backlog: waiting,
        })),
        oldest_unacked_ms: waiting ? start - 5_400_000 : null,
        net_rate: state === "growing" ? topic.drift : state === "draining" ? -60 : 0,
        drain: {
          state: cleared ? "empty" : state,
          eta_s: state === "draining" ? Math.round(backlog / 60) : null,
        },
      };
    });
  }

  function moveCursor(name, subscription, action, body, now) {
    const found = detail(name, now)?.subscriptions.find((each) => each.name === subscription);
    if (!found) return null;
    const affected =
      action === "skip" ? Math.min(found.backlog, body.count) : action === "reset" ? 7_218 : found.backlog;
    if (body.preview)
      return { affected, from: found.positions[0].mark_delete, to: "9223372036854775807:1003" };
    if (action === "skip-all") moved.set(`${name} ${subscription}`, true);
    const path = name.replace("://", "/");
    const last =
      action === "skip-all"
        ? "skip_all"
        : action === "skip"
          ? `skip/${body.count}`
          : `resetcursor/${body.timestamp}`;
    return {
      done: true,
      commands: {
        curl: `curl -X POST http://127.0.0.1:8080/admin/v2/${path}/subscription/${subscription}/${last}`,
        pulsar_admin: `pulsar-admin topics ${action === "skip-all" ? "clear-backlog" : action === "skip" ? "skip" : "reset-cursor"} -s ${subscription} ${name}`,
      },
    };
  }

  return { list, overview, history, detail, moveCursor };
}

function emptyTotals() {
  const names = ["topics", "subscriptions", "producers", "consumers", "backlog", "storage_bytes"];
  const rates = ["msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out"];
  return Object.fromEntries([...names, ...rates].map((name) => [name, 0]));
}

/** Uniform numbers in [0, 1) from a seed (mulberry-style mixing of a counter). */
export function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
