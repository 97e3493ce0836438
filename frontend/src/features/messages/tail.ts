import type { Message } from "../../shared/messages/message";
import type { TopicId } from "../../shared/topic/queries";
import type { TailSearch } from "./search";

/** Rows that are kept; older ones leave the list, and still count as shown. */
export const ROWS_MAX = 300;
const AGAIN_MS = 2_000;
const REFUSED = 4003;

export interface Counts {
  at: number;
  received: number;
  shown: number;
  filtered: number;
  passed_over: number;
  paused: boolean;
  /** Time since the end of the topic was reached; 0: it is. */
  behind_ms: number;
  problem: string | null;
}

export interface Tail {
  state: "connecting" | "open" | "lost" | "refused";
  since: number | null;
  partitions: number;
  counts: Counts | null;
  /** Newest first. */
  rows: Message[];
  /** The reason of the server for the end. */
  reason: string | null;
}

export const NOTHING: Tail = {
  state: "connecting",
  since: null,
  partitions: 0,
  counts: null,
  rows: [],
  reason: null,
};

/** The state after a message of the server. */
export function received(tail: Tail, text: string): Tail {
  const message = JSON.parse(text) as { op: string } & Record<string, unknown>;
  if (message.op === "open")
    return { ...tail, since: message.since as number, partitions: message.partitions as number };
  if (message.op !== "rows") return tail;
  const { rows, ...counts } = message as unknown as Counts & { rows: Message[] };
  return {
    ...tail,
    state: "open",
    reason: null,
    counts,
    rows: [...rows.reverse(), ...tail.rows].slice(0, ROWS_MAX),
  };
}

export function tailUrl(id: TopicId, search: TailSearch): string {
  const query = new URLSearchParams({
    cluster: id.cluster,
    topic: `${id.domain}://${id.tenant}/${id.namespace}/${id.topic}`,
  });
  for (const [name, value] of Object.entries(search)) if (value) query.set(name, value);
  return `${location.origin.replace(/^http/, "ws")}/api/v1/tail?${query}`;
}

/** The socket of a tail. After a loss it is opened again, and the counts begin at zero. */
export class TailSocket {
  private wire: WebSocket | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private tail: Tail = NOTHING;

  constructor(
    private readonly url: string,
    private readonly report: (tail: Tail) => void,
  ) {
    this.connect();
  }

  private connect(): void {
    const wire = new WebSocket(this.url);
    this.wire = wire;
    wire.onmessage = ({ data }) => this.set(received(this.tail, String(data)));
    wire.onclose = ({ code, reason }) => {
      if (code === REFUSED) return this.set({ ...this.tail, state: "refused", reason });
      this.set({ ...this.tail, state: "lost", reason: reason || null });
      this.timer = setTimeout(() => {
        this.set({ ...NOTHING, rows: [] });
        this.connect();
      }, AGAIN_MS);
    };
  }

  pause(isPaused: boolean): void {
    if (this.wire?.readyState === WebSocket.OPEN)
      this.wire.send(JSON.stringify({ op: isPaused ? "pause" : "resume" }));
  }

  close(): void {
    clearTimeout(this.timer);
    if (this.wire === null) return;
    this.wire.onclose = null;
    this.wire.onmessage = null;
    this.wire.close();
  }

  private set(tail: Tail): void {
    this.tail = tail;
    this.report(tail);
  }
}
