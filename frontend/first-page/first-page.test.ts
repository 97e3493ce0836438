// @vitest-environment jsdom
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { forgetFirstAnswer, takeFirstAnswer } from "../src/api/first-answer";
import { FUNCTION_LIST } from "../src/features/functions/model/function-queries";
import { DEFAULT_SORT as FUNCTION_SORT } from "../src/features/functions/model/function-words";
import { DEFAULT_SORT as SUBSCRIPTION_SORT } from "../src/features/subscriptions/columns";
import { SUBSCRIPTION_LIST } from "../src/features/subscriptions/queries";
import { TOPIC_LIST } from "../src/features/topics/queries";
import { DEFAULT_SORT } from "../src/features/topics/search";
import { filesOfPages, startScript } from "./plugin";

const ROWS = '{"total":0,"offset":0,"limit":100,"rows":[]}';
let requests: string[] = [];

beforeEach(() => {
  requests = [];
  vi.stubGlobal("fetch", async (request: Request | string) => {
    requests.push(typeof request === "string" ? request : request.url);
    return new Response(ROWS);
  });
});
afterEach(() => {
  forgetFirstAnswer();
  document.head.replaceChildren();
  vi.unstubAllGlobals();
});

function load(address: string, pages: Parameters<typeof startScript>[0] = []): void {
  history.replaceState(null, "", address);
  new Function(startScript(pages))();
}

const signal = new AbortController().signal;
const sub = { cluster: "c", sort: SUBSCRIPTION_SORT };
test.each([
  ["topics", () => TOPIC_LIST.read({ cluster: "c", sort: DEFAULT_SORT }, 0, signal)],
  ["subscriptions", () => SUBSCRIPTION_LIST.read(sub, 0, signal)],
  ["functions", () => FUNCTION_LIST.read({ cluster: "c", sort: FUNCTION_SORT }, 0, signal)],
])("the first rows of %s are requested once, while the code is fetched", async (page, read) => {
  load(`/c/c/${page}`);
  expect(requests).toHaveLength(1);
  expect((await read()).rows).toEqual([]);
  expect(requests).toHaveLength(1);
  await read();
  expect(requests).toHaveLength(2);
  expect(requests[1]).toBe(requests[0]);
});

test("a filter, another page and a topic's page request nothing early", () => {
  for (const address of [
    "/c/c/topics?q=a",
    "/c/c/brokers",
    "/c/c/clients",
    "/c/c/t/a/b/c/overview",
    "/",
    "/c/c/toString",
  ])
    load(address);
  expect(requests).toEqual([]);
});

test("an error is reported by a request of its own, and another viewer does not get the answer", async () => {
  const url = new URL("/api/v1/clusters/c/topics", location.origin).href;
  window.firstAnswer = { url, answer: Promise.resolve(new Response("", { status: 401 })) };
  expect(await takeFirstAnswer(new Request(url))).toBeNull();
  window.firstAnswer = { url, answer: Promise.reject(new Error("away")) };
  expect(await takeFirstAnswer(new Request(url))).toBeNull();
  window.firstAnswer = { url, answer: Promise.resolve(new Response(ROWS)) };
  forgetFirstAnswer();
  expect(await takeFirstAnswer(new Request(url))).toBeNull();
});

test("the code of the page in the address is fetched at once, and of no other", () => {
  load("/c/c/topics", [
    ["^/$", ["/static/overview.js"]],
    ["^/c/[^/]+/topics$", ["/static/topics.js", "/static/lists.js"]],
  ]);
  const links = [...document.head.querySelectorAll("link")];
  expect(links.map(({ rel, href }) => [rel, new URL(href).pathname])).toEqual([
    ["modulepreload", "/static/topics.js"],
    ["modulepreload", "/static/lists.js"],
  ]);
});

test("the files of a page are its chunk and what that imports, without the shell's", () => {
  const modules = (folder: string, ...pages: string[]) =>
    pages.map((page) => `/src/features/${folder}/${page}.tsx`);
  const entry = { fileName: "index.js", imports: ["rolldown.js"] };
  const chunk = (fileName: string, moduleIds: string[], imports = ["index.js", "shared.js"]) => ({
    fileName,
    imports,
    moduleIds,
  });
  const chunks = [
    entry,
    chunk("overview.js", modules("overview", "overview-page")),
    chunk("topics.js", modules("topics", "topics-page"), ["lists.js", "index.js"]),
    chunk("subscriptions.js", modules("subscriptions", "subscriptions-page")),
    chunk("clients.js", modules("clients", "clients-page")),
    chunk("functions.js", modules("functions", "functions-page")),
    chunk("tenants.js", modules("tenants", "tenants-page", "tenant-page")),
    chunk("lists.js", [], ["shared.js"]),
    chunk("shared.js", [], ["index.js"]),
    chunk("rolldown.js", [], []),
  ];
  const files = new Map(filesOfPages(chunks, entry));
  expect(files.get("^/c/[^/]+/topics$")).toEqual(["topics.js", "lists.js", "shared.js"]);
  expect(() => filesOfPages(chunks.slice(0, 2), entry)).toThrow(/topics-page/);
});
