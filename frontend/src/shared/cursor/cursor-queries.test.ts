// @vitest-environment jsdom
import { expect, test, vi } from "vitest";
import { previewCursor } from "./cursor-queries";

test("a topic's name is one path segment, whatever its characters", async () => {
  const fetch = vi.fn(async (_request: Request) => new Response("{}"));
  vi.stubGlobal("fetch", fetch);
  const id = {
    cluster: "c/1",
    domain: "persistent" as const,
    tenant: "a",
    namespace: "b",
    topic: "x/../y%2F?#",
  };
  await previewCursor(id, "s/1", "skip", { count: 1 });
  expect(new URL(fetch.mock.calls[0]?.[0].url ?? "").pathname).toBe(
    "/api/v1/clusters/c%2F1/topics/persistent/a/b/x%2F..%2Fy%252F%3F%23/subscriptions/s%2F1/skip",
  );
  vi.unstubAllGlobals();
});
