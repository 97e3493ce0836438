// @vitest-environment jsdom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Environment, Hop } from "../api/types";
import { ClusterSwitch } from "./cluster-switch";

afterEach(cleanup);

const broker = (state: Hop["state"]): Hop => ({
  hop: "broker",
  id: "b:1",
  state,
  since: 0,
  reason: "Broker b:1 does not answer",
  advice: "See that its process runs.",
});

function shown(served: string[], hops: Record<string, Hop[]> = {}) {
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY } } });
  for (const name of served)
    queries.setQueryData(["health", name], { now: 0, at: 0, hops: hops[name] ?? [broker("ok")] });
  const environment = { cluster: served[0], served } as unknown as Environment;
  return render(
    <QueryClientProvider client={queries}>
      <ClusterSwitch environment={environment} />
    </QueryClientProvider>,
  ).container;
}

test("a single cluster is a name, and nothing to choose from", () => {
  expect(shown(["standalone"]).textContent).toBe("standalone");
  expect(screen.queryByRole("combobox")).toBeNull();
});

test("several clusters are a list with the one of the page", () => {
  shown(["us", "eu", "ap"]);
  const list = screen.getByRole("combobox", { name: "Cluster" }) as HTMLSelectElement;
  expect(list.value).toBe("us");
  expect([...list.options].map(({ text }) => text)).toEqual(["us", "eu", "ap"]);
  expect(screen.queryByRole("link")).toBeNull();
});

test("another cluster with a part that does not answer is named, with the part", () => {
  const redis: Hop = { ...broker("down"), hop: "redis", id: "" };
  shown(["us", "eu", "ap"], { eu: [broker("down")], ap: [broker("slow"), redis] });
  const list = screen.getByRole("combobox") as HTMLSelectElement;
  expect([...list.options].map(({ text }) => text)).toEqual(["us", "eu: a broker does not answer", "ap"]);
  expect(screen.getByRole("link", { name: "eu" }).getAttribute("href")).toBe("/?cluster=eu");
});

test("another cluster without a broker is named: one that was stopped is no part any more", () => {
  shown(["us", "eu", "ap"], { eu: [{ ...broker("ok"), hop: "store", id: "" }], ap: [] });
  expect(screen.queryByRole("link", { name: "ap" })).toBeNull();
  expect(screen.getByRole("link", { name: "eu" }).title).toBe("eu: no broker is registered");
});
