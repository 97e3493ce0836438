import { expect, test } from "vitest";
import { addressIn, clusterOf } from "./page-cluster";

test("the cluster of a page is that of its address", () => {
  expect(clusterOf("/c/west/topics")).toBe("west");
  expect(clusterOf("/c/a%3Ab")).toBe("a:b");
  expect(clusterOf("/analyses/c/west")).toBeUndefined();
  expect(clusterOf("/")).toBeUndefined();
  expect(clusterOf("/c/%ff/topics")).toBeUndefined();
});

test("a page outside of a cluster's paths names its cluster in the query", () => {
  expect(clusterOf("/analyses", "?q=a&cluster=west")).toBe("west");
  expect(clusterOf("/analyses", "?cluster=")).toBeUndefined();
  expect(clusterOf("/c/west/topics", "?cluster=east")).toBe("west");
});

test("the address of a page in another cluster has the same path, filters and tab", () => {
  const at = (pathname: string, search = "") => addressIn("a:b", { pathname, search });
  expect(at("/c/west/topics", "?sort=-backlog")).toBe("/c/a%3Ab/topics?sort=-backlog");
  expect(at("/c/west/t/public/default/$1/schema")).toBe("/c/a%3Ab/t/public/default/$1/schema");
  expect(at("/", "?range=3600")).toBe("/?range=3600&cluster=a%3Ab");
  expect(at("/connect", "?cluster=west")).toBe("/connect?cluster=a%3Ab");
});
