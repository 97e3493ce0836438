// @vitest-environment jsdom
import { expect, test } from "vitest";
import { urlsOfListeners } from "./addresses";

const row = (listener: string, url: string) => ({ broker: "b", listener, url, problem: "" });

test("each listener has a service URL of all brokers for each scheme", () => {
  expect(
    urlsOfListeners([
      row("outer", "pulsar://a:1"),
      row("outer", "pulsar+ssl://a:2"),
      row("inner", "pulsar://a:3"),
      row("outer", "pulsar://b:1"),
    ]),
  ).toEqual([
    { listener: "outer", url: "pulsar://a:1,b:1" },
    { listener: "outer", url: "pulsar+ssl://a:2" },
    { listener: "inner", url: "pulsar://a:3" },
  ]);
});

test("addresses without a listener are those of the instance", () => {
  expect(urlsOfListeners([row("", "pulsar://a:1")])).toEqual([]);
});
