import { expect, test } from "vitest";
import { clusterOf } from "./page-cluster";

test("the cluster of a page is that of its address", () => {
  expect(clusterOf("/c/west/topics")).toBe("west");
  expect(clusterOf("/c/a%3Ab")).toBe("a:b");
  expect(clusterOf("/analyses/c/west")).toBeUndefined();
  expect(clusterOf("/")).toBeUndefined();
  expect(clusterOf("/c/%ff/topics")).toBeUndefined();
});
