import { expect, test } from "vitest";
import { nextPlace } from "./next-place";

const ORIGIN = "https://console.example:8443";
const next = (wanted: string | undefined) => nextPlace(wanted, ORIGIN);

test("a path of the console is restored with its filters", () => {
  const place = "/c/standalone/topics?q=a%20b&sort=-backlog#top";
  expect(next(place)).toBe(place);
});

test("nothing leads to another origin", () => {
  for (const wanted of [
    undefined,
    "",
    "topics",
    "https://evil.example/",
    "//evil.example/",
    "///evil.example/",
    "/\\evil.example/",
    "/\t/evil.example/",
    "/\n/evil.example",
    "\\\\evil.example",
    "javascript:alert(1)",
  ])
    expect(next(wanted), String(wanted)).toBe("/");
  expect(next("/..//evil.example/")).toBe("/");
});

test("the sign-in page does not lead to itself", () => {
  expect(next("/sign-in?next=%2Fsign-in")).toBe("/");
  expect(next("/sign-in")).toBe("/");
  expect(next("/sign-ins")).toBe("/sign-ins");
});
