// @vitest-environment jsdom
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import type { HealthView } from "../api/health";
import type { Hop } from "../api/types";
import { StatusLine } from "./status-line";

const AT = 1_800_000_000_000;
let view: HealthView;
vi.mock("../api/health", () => ({ useHealth: () => view }));
vi.mock("../api/live", () => ({ useFeedFailure: () => null }));
vi.mock("../lib/clock", () => ({ useServerNow: () => AT + 1_000 }));
afterEach(cleanup);

const hop = (state: Hop["state"], id = "b:1"): Hop => ({
  hop: "broker",
  id,
  state,
  since: AT,
  reason: `Broker ${id} has not reported for 2 s`,
  advice: "See that its process runs.",
});
function shown(hops: Hop[], more: Partial<HealthView> = {}) {
  view = { at: AT, stale: false, begun: true, lateMs: 2_000, hops, ...more };
  return render(<StatusLine />).container;
}

test("a part that is late is a few words: no sentence, no advice, nothing to press, nothing announced", () => {
  const line = shown([hop("slow")]);
  expect(line.textContent).toContain("Broker b:1 is late");
  expect(line.textContent).not.toMatch(/has not reported|See that/);
  expect(screen.queryByRole("button")).toBeNull();
  expect(screen.getByRole("status").textContent).toBe("All parts answer");
});

test("a part that is down is said in full, and late ones are not counted with it", () => {
  const line = shown([hop("slow"), hop("down", "b:2")]);
  expect(line.textContent).toContain("Broker b:2 has not reported for 2 s");
  expect(line.textContent).not.toContain("more");
  expect(screen.getByRole("button", { name: "What to do" })).toBeTruthy();
  expect(screen.getByRole("status").textContent).toMatch(/^Broker b:2 does not answer/);
});

test("numbers without a time are not live", () => {
  expect(shown([], { at: null, stale: true }).textContent).toContain("Stale · no numbers yet");
});
