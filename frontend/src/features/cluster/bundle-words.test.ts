import { expect, test } from "vitest";
import {
  applyLabel,
  doneOf,
  edgesOf,
  effectOf,
  movedOf,
  moveOf,
  moveRemarksOf,
  remarksOf,
} from "./bundle-words";
import type {
  Bundle,
  BundlePreview,
  BundleReceipt,
  TransferPreview,
  TransferReceipt,
  Wanted,
} from "./queries";

const row: Bundle = {
  ...{ tenant: "shop", namespace: "orders", bundle: "0x00000000_0x40000000" },
  ...{ owner: "a:8080", state: "up", known: "live", at: 0, topics: 3, producers: 1, consumers: 1 },
  ...{ msg_rate_in: 0, msg_rate_out: 0, bytes_rate_in: 0, bytes_rate_out: 0, backlog: 0 },
  ...{ backlog_messages: 0, backlog_estimated: 0, backlog_unmeasured: 0 },
};
const preview: BundlePreview = { token: "t", at: 0, row, brokers: 2, parts: [] };
const unload: Wanted = { change: "unload" };
const split: Wanted = { change: "split", algorithm: "equally", unload: false };
const receipt: BundleReceipt = { change: "unload", at: 0, before: "a:8080", owner: "", parts: [] };

test("a receipt names the owner of the bundle only if it is known", () => {
  expect(doneOf(unload, receipt)).toContain("No broker owned it right after");
  expect(doneOf(unload, { ...receipt, owner: null })).toContain("not known");
  expect(doneOf(unload, { ...receipt, owner: "a:8080" })).toContain("owns it again");
  expect(doneOf(unload, { ...receipt, owner: "b:8080" })).toContain("b:8080 owns it now");
});

test("a split reports the number of bundles and whether they were unloaded", () => {
  const done = { ...receipt, owner: null, parts: ["x", "y"] };
  expect(doneOf(split, done)).toBe("The bundle was split into 2 bundles.");
  expect(doneOf({ ...split, unload: true }, done)).toContain("released them");
});

test("bundles without an owner are not unloaded, and those without a boundary are not split", () => {
  const unowned = { ...preview, token: null, row: { ...row, owner: "", state: "none" } };
  expect(applyLabel(unload, unowned)).toBe("Has no owner already");
  expect(effectOf(unload, unowned)).toContain("nothing to unload");
  expect(remarksOf(unload, unowned)).toEqual([]);
  expect(applyLabel(split, preview)).toBe("Nothing to split");
  const parts = [
    { bundle: "0x00000000_0x20000000", topics: 1 },
    { bundle: "0x20000000_0x40000000", topics: null },
  ];
  expect(applyLabel(split, { ...preview, parts })).toBe("Split into 2");
  expect(edgesOf({ ...preview, parts })).toEqual([0x20000000]);
});

test("an owner that does not answer is reported before the change", () => {
  const down = { ...preview, row: { ...row, state: "down" } };
  expect(remarksOf(unload, down)[0]).toContain("does not answer");
  expect(remarksOf(unload, { ...preview, brokers: 1 }).join()).toContain("it owns the bundle next");
});

const transfer: TransferPreview = {
  ...{ token: "t", at: 0, row, destination: "b:8080", state: "up", allowed: true, problem: "" },
};

test("a move names what is closed, and what is not known of the destination", () => {
  expect(moveOf(transfer)).toContain("a:8080 closes its topics and passes it to b:8080");
  expect(moveOf({ ...transfer, row: { ...row, owner: "", state: "none" } })).toContain("b:8080 acquires it");
  expect(moveRemarksOf(transfer).join()).toContain("Isolation policies allow it there");
  const unknown = moveRemarksOf({ ...transfer, state: "", allowed: null }).join();
  expect(unknown).toContain("Whether b:8080 answers is not known");
  expect(unknown).toContain("Whether isolation policies allow it there is not known");
  const refused = { ...transfer, token: null, problem: "b:8080 owns the bundle already" };
  expect([moveOf(refused), moveRemarksOf(refused)]).toEqual(["b:8080 owns the bundle already.", []]);
});

test("a bundle that was unloaded only is no move", () => {
  const moved: TransferReceipt = {
    ...{ at: 0, before: "a:8080", destination: "b:8080", moved: true, reason: "", owner: "b:8080" },
  };
  expect(movedOf(moved)).toBe("It moved from a:8080 to b:8080.");
  const unloaded = { ...moved, moved: false, reason: "b:8080 cannot prepare", owner: "" };
  expect(movedOf(unloaded)).toBe(
    "It was unloaded and not moved: b:8080 cannot prepare. No broker owns it now.",
  );
  expect(movedOf({ ...unloaded, owner: null })).toContain("Its owner is not known.");
});
