// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { HealthWatch, NoAnswerYet, whenPartReturns } from "./health";
import type { Health, Hop } from "./types";

const START = 1_800_000_000_000;
const store: Hop = {
  hop: "store",
  id: "",
  state: "down",
  since: START,
  reason: "It does not answer",
  advice: "Start it",
};

/** A gateway's GET, played by the test. */
class Gateway {
  asked = 0;
  answer: (() => Promise<Health>) | null = null;
  ask = (): Promise<Health> => {
    this.asked += 1;
    return this.answer ? this.answer() : new Promise(() => {});
  };
}

let gateway: Gateway;
let watch: HealthWatch;
const beat = (age = 300, hops: Hop[] = []): Health => ({
  now: Date.now(),
  at: Date.now() - age,
  late_ms: 2_000,
  current: true,
  hops,
});
/** Seconds in which a beat comes each second. */
async function beats(seconds: number, age: (second: number) => number = () => 300) {
  for (let second = 0; second < seconds; second++) {
    watch.receive(beat(age(second)));
    await vi.advanceTimersByTimeAsync(1_000);
  }
}

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  gateway = new Gateway();
  watch = new HealthWatch(gateway.ask);
  watch.start();
});

afterEach(() => {
  watch.stop();
  vi.useRealTimers();
});

describe("freshness", () => {
  test("while beats arrive, numbers are live, and the gateway is not requested", async () => {
    await beats(60, (second) => 100 + (second % 10) * 90);
    expect(watch.view).toMatchObject({ stale: false, hops: [] });
    expect(gateway.asked).toBe(0);
  });

  test("the collector's time decides: beats that bring an old one make the numbers stale", async () => {
    await beats(3);
    const at = watch.view.at;
    for (let second = 1; second <= 3; second++) {
      watch.receive({ now: Date.now(), at, late_ms: 2_000, current: true, hops: [] });
      await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(watch.view).toMatchObject({ stale: true, at, hops: [] });
    watch.receive(beat());
    expect(watch.view.stale).toBe(false);
  });

  test("without any answer the gateway is late within 2 s, and does not answer after 5 s", async () => {
    await beats(3);
    await vi.advanceTimersByTimeAsync(500);
    expect(watch.view.hops).toEqual([]);
    await vi.advanceTimersByTimeAsync(300);
    expect(watch.view.stale).toBe(true);
    expect(watch.view.hops).toMatchObject([{ hop: "gateway", state: "slow" }]);
    await vi.advanceTimersByTimeAsync(2_900);
    expect(watch.view.hops).toMatchObject([{ state: "slow" }]);
    await vi.advanceTimersByTimeAsync(700);
    expect(watch.view.hops).toMatchObject([
      { hop: "gateway", state: "down", reason: "The gateway does not answer" },
    ]);
    expect(gateway.asked).toBe(1);
    watch.receive(beat());
    expect(watch.view).toMatchObject({ stale: false, hops: [] });
  });

  test("a request that is not answered in time is no refusal", async () => {
    gateway.answer = () => Promise.reject(new NoAnswerYet("no answer within 1.5 s"));
    watch.receive(beat());
    await vi.advanceTimersByTimeAsync(4_500);
    expect(watch.view.hops).toMatchObject([{ hop: "gateway", state: "slow" }]);
  });

  test("a page that was too busy to receive reports no part", async () => {
    await beats(2);
    for (let starved = 0; starved < 10; starved++) {
      vi.setSystemTime(Date.now() + 8_000); // its timers come 8 s late
      await vi.advanceTimersByTimeAsync(100);
      expect(watch.view.hops).toEqual([]);
      watch.receive(beat());
      await vi.advanceTimersByTimeAsync(900);
      expect(watch.view).toMatchObject({ stale: false, hops: [] });
    }
  });

  test("a beat that is older than a polled answer does not replace it", async () => {
    const older = beat();
    await vi.advanceTimersByTimeAsync(500);
    watch.receive(beat(300, [store]));
    await vi.advanceTimersByTimeAsync(500);
    watch.receive(older);
    expect(watch.view.hops).toEqual([store]);
    watch.receive(beat());
    expect(watch.view.hops).toEqual([]);
    vi.setSystemTime(START - 3_600_000); // the server's clock was set back
    watch.receive(beat(300, [store]));
    expect(watch.view.hops).toEqual([store]);
  });

  test("a lost socket alone is no fault: the GET returns the same, and reports its answer", async () => {
    const answered = vi.fn();
    watch.stop();
    watch = new HealthWatch(gateway.ask, answered);
    watch.start();
    gateway.answer = async () => beat(100);
    watch.receive(beat());
    await vi.advanceTimersByTimeAsync(20_000);
    expect(watch.view).toMatchObject({ stale: false, hops: [] });
    expect(gateway.asked).toBeGreaterThan(10);
    expect(answered).toHaveBeenCalled();
  });

  test("a beat that is late is no fault while the gateway answers", async () => {
    gateway.answer = async () => beat(100);
    for (let second = 0; second < 10; second++) {
      watch.receive(beat());
      await vi.advanceTimersByTimeAsync(1_900);
      expect(watch.view).toMatchObject({ stale: false, hops: [] });
    }
    expect(gateway.asked).toBe(10);
  });

  test("a refused connection is said by its reason", async () => {
    gateway.answer = () => Promise.reject(new Error("no connection"));
    watch.receive(beat());
    await vi.advanceTimersByTimeAsync(2_500);
    expect(watch.view.hops[0]?.reason).toBe("The gateway cannot be reached: no connection");
  });

  test("a gateway that ended is missing as soon as the socket is closed", async () => {
    gateway.answer = () => Promise.reject(new Error("no connection"));
    await beats(2);
    watch.receive(beat());
    watch.socketLost();
    await vi.advanceTimersByTimeAsync(0);
    expect(watch.view).toMatchObject({ stale: true, hops: [{ hop: "gateway", state: "down" }] });
    watch.receive(beat());
    expect(watch.view).toMatchObject({ stale: false, hops: [] });
  });

  test("a socket that is closed while the gateway answers is no fault", async () => {
    gateway.answer = async () => beat(100);
    watch.receive(beat());
    watch.socketLost();
    await vi.advanceTimersByTimeAsync(0);
    expect(gateway.asked).toBe(1);
    expect(watch.view).toMatchObject({ stale: false, hops: [] });
  });

  test("numbers are stale with the message that their broker is down, however recent they are", async () => {
    const broker: Hop = { ...store, hop: "broker", id: "b:1" };
    watch.receive({ ...beat(100, [broker]), current: false });
    expect(watch.view).toMatchObject({ stale: true, hops: [broker] });
    watch.receive(beat());
    expect(watch.view.stale).toBe(false);
  });

  test("before the first answer numbers are neither live nor stale, and after 5 s the gateway is missing", async () => {
    expect(watch.view).toMatchObject({ begun: false, stale: false, hops: [] });
    await vi.advanceTimersByTimeAsync(5_200);
    expect(watch.view.hops).toMatchObject([{ hop: "gateway", state: "down" }]);
  });
});

test("hops are shown while they have a problem, and their recovery is reported once", async () => {
  const run = vi.fn();
  whenPartReturns(watch, run);
  watch.receive(beat(300, [store, { ...store, hop: "redis", state: "ok" }]));
  expect(watch.view.hops).toEqual([store]);
  watch.receive(beat(900, [store]));
  expect(run).not.toHaveBeenCalled();
  watch.receive(beat(300));
  expect(watch.view.hops).toEqual([]);
  watch.receive(beat(300));
  expect(run).toHaveBeenCalledOnce();
});
