import { describe, expect, it } from "vitest";
import type { End, Ends } from "./geo-queries";
import { clustersOf, delayOf, linksOf, type Reported } from "./joined-links";
import { delayWords, linkWords } from "./link-words";

const NOW = 1_000_000;

function end(remote: string, more: Partial<End> = {}): End {
  return {
    remote,
    known: "live",
    at: NOW,
    silent: [],
    topics: 2,
    stopped: 0,
    backlog: 0,
    oldest_at: 0,
    msg_rate: 10,
    bytes_rate: 1000,
    received_topics: 2,
    received_msg_rate: 10,
    received_bytes_rate: 1000,
    causes: [],
    trend: null,
    ...more,
  };
}

function ends(cluster: string, links: End[], records: Ends["records"] = []): Reported {
  return { ends: { at: NOW, cluster, records, links } };
}

function between(us: Partial<End>, eu: Partial<End> = {}) {
  const reported = new Map([
    ["us", ends("us", [end("eu", { ...us, received_topics: 0 })])],
    ["eu", ends("eu", [end("us", { ...eu, topics: 0 })])],
  ]);
  const [link] = linksOf(reported, NOW);
  if (link === undefined) throw new Error("no link");
  return link;
}

describe("links", () => {
  it("show both ends of a direction, and no direction on which nothing is sent", () => {
    const reported = new Map([
      ["us", ends("us", [end("eu", { received_topics: 0 })])],
      ["eu", ends("eu", [end("us", { topics: 0 })])],
    ]);
    const links = linksOf(reported, NOW);
    expect(links.map(({ from, to, state, tone }) => [from, to, state, tone])).toEqual([
      ["us", "eu", "sending", "ok"],
    ]);
    expect(links[0]?.sender?.remote).toBe("eu");
    expect(links[0]?.receiver?.remote).toBe("us");
  });

  it("are stopped when nothing is sent, with the causes in words", () => {
    const causes = [{ cause: "unreachable", topics: 2, topic: "t", why: "no", since: null }];
    const link = between({ stopped: 2, causes });
    expect([link.tone, link.state]).toEqual(["bad", "stopped"]);
    expect(link.why).toContain("2 topics: the other cluster cannot be reached");
    expect(between({ stopped: 1 }).state).toBe("1 of 2 stopped");
    expect(between({ causes: [{ cause: "new", topics: 1, topic: "t", why: "", since: 1 }] }).why).toEqual([
      "1 topic: new",
    ]);
  });

  it("are amber when one end is unknown or old", () => {
    const reported = new Map<string, Reported>([
      ["us", ends("us", [end("eu")], [{ name: "ap", url: "" }])],
      ["eu", { why: "this gateway does not serve eu" }],
    ]);
    expect(clustersOf(reported)).toEqual(["ap", "eu", "us"]);
    const [back, link] = linksOf(reported, NOW);
    expect([link?.tone, link?.state]).toEqual(["warn", "partly unknown"]);
    expect(link?.why).toEqual(["eu: this gateway does not serve eu"]);
    expect([back?.from, back?.sender, back?.state]).toEqual(["eu", null, "partly unknown"]);
    const old = between({ known: "last", silent: ["b1"] });
    expect([old.tone, old.why]).toEqual(["warn", ["us: b1 does not report"]]);
    expect(between({}, { known: "no", silent: ["b1", "b2"] }).why).toEqual(["eu: b1, b2 do not report"]);
  });

  it("are amber when the ends disagree for longer than a moment", () => {
    const trend = (values: number[]) => ({
      end: NOW,
      step_ms: 1,
      sent: values,
      received: values,
      backlog: [],
    });
    const slow = { received_msg_rate: 1, trend: trend([2]) };
    const lasting = between({ trend: trend([10]) }, slow);
    expect([lasting.tone, lasting.why]).toEqual(["warn", ["the rates of both ends differ"]]);
    expect(between({ trend: trend([2]) }, slow).tone).toBe("ok");
    expect(between({}, { received_topics: 1 }).why).toEqual(["2 topics connected there, 1 received here"]);
  });

  it("are behind when the oldest message waits for long", () => {
    const link = between({ backlog: 5, oldest_at: NOW - 60_000 });
    expect([link.tone, link.state, link.why]).toEqual(["warn", "behind", ["the oldest message waits 1 min"]]);
    expect(between({ backlog: 5, oldest_at: NOW - 2_000 }).tone).toBe("ok");
  });

  it("tell an unknown delay from none", () => {
    expect(delayOf(null, NOW)).toBeNull();
    expect(delayOf(end("eu", { oldest_at: null }), NOW)).toBeNull();
    expect(delayOf(end("eu"), NOW)).toBe(0);
    expect(delayWords({ sender: null }, NOW)).toBe("—");
    expect(delayWords({ sender: end("eu") }, NOW)).toBe("none");
    expect(delayWords({ sender: end("eu", { oldest_at: NOW - 5_000 }) }, NOW)).toBe("5 s");
    expect(linkWords(between({ backlog: 7 }), NOW)).toBe(
      "us to eu: sending, 10 messages per second sent, 10 received, backlog 7, delay none",
    );
  });
});
