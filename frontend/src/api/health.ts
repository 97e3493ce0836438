import { useSyncExternalStore } from "react";
import { learnServerTime, serverTime } from "../lib/clock";
import { notIdentified } from "./not-identified";
import { ofPageCluster } from "./page-cluster";
import type { Health, Hop } from "./types";

// Freshness is that of the collector: `at` is the time of the last answers of all registered brokers and the metadata
// store. The socket sends it once a second (a beat); without beats it is requested by GET.

/** Time without a beat, which is due each second, after which the gateway is requested by GET. */
export const BEAT_LATE_MS = 1_200;
/** Time without an answer after which the gateway is late. Shown without emphasis: a busy machine is no fault. */
export const LATE_MS = 1_600;
/** Time after which the gateway does not answer; a refused connection counts at once. */
export const DOWN_MS = 5_000;
const LOOK_MS = 100;
/** An answer older by more than this is not late: the server's clock was set back. */
const CLOCK_SET_MS = 60_000;
/** A check later than this means that this page was busy, not that the gateway was silent. */
const OWN_DELAY_MS = 250;
/** Allowance for the delivery of a beat, and for the collector's own period in `at`. */
const ON_ITS_WAY_MS = 400;

export interface HealthView {
  /** The time at which the numbers were true, by the server's clock; null before the first answer. */
  at: number | null;
  stale: boolean;
  /** Age from which the cluster's numbers are stale. */
  lateMs: number;
  /** The parts with a problem; empty without any. */
  hops: readonly Hop[];
  /** Whether the gateway answered at least once. */
  begun: boolean;
}

/** The state of the instance's parts, from the last beat or answer and the time since. */
export class HealthWatch {
  view: HealthView = { at: null, stale: false, lateMs: 0, hops: [], begun: false };
  private last: Health | null = null;
  private receivedAt: number;
  private asking = false;
  private refused: string | null = null;
  private lookedAt = 0;
  private timer: ReturnType<typeof setInterval> | undefined;
  private readonly watchers = new Set<() => void>();

  constructor(
    private readonly ask: () => Promise<Health>,
    private readonly onAnswer: () => void = () => {},
  ) {
    this.receivedAt = Date.now();
  }

  start(): void {
    this.receivedAt = this.lookedAt = Date.now();
    this.timer ??= setInterval(() => this.look(), LOOK_MS);
  }

  stop(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  /** Ask the gateway at once, because its socket was closed: a gateway that ended refuses the connection. */
  socketLost(): void {
    if (this.timer !== undefined && !this.asking) this.poll();
  }

  /** Accept a beat of the socket or the answer to a GET. An older one does not replace a newer one. */
  receive(health: Health): void {
    this.receivedAt = Date.now();
    this.refused = null;
    if (this.last === null || health.now >= this.last.now || health.now < this.last.now - CLOCK_SET_MS) {
      learnServerTime(health.now);
      this.last = health;
    }
    this.publish();
  }

  private look(): void {
    const now = Date.now();
    const late = now - this.lookedAt - LOOK_MS;
    this.lookedAt = now;
    // Messages of this time are not handled yet, so the time in which this page could not receive does not count.
    if (late > OWN_DELAY_MS) this.receivedAt = Math.min(now, this.receivedAt + late);
    if (now - this.receivedAt > BEAT_LATE_MS && !this.asking) this.poll();
    this.publish();
  }

  private async poll(): Promise<void> {
    this.asking = true;
    try {
      const answer = await this.ask();
      this.receive(answer);
      this.onAnswer();
    } catch (error) {
      if (!(error instanceof NoAnswerYet))
        this.refused = error instanceof Error ? error.message : String(error);
      this.publish();
    } finally {
      this.asking = false;
    }
  }

  private publish(): void {
    const next = viewOf(this.last, this.receivedAt, this.refused, Date.now());
    if (same(this.view, next)) return;
    this.view = next;
    for (const watcher of this.watchers) watcher();
  }
}

/** A request that was not answered in time, which only means that the gateway is late. */
export class NoAnswerYet extends Error {}

/** The view of the last answer, received at `receivedAt`, at `now`; both by this machine's clock. */
export function viewOf(
  last: Health | null,
  receivedAt: number,
  refused: string | null,
  now: number,
  toServer: (local: number) => number = serverTime,
): HealthView {
  const at = last?.at ?? null;
  const silent = now - receivedAt;
  const isAway = silent > LATE_MS || refused !== null;
  const isDown = silent > DOWN_MS || refused !== null;
  return {
    at,
    begun: last !== null,
    lateMs: last?.late_ms ?? 0,
    stale:
      isAway ||
      last?.current === false ||
      (at === null ? last !== null : toServer(now) - at > (last?.late_ms ?? 0) + ON_ITS_WAY_MS),
    hops: isAway
      ? [gatewayAway(isDown, toServer(receivedAt), refused)] // the state of the parts behind it is unknown
      : (last?.hops.filter(({ state }) => state === "slow" || state === "down") ?? []),
  };
}

function gatewayAway(isDown: boolean, since: number, refused: string | null): Hop {
  return {
    hop: "gateway",
    id: location.host,
    state: isDown ? "down" : "slow",
    since,
    reason: refused ? `The gateway cannot be reached: ${refused}` : "The gateway does not answer",
    advice:
      "Nothing can be read or changed here until it answers; clients of the brokers are not affected. Check the gateway's process and log, or open the console of another gateway.",
  };
}

function same(one: HealthView, other: HealthView): boolean {
  return (
    one.at === other.at &&
    one.stale === other.stale &&
    one.lateMs === other.lateMs &&
    one.begun === other.begun &&
    JSON.stringify(one.hops) === JSON.stringify(other.hops)
  );
}

const ASK_TIMEOUT_MS = 1_500;

async function askGateway(of = ofPageCluster): Promise<Health> {
  let response: Response;
  try {
    response = await fetch(`/api/v1/health${of}`, { signal: AbortSignal.timeout(ASK_TIMEOUT_MS) });
  } catch (error) {
    if (error instanceof DOMException && error.name === "TimeoutError")
      throw new NoAnswerYet(`no answer within ${ASK_TIMEOUT_MS / 1000} s`);
    throw new Error("no connection", { cause: error });
  }
  if (response.status === 404 && of) return askGateway(""); // A cluster that is not served has no health.
  if (response.status === 401) {
    notIdentified();
    throw new NoAnswerYet("it needs credentials"); // It answers: who this is, is no question of health.
  }
  if (!response.ok) throw new Error(`it answers ${response.status}`);
  return (await response.json()) as Health;
}

let onAnswer = () => {};
export const health = new HealthWatch(
  () => askGateway(),
  () => onAnswer(),
);

/** Sets the reaction to a GET that was answered while the socket was silent: the gateway answers again. */
export function whenAnswered(run: () => void): void {
  onAnswer = run;
}

export function useHealth(): HealthView {
  return useSyncExternalStore(health.watch, () => health.view);
}

/** Whether all shown data is stale; rendered again only when that changes. */
export function useStale(): boolean {
  return useSyncExternalStore(health.watch, () => health.view.stale);
}

/** Calls `run` whenever a part answers again, so that failed requests are retried. */
export function whenPartReturns(watch: HealthWatch, run: () => void): void {
  let before = watch.view.hops;
  watch.watch(() => {
    const { hops } = watch.view;
    const isBack = before.some((old) => !hops.some(({ hop, id }) => hop === old.hop && id === old.id));
    before = hops;
    if (isBack) run();
  });
}
