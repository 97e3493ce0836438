// The one socket: subscriptions that survive reconnects. A GET answers the same data, so a lost socket
// loses freshness only; views poll while `status` isn't "open".

import { health, whenAnswered } from "./health";
import { notIdentified } from "./not-identified";
import { ofPageCluster } from "./page-cluster";
import type { Health } from "./types";

export type Channel =
  | "overview"
  | "topics"
  | "topic"
  | "subscriptions"
  | "connections"
  | "functions"
  | "schemas"
  | "run"
  | "geo"
  | "link";
export type SocketStatus = "connecting" | "open" | "lost";
export type Params = Record<string, string | number | undefined>;

export interface Handlers {
  data: (data: unknown, at: number) => void;
  error?: (reason: string) => void;
}

/** The part of a browser's WebSocket that is used here. */
export interface Wire {
  send(text: string): void;
  close(): void;
  onopen: (() => void) | null;
  onclose: ((event: { code: number }) => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
}

export const BACKOFF_FIRST_MS = 250;
export const BACKOFF_MAX_MS = 3_000;
export const LOOK_EVERY_MS = 1_000;
/** The server sends a beat each second: a wire silent for so long is dead. */
export const SILENCE_MAX_MS = 6_000;
/** The server closes with it when the session, or what else identified this browser, has ended or changed. */
export const CLOSE_EXPIRED = 4001;

interface Subscription {
  channel: Channel;
  params: Params;
  handlers: Handlers;
}

export class LiveSocket {
  status: SocketStatus = "connecting";
  /** Local time of the last message of any kind. While open, data counts as current as of this moment. */
  receivedAt = 0;
  private wire: Wire | null = null;
  private failures = 0;
  private nextId = 1;
  private started = false;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private looking: ReturnType<typeof setInterval> | undefined;
  private readonly subscriptions = new Map<string, Subscription>();
  private readonly watchers = new Set<() => void>();

  constructor(
    private readonly connect: () => Wire,
    private readonly onBeat: (health: Health) => void = () => {},
    private readonly chance: () => number = Math.random,
    private readonly onExpired: () => void = () => {},
  ) {}

  start(): void {
    if (this.started) return;
    this.started = true;
    this.open();
  }

  stop(): void {
    this.started = false;
    this.drop();
    this.become("connecting");
  }

  /** Connect now instead of at the end of the wait, because the gateway is there again. */
  hurry(): void {
    if (!this.started || this.wire) return;
    clearTimeout(this.retry);
    this.open();
  }

  subscribe(channel: Channel, params: Params, handlers: Handlers): () => void {
    const id = `s${this.nextId++}`;
    this.subscriptions.set(id, { channel, params, handlers });
    this.send({ op: "subscribe", id, channel, params });
    return () => {
      if (this.subscriptions.delete(id)) this.send({ op: "unsubscribe", id });
    };
  }

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  private open(): void {
    const wire = this.connect();
    this.wire = wire;
    this.retry = setTimeout(() => this.lost(), SILENCE_MAX_MS); // a connection that is not accepted
    wire.onopen = () => {
      clearTimeout(this.retry);
      this.failures = 0;
      this.noteArrival();
      this.become("open");
      for (const [id, { channel, params }] of this.subscriptions)
        this.send({ op: "subscribe", id, channel, params });
      this.looking = setInterval(() => this.look(), LOOK_EVERY_MS);
    };
    wire.onmessage = (event) => this.receive(event.data);
    wire.onclose = ({ code }) => {
      if (code === CLOSE_EXPIRED) this.onExpired();
      this.lost();
    };
  }

  private look(): void {
    if (Date.now() - this.receivedAt > SILENCE_MAX_MS) this.lost();
  }

  /** The wire is gone or silent: let go of it and try again, later each time, never all browsers at once. */
  private lost(): void {
    this.drop();
    if (!this.started) return;
    this.become("lost");
    const ceiling = Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** this.failures);
    this.failures = Math.min(this.failures + 1, 16);
    this.retry = setTimeout(() => this.open(), ceiling * (0.5 + this.chance() / 2));
  }

  private drop(): void {
    clearTimeout(this.retry);
    clearInterval(this.looking);
    const wire = this.wire;
    this.wire = null;
    if (!wire) return;
    wire.onopen = wire.onclose = wire.onmessage = null;
    wire.close();
  }

  private send(message: object): void {
    if (this.status === "open") this.wire?.send(JSON.stringify(message));
  }

  private receive(text: unknown): void {
    this.noteArrival();
    const message = parse(text);
    if (message && "op" in message) {
      if (message.op === "beat") this.onBeat(message);
      return;
    }
    const handlers = message && this.subscriptions.get(message.id)?.handlers;
    if (!message || !handlers) return; // Data that was on its way when we unsubscribed.
    if (message.error) handlers.error?.(message.error.reason);
    else handlers.data(message.data, message.at);
  }

  private noteArrival(): void {
    this.receivedAt = Date.now();
  }

  private become(status: SocketStatus): void {
    if (this.status === status) return;
    this.status = status;
    for (const watcher of this.watchers) watcher();
  }
}

type ServerMessage = Answer | ({ op: "beat" } & Health);

interface Answer {
  id: string;
  at: number;
  data?: unknown;
  error?: { reason: string };
}

function parse(text: unknown): ServerMessage | null {
  if (typeof text !== "string") return null;
  const message: unknown = JSON.parse(text);
  return typeof message === "object" && message !== null && ("id" in message || "op" in message)
    ? (message as ServerMessage)
    : null;
}

export const liveSocket = new LiveSocket(
  () => {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    return new WebSocket(`${scheme}//${location.host}/api/v1/live${ofPageCluster}`) as unknown as Wire;
  },
  (beat) => health.receive(beat),
  Math.random,
  notIdentified,
);
whenAnswered(() => liveSocket.hurry());
// A closed connection is the first sign of a gateway that ended: it is named before a beat is late.
liveSocket.watch(() => {
  if (liveSocket.status === "lost") health.socketLost();
});
