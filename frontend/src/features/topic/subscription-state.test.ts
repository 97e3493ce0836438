import { expect, test } from "vitest";
import type { Lag, SubscriptionRow } from "../../api/types";
import { heldUp, subscriptionState, summaryOf } from "./subscription-state";

const lag: Lag = {
  cause: "no-consumer",
  severity: "error",
  title: "has no consumer",
  detail: "",
  advice: "",
  since: 0,
  at_least: false,
};
const idle = { lag: null, backlog: 0, backlog_messages: 0, net_rate: 0, msg_rate_out: 0, unacked: 0 };
const labelOf = (more: Partial<SubscriptionRow>) =>
  subscriptionState({ ...idle, backlog_messages: more.backlog ?? 0, ...more }).label;

test("only brokers report causes: a growing or constant backlog is none", () => {
  for (const net_rate of [0, 40])
    for (const msg_rate_out of [0, 12]) {
      const state = subscriptionState({ ...idle, backlog: 6, backlog_messages: 6, net_rate, msg_rate_out });
      expect(["ok", "neutral"]).toContain(state.tone);
    }
  expect(subscriptionState({ ...idle, backlog: 6, backlog_messages: 6, lag })).toMatchObject({
    tone: "bad",
    label: "No consumer",
  });
});

test("the cause is shown although the backlog shrinks for a moment", () => {
  expect(labelOf({ lag, backlog: 600, net_rate: -60 })).toBe("No consumer");
});

test("without a cause the state is the expected end of the backlog, or the activity", () => {
  expect(labelOf({})).toBe("Caught up");
  expect(labelOf({ backlog: 600, net_rate: -5 })).toBe("Empty in 2 min");
  expect(labelOf({ backlog: 60, msg_rate_out: 12 })).toBe("Active");
  expect(labelOf({ backlog: 6 })).toBe("Waiting");
});

test("a subscription without backlog has one state, whatever is in flight", () => {
  const moments = [
    { backlog: 0, msg_rate_out: 0 },
    { backlog: 1, unacked: 1 },
    { backlog: 20, unacked: 0, msg_rate_out: 20, net_rate: 1 },
    { backlog: 0, unacked: 0, msg_rate_out: 18, net_rate: -1 },
  ];
  expect(moments.map(labelOf)).toEqual(moments.map(() => "Caught up"));
});

test("a growing backlog is not green before the broker reports a cause", () => {
  const growing = {
    ...idle,
    backlog: 2_400,
    backlog_messages: 2_400,
    net_rate: 1.8,
    msg_rate_out: 12,
    unacked: 5,
  };
  expect(subscriptionState(growing)).toMatchObject({ tone: "neutral", label: "Growing" });
});

test("with its topic in trouble an empty backlog is not green", () => {
  expect(subscriptionState(idle, true)).toMatchObject({ tone: "neutral", label: "Caught up" });
  expect(subscriptionState(idle).tone).toBe("ok");
});

test("delayed messages are not a standstill", () => {
  const rows = [
    { name: "a", lag },
    { name: "b", lag: { ...lag, cause: "delayed", severity: "info" } },
    { name: "c", lag: null },
  ] as SubscriptionRow[];
  expect(heldUp(rows).map(({ name }) => name)).toEqual(["a"]);
});

test("pending and delivered messages are compared in messages, not in entries", () => {
  expect(labelOf({ backlog: 212, backlog_messages: 60_000, unacked: 300 })).toBe("Waiting");
  expect(labelOf({ backlog: 2, backlog_messages: 300, unacked: 300 })).toBe("Caught up");
});

test("the summary counts subscriptions by state, most frequent first", () => {
  const row = (more: Partial<SubscriptionRow>) => ({ ...idle, ...more }) as SubscriptionRow;
  const growing = row({ backlog: 6, backlog_messages: 6, net_rate: 4 });
  expect(summaryOf([])).toBe("No subscription reads this topic");
  expect(summaryOf([growing])).toBe("1 subscription: growing");
  expect(summaryOf([row({}), row({})])).toBe("2 subscriptions: all caught up");
  expect(summaryOf([growing, row({}), row({})])).toBe("3 subscriptions: 2 caught up, 1 growing");
});
