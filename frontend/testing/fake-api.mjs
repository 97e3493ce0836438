// A stand-in for the gateway: the built console below /static/, /api/v1 and its live socket, no back end.
// node testing/fake-api.mjs [--port 21700] [--topics 100000]

import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { WebSocketServer } from "ws";
import { createCluster } from "./fake-data.mjs";
import { ANALYSES, createRuns } from "./fake-runs.mjs";

const { values: options } = parseArgs({
  options: { port: { type: "string", default: "21700" }, topics: { type: "string", default: "100000" } },
});
const port = Number(options.port);
const start = Date.now();
const cluster = createCluster({ topics: Number(options.topics), start });
const runs = createRuns({ start });
const dist = new URL("../dist/", import.meta.url).pathname;

const TYPES = {
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
  ".html": "text/html; charset=utf-8",
};
// The policy the gateway is asked to send: the kit writes its variables into a style element, hence the one exception.
const CSP = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join("; ");

let requests = 0;

class Refusal extends Error {
  constructor(status, reason, field) {
    super(reason);
    this.status = status;
    this.field = field;
  }
}

const topicName = ([domain, tenant, namespace, topic]) => `${domain}://${tenant}/${namespace}/${topic}`;

function found(value, what) {
  if (value === null || value === undefined) throw new Refusal(404, `${what} does not exist`);
  return value;
}

/** Body of a GET by channel, shared by HTTP and the live socket. */
function read(channel, params) {
  const now = Date.now();
  switch (channel) {
    case "overview":
      return cluster.overview(now);
    case "topics":
      return cluster.list(params, now);
    case "topic": {
      const name = topicName([params.domain, params.tenant, params.namespace, params.topic]);
      return found(cluster.detail(name, now), `Topic ${name}`);
    }
    case "run":
      return found(runs.view(params.id, now), `Run ${params.id}`);
    default:
      throw new Refusal(400, `Unknown channel ${channel}`, "channel");
  }
}

function answer(method, url, body) {
  const path = url.pathname.replace(/^\/api\/v1\/(clusters\/standalone\/)?/, "");
  const parts = path.split("/").map(decodeURIComponent);
  const query = Object.fromEntries(url.searchParams);
  const [head, ...rest] = parts;
  const now = Date.now();
  const route = `${method} ${head}/${rest.length}`;
  switch (route) {
    case "GET environment/0":
      return {
        cluster: "standalone",
        clusters: ["standalone"],
        version: "0.1.0",
        broker_url: "pulsar://127.0.0.1:6650",
        http_url: "http://127.0.0.1:8080",
        user: null,
        now,
      };
    case "GET overview/0":
      return read("overview", {});
    case "GET overview/1":
      return cluster.history(now);
    case "GET topics/0":
      return read("topics", query);
    case "GET topics/4": {
      const [domain, tenant, namespace, topic] = rest;
      return read("topic", { domain, tenant, namespace, topic });
    }
    case "POST topics/7":
      return found(
        cluster.moveCursor(topicName(rest), rest[5], rest[6], body, now),
        `Subscription ${rest[5]}`,
      );
    case "GET analyses/0":
      return ANALYSES;
    case "GET runs/0":
      return runs.list(query, now);
    case "POST runs/0":
      if (!cluster.detail(body.parameters.topic, now))
        throw new Refusal(400, `Topic ${body.parameters.topic} does not exist`, "topic");
      return runs.create(body.analysis, body.parameters, now);
    case "GET runs/1":
      return read("run", { id: rest[0] });
    case "POST runs/2":
      return found(runs.cancel(rest[0], now), `Run ${rest[0]}`);
    default:
      throw new Refusal(501, `${method} ${url.pathname} is not offered`);
  }
}

function send(request, response, status, type, body, headers = {}) {
  const zip = body.length > 1000 && /gzip/.test(request.headers["accept-encoding"] ?? "");
  response.writeHead(status, {
    "Content-Type": type,
    ...(zip ? { "Content-Encoding": "gzip" } : {}),
    ...headers,
  });
  response.end(zip ? gzipSync(body, { level: 5 }) : body);
}

async function serve(request, response) {
  const url = new URL(request.url, "http://fake");
  if (!url.pathname.startsWith("/api/")) return serveFile(request, response, url);
  requests += 1;
  const id = `fake-${requests}`;
  try {
    const body = request.method === "GET" ? null : JSON.parse(await textOf(request));
    const status = request.method === "POST" && url.pathname === "/api/v1/runs" ? 201 : 200;
    send(request, response, status, "application/json", JSON.stringify(answer(request.method, url, body)));
  } catch (error) {
    const status = error instanceof Refusal ? error.status : 500;
    const body = { reason: error.message, field: error.field, request_id: id };
    send(request, response, status, "application/json", JSON.stringify(body));
  }
}

function serveFile(request, response, url) {
  const inside = url.pathname.startsWith("/static/");
  const path = inside
    ? join(dist, normalize(url.pathname.slice("/static".length)))
    : join(dist, "index.html");
  if (!path.startsWith(dist) || !existsSync(path) || !statSync(path).isFile())
    return send(request, response, 404, "text/plain", "No such file");
  const type = TYPES[extname(path)] ?? "application/octet-stream";
  const cache = inside && path.includes("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
  send(request, response, 200, type, readFileSync(path), {
    "Content-Security-Policy": CSP,
    "Cache-Control": cache,
  });
}

async function textOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

const server = createServer(serve);
const sockets = new WebSocketServer({ server, path: "/api/v1/live" });
sockets.on("connection", (socket) => {
  const subscriptions = new Map();
  const push = (id, { channel, params }) => {
    try {
      socket.send(JSON.stringify({ id, channel, at: Date.now(), data: read(channel, params) }));
    } catch (error) {
      socket.send(JSON.stringify({ id, error: { reason: error.message } }));
    }
  };
  socket.on("message", (text) => {
    const { op, id, channel, params } = JSON.parse(text);
    if (op === "ping") socket.send('{"op":"pong"}');
    if (op === "unsubscribe") subscriptions.delete(id);
    if (op === "subscribe") {
      subscriptions.set(id, { channel, params });
      push(id, { channel, params });
    }
  });
  const timer = setInterval(() => {
    for (const [id, subscription] of subscriptions) push(id, subscription);
  }, 1000);
  socket.on("close", () => clearInterval(timer));
});
server.listen(port, "127.0.0.1", () => console.log(`Fake console API on http://127.0.0.1:${port}`));
