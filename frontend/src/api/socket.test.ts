import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { FrameBatch } from "./frames";
import {
  BACKOFF_FIRST_MS,
  BACKOFF_MAX_MS,
  LiveSocket,
  LOOK_EVERY_MS,
  SILENCE_MAX_MS,
  type Wire,
} from "./socket";

/** The browser's end of a connection, played by the test. */
class TestWire implements Wire {
  onopen: (() => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  sent: Record<string, unknown>[] = [];
  closed = false;
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.closed = true;
  }
  deliver(message: object) {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

let wires: TestWire[];
let socket: LiveSocket;
let beats: object[];
const latest = () => {
  const wire = wires.at(-1);
  if (!wire) throw new Error("nothing was connected");
  return wire;
};

beforeEach(() => {
  vi.useFakeTimers();
  wires = [];
  beats = [];
  socket = new LiveSocket(
    () => {
      const wire = new TestWire();
      wires.push(wire);
      return wire;
    },
    (beat) => beats.push(beat),
    () => 1, // the longest delay of each step
  );
  socket.start();
});

afterEach(() => {
  socket.stop();
  vi.useRealTimers();
});

describe("the live socket", () => {
  test("a subscription made before the connection is sent when it opens, once", () => {
    socket.subscribe("topic", { topic: "hello" }, { data: () => {} });
    expect(latest().sent).toEqual([]);
    latest().onopen?.();
    expect(latest().sent).toEqual([
      { op: "subscribe", id: "s1", channel: "topic", params: { topic: "hello" } },
    ]);
  });

  test("data reaches its own subscriber only, and none after it left", () => {
    const first = vi.fn();
    const second = vi.fn();
    socket.subscribe("overview", {}, { data: first });
    const leave = socket.subscribe("topics", {}, { data: second });
    latest().onopen?.();
    latest().deliver({ id: "s2", channel: "topics", at: 5, data: { total: 1 } });
    expect(first).not.toHaveBeenCalled();
    expect(second).toHaveBeenCalledExactlyOnceWith({ total: 1 }, 5);
    leave();
    expect(latest().sent.at(-1)).toEqual({ op: "unsubscribe", id: "s2" });
    latest().deliver({ id: "s2", at: 6, data: {} });
    expect(second).toHaveBeenCalledOnce();
  });

  test("a refused subscription reports its reason", () => {
    const error = vi.fn();
    socket.subscribe("topic", { topic: "nope" }, { data: () => {}, error });
    latest().onopen?.();
    latest().deliver({ id: "s1", error: { reason: "no such topic" } });
    expect(error).toHaveBeenCalledWith("no such topic");
  });

  test("a dropped connection comes back with every live subscription", () => {
    const states: string[] = [];
    socket.watch(() => states.push(socket.status));
    const leave = socket.subscribe("overview", {}, { data: () => {} });
    socket.subscribe("run", { id: "7" }, { data: () => {} });
    latest().onopen?.();
    leave();
    latest().onclose?.({ code: 1006 });
    vi.advanceTimersByTime(250);
    expect(wires.length).toBe(2);
    latest().onopen?.();
    expect(latest().sent).toEqual([{ op: "subscribe", id: "s2", channel: "run", params: { id: "7" } }]);
    expect(states).toEqual(["open", "lost", "open"]);
  });

  test("waits longer after each failure, up to a bound, and starts over after a success", () => {
    const waits: number[] = [];
    for (let attempt = 0; attempt < 8; attempt++) {
      const before = Date.now();
      const count = wires.length;
      latest().onclose?.({ code: 1006 });
      while (wires.length === count) vi.advanceTimersByTime(50);
      waits.push(Date.now() - before);
    }
    expect(waits).toEqual([250, 500, 1000, 2000, 3000, 3000, 3000, 3000]);
    expect(Math.max(...waits)).toBe(BACKOFF_MAX_MS);
    latest().onopen?.();
    latest().onclose?.({ code: 1006 });
    const count = wires.length;
    vi.advanceTimersByTime(250);
    expect(wires.length).toBe(count + 1);
  });

  test("closes a silent connection, and one that is not accepted", () => {
    latest().onopen?.();
    const silent = latest();
    vi.advanceTimersByTime(SILENCE_MAX_MS + LOOK_EVERY_MS + BACKOFF_FIRST_MS);
    expect(silent.closed).toBe(true);
    expect(wires.length).toBe(2);
    const untaken = latest();
    vi.advanceTimersByTime(SILENCE_MAX_MS);
    expect(untaken.closed).toBe(true);
  });

  test("beats keep the connection, and are reported", () => {
    latest().onopen?.();
    for (let second = 0; second < 60; second++) {
      vi.advanceTimersByTime(1000);
      latest().deliver({ op: "beat", now: second, at: second, hops: [] });
    }
    expect(wires.length).toBe(1);
    expect(socket.status).toBe("open");
    expect(beats.length).toBe(60);
    expect(beats.at(-1)).toMatchObject({ now: 59, at: 59, hops: [] });
  });

  test("hurried, it connects at once instead of at the end of its wait, and once", () => {
    latest().onopen?.();
    socket.hurry();
    expect(wires.length).toBe(1);
    latest().onclose?.({ code: 1006 });
    socket.hurry();
    socket.hurry();
    expect(wires.length).toBe(2);
    vi.advanceTimersByTime(BACKOFF_MAX_MS);
    expect(wires.length).toBe(2);
  });

  test("stopping closes the wire and reconnects no more", () => {
    latest().onopen?.();
    const wire = latest();
    socket.stop();
    expect(wire.closed).toBe(true);
    vi.advanceTimersByTime(60_000);
    expect(wires.length).toBe(1);
  });
});

test("a burst for one key costs one write, the newest, in the next frame", () => {
  const frames: (() => void)[] = [];
  const batch = new FrameBatch((run) => frames.push(run));
  const written: string[] = [];
  for (let n = 0; n < 50; n++) batch.put("a", () => written.push(`a${n}`));
  batch.put("b", () => written.push("b"));
  expect(frames.length).toBe(1);
  frames[0]?.();
  expect(written).toEqual(["a49", "b"]);
  batch.put("a", () => written.push("again"));
  expect(frames.length).toBe(2);
});
