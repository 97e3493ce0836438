// @vitest-environment jsdom
import { renderHook } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Run } from "../../../api/types";
import { shareOf, useMonotonicShare } from "./run-state";

function run(about: Partial<Run>): Run {
  return {
    id: "1",
    analysis: "topic_profile",
    title: "Topic profile",
    cluster: "standalone",
    kind: "topic",
    target: "",
    also_reads: [],
    parameters: {},
    state: "running",
    stage: "",
    cancelling: false,
    progress: { done: 0, total: 0 },
    attempt: 1,
    owner: "",
    rerun_of: null,
    schedule: null,
    pinned: false,
    output_url: null,
    created_at: 0,
    started_at: 0,
    finished_at: null,
    error: null,
    result: null,
    partial: null,
    downloads: [],
    ...about,
  };
}

test("the bar never goes back when a later stage plans more tasks, and starts over for another run", () => {
  const { result, rerender } = renderHook(({ at }: { at: Run }) => useMonotonicShare(at), {
    initialProps: { at: run({}) },
  });
  expect(result.current).toBeNull();
  rerender({ at: run({ progress: { done: 8, total: 10 } }) });
  expect(result.current).toBe(0.8);
  rerender({ at: run({ progress: { done: 9, total: 40 } }) });
  expect(result.current).toBe(0.8);
  rerender({ at: run({ id: "2", progress: { done: 1, total: 10 } }) });
  expect(result.current).toBe(0.1);
});

test("a share is unknown until tasks are planned, and full only when the run succeeded", () => {
  expect(shareOf(run({ progress: { done: 0, total: 0 } }))).toBeNull();
  expect(shareOf(run({ progress: { done: 12, total: 10 } }))).toBe(1);
  expect(shareOf(run({ state: "succeeded" }))).toBe(1);
});
