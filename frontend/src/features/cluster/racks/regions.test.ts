import { expect, test } from "vitest";
import { type Bookie, hasRegions, lossOf, needsOf, type Placement, regionsOf } from "./regions";

const PLACEMENT: Placement = { regions_min: 2, regions: [], ensemble: 3, ack_quorum: 2 };

function bookies(...racks: [rack: string, state?: string][]): Bookie[] {
  return racks.map(([rack, state = "writable"], index) => ({ id: `b${index}`, rack, state }) as Bookie);
}

const THREE = bookies(["/eu/r1"], ["/eu/r2"], ["us/r1"], ["/us/r2", "down"], ["/ap/r1"]);

function losses(rows: Bookie[], placement: Placement | null) {
  const regions = regionsOf(rows);
  return regions.map((region) => lossOf(region, regions, placement));
}

test("bookies are grouped by the first part of their racks", () => {
  expect(regionsOf([...THREE, ...bookies([""])])).toEqual([
    { name: "ap", racks: ["/ap/r1"], bookies: 1, writable: 1 },
    { name: "default-region", racks: ["not set"], bookies: 1, writable: 1 },
    { name: "eu", racks: ["/eu/r1", "/eu/r2"], bookies: 2, writable: 2 },
    { name: "us", racks: ["/us/r2", "us/r1"], bookies: 2, writable: 1 },
  ]);
});

test("regions are shown where placement uses them, or racks name them", () => {
  const plain = bookies(["/r1"], [""]);
  expect(hasRegions(plain, null)).toBe(false);
  expect(hasRegions(plain, { ...PLACEMENT, regions_min: 0 })).toBe(false);
  expect(hasRegions(plain, PLACEMENT)).toBe(true);
  expect(hasRegions(THREE, null)).toBe(true);
});

test("the loss of a region is shown with the abilities of the others", () => {
  expect(losses(THREE, PLACEMENT).map(({ tone }) => tone)).toEqual(["ok", "bad", "ok"]);
  expect(losses(THREE, PLACEMENT)[0]?.text).toBe(
    "No confirmed message is lost. Publishing continues: 3 writable bookies in 2 regions are left.",
  );
  expect(losses(THREE, PLACEMENT)[1]?.text).toContain("new ledgers need 3 bookies");
  const two = bookies(["/eu/r1"], ["/us/r1"], ["/us/r2"], ["/us/r3"]);
  expect(losses(two, PLACEMENT).map(({ text }) => text)).toEqual([
    "No confirmed message is lost. Publishing stops: 3 writable bookies in 1 region are left, of 2 regions needed.",
    "No confirmed message is lost. Publishing stops: 1 writable bookie in 1 region is left, of 2 regions needed.",
  ]);
});

test("without placement by regions, a loss may take messages", () => {
  const plain = { ...PLACEMENT, regions_min: 0 };
  expect(losses(THREE, plain)[0]).toEqual({
    tone: "warn",
    text: "Messages whose copies are all in it cannot be read. Publishing continues: 3 writable bookies in 2 regions are left.",
  });
  expect(losses(bookies(["/eu/r1"]), plain)[0]?.text).toContain("no writable bookie is left");
  expect(needsOf(plain)).toContain("do not place copies by regions");
});

test("a region that is not written to takes nothing", () => {
  const named = { ...PLACEMENT, regions: ["eu", "us"], ensemble: 1 };
  const [ap, eu] = losses(THREE, named);
  expect(ap).toEqual({ tone: "ok", text: "No ledger is written to it." });
  expect(eu?.tone).toBe("bad");
  expect(needsOf(named)).toBe(
    "A message is confirmed once 2 regions have it. Ledgers are written to eu, us alone.",
  );
});

test("what no broker has reported is not known", () => {
  expect(losses(THREE, null)[0]).toEqual({ tone: "neutral", text: "not known" });
  expect(needsOf(null)).toContain("not known");
});
