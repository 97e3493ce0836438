import { useSyncExternalStore } from "react";
import { learnServerTime, serverTime } from "../lib/clock";
import { notIdentified } from "./not-identified";
import { ofPageCluster } from "./page-cluster";
import type { Health, Hop } from "./types";

// Freshness is the collector's: `at` is when every registered broker and the metadata store were last heard. The
// socket tells it once a second; while it says nothing, the same is asked by GET.

/** Numbers older than this are stale. */
export const STALE_MS = 2_000;
/** Without a beat, which is due each second, for so long, the gateway is asked. */
export const BEAT_LATE_MS = 1_200;
/** Without an answer to that, either, the gateway is late after so long: said quietly, for a busy machine is no fault. */
export const LATE_MS = 1_600;
/** And it does not answer after so long, or as soon as a connection is refused. */
export const DOWN_MS = 5_000;
const LOOK_MS = 100;
/** An answer that is older by more than this is no late one: the server's clock was set back. */
const CLOCK_SET_MS = 60_000;
/** A look that comes so much too late says that this page was busy, not that the gateway was silent. */
const OWN_DELAY_MS = 250;
/** A beat takes a moment to come, and the collector's own period lies in `at`. */
const ON_ITS_WAY_MS = 400;

export interface HealthView {
  /** When the numbers were true, by the server's clock; null before the first answer. */
  at: number | null;
  stale: boolean;
  /** What is not well; empty while all is. */
  hops: readonly Hop[];
  /** Whether the gateway answered at least once. */
  begun: boolean;
}

/** What is known of the instance's parts, from the last beat or answer and the time since. */
export class HealthWatch {
  view: HealthView = { at: null, stale: false, hops: [], begun: false };
  private last: Health | null = null;
  private heardAt: number;
  private asking = false;
  private refused: string | null = null;
  private lookedAt = 0;
  private timer: ReturnType<typeof setInterval> | undefined;
  private readonly watchers = new Set<() => void>();

  constructor(
    private readonly ask: () => Promise<Health>,
    private readonly onAnswer: () => void = () => {},
  ) {
    this.heardAt = Date.now();
  }

  start(): void {
    this.heardAt = this.lookedAt = Date.now();
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

  /** A beat of the socket, or the answer to a GET. One that was made before what is known does not replace it. */
  heard(health: Health): void {
    this.heardAt = Date.now();
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
    // What came meanwhile still waits to be taken in: the time in which nothing could be received does not count.
    if (late > OWN_DELAY_MS) this.heardAt = Math.min(now, this.heardAt + late);
    if (now - this.heardAt > BEAT_LATE_MS && !this.asking) this.poll();
    this.publish();
  }

  private async poll(): Promise<void> {
    this.asking = true;
    try {
      const answer = await this.ask();
      this.heard(answer);
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
    const next = viewOf(this.last, this.heardAt, this.refused, Date.now());
    if (same(this.view, next)) return;
    this.view = next;
    for (const watcher of this.watchers) watcher();
  }
}

/** A question that was not answered in time: that the gateway is late is all it says. */
export class NoAnswerYet extends Error {}

/** What the last answer, heard at `heardAt`, says at `now`; both by this machine's clock. */
export function viewOf(
  last: Health | null,
  heardAt: number,
  refused: string | null,
  now: number,
  toServer: (local: number) => number = serverTime,
): HealthView {
  const at = last?.at ?? null;
  const silent = now - heardAt;
  const isAway = silent > LATE_MS;
  const isDown = silent > DOWN_MS || refused !== null;
  return {
    at,
    begun: last !== null,
    stale: isAway || (at === null ? last !== null : toServer(now) - at > STALE_MS + ON_ITS_WAY_MS),
    hops: isAway
      ? [gatewayAway(isDown, toServer(heardAt), refused)] // nothing is known of those behind it
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

/** What to do when a GET was answered while the socket said nothing: the gateway is there again. */
export function whenAnswered(run: () => void): void {
  onAnswer = run;
}

export function useHealth(): HealthView {
  return useSyncExternalStore(health.watch, () => health.view);
}

/** Whether nothing that is shown is current; drawn again only when that changes. */
export function useStale(): boolean {
  return useSyncExternalStore(health.watch, () => health.view.stale);
}

/** Calls `run` whenever a part is there again: what failed meanwhile is worth another try. */
export function whenPartReturns(watch: HealthWatch, run: () => void): void {
  let before = watch.view.hops;
  watch.watch(() => {
    const { hops } = watch.view;
    const isBack = before.some((old) => !hops.some(({ hop, id }) => hop === old.hop && id === old.id));
    before = hops;
    if (isBack) run();
  });
}
