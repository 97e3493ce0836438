import { expect, test } from "vitest";
import type { DecommissionPreview, Repair } from "./repair-queries";
import {
  auditOf,
  countsOf,
  decommissionOf,
  decommissionPreviewOf,
  delayOf,
  forecastOf,
  lossOf,
  lostOf,
  stateOf,
  switchOf,
} from "./repair-words";

const repair: Repair = {
  ...{ at: 0, enabled: true, auditor: "b1:3181", delay_s: 60, ledgers: 0, all: true, size: 0, sized: 0 },
  ...{ oldest: null, ledgers_per_s: null, bytes_per_s: null, seconds_left: null },
  ...{ workers: [], lost: [], decommissions: [], rows: [] },
};

test("the state has what is known and what is not", () => {
  expect(stateOf(repair, 0)).toBe("Every ledger has all its copies, as far as the auditor knows.");
  expect(stateOf({ ...repair, auditor: null }, 0)).toContain("No process is the auditor");
  expect(stateOf({ ...repair, enabled: false }, 0)).toContain("turned off");
  const some = { ...repair, ledgers: 3, size: 2 * 1024 * 1024, sized: 2, oldest: 1_000 };
  expect(stateOf(some, 61_000)).toBe(
    "3 ledgers have too few copies, the first for 1 min; 2 MiB are to be copied, without 1 ledger of unknown size.",
  );
  expect(stateOf({ ...some, sized: 0, all: false }, 61_000)).toMatch(/^More than 3 .*not known\.$/);
});

test("the forecast names the workers, and is not invented", () => {
  expect(forecastOf(repair)).toBe("");
  expect(forecastOf({ ...repair, ledgers: 2 })).toBe(
    "No ledger is repaired at this moment. How long it takes is not known yet.",
  );
  const busy = { ...repair, ledgers: 9, workers: [{ worker: "b2:3181", ledgers: 1 }] };
  expect(forecastOf({ ...busy, ledgers_per_s: 3, bytes_per_s: 1024 * 1024, seconds_left: 3 })).toBe(
    "1 ledger is repaired now, by b2:3181 (1). All have their copies in about 3 s at 1 MiB/s.",
  );
});

test("a bookie that is away is counted down", () => {
  const lost = { bookie: "b3", since: 0, due: 60_000, ledgers: 0 };
  expect(lostOf(lost, 20_000)).toBe(
    "b3 is away for 20 s. Its ledgers are copied in about 40 s, unless it returns.",
  );
  expect(lostOf(lost, 61_000)).toContain("about to be marked");
  expect(lostOf({ ...lost, due: null, ledgers: 4 }, 20_000)).toContain("4 marked ledgers name it");
  expect(lostOf({ ...lost, due: null }, 20_000)).toBe("b3 is away for 20 s.");
});

test("a decommission shows its progress or why it waits", () => {
  const row = {
    bookie: "b3",
    by: "ada",
    at: 0,
    first: null,
    left: null,
    counted: null,
    waits: "",
    drain: false,
  };
  expect(decommissionOf(row)).toContain("not counted");
  expect(decommissionOf({ ...row, first: 9, left: 4, counted: 1 })).toContain("4 of 9 ledgers are left");
  expect(decommissionOf({ ...row, drain: true, left: 0, counted: 1, waits: "nothing is left" })).toMatch(
    /being drained .* stop its process\.$/,
  );
  expect(decommissionOf({ ...row, waits: "it is registered: stop it" })).toContain(
    "Nothing is copied: it is",
  );
});

test("the loss of a bookie is named by what is left", () => {
  const radius = { at: 0, bookie: "b3", ledgers: 5, open: 1, size: 0, of_ledgers: 9, weakest: [] };
  expect(lossOf({ ...radius, ledgers: 0, counts: [] })).toContain("nothing depends on it");
  expect(lossOf({ ...radius, counts: [{ copies: 0, owners: 2 }] })).toContain("2 topics would have messages");
  expect(lossOf({ ...radius, counts: [{ copies: 1, owners: 1 }] })).toContain("one copy left");
  expect(lossOf({ ...radius, counts: [{ copies: 2, owners: 1 }] })).toContain("two copies or more");
  expect(
    countsOf([
      { copies: 0, owners: 1 },
      { copies: 2, owners: 3 },
    ]),
  ).toBe("1 topic with no copy, 3 topics with 2 copies");
});

test("previews state what happens", () => {
  expect(switchOf({ token: "t", at: 0, on: false, ledgers: 2 })).toContain("until it is turned on");
  expect(switchOf({ token: "t", at: 0, on: true, ledgers: 2 })).toContain(
    "2 marked ledgers are copied again",
  );
  expect(delayOf({ token: "t", at: 0, seconds: 3600, before_s: 60, lost: [] }, 0)).toContain(
    "waited for 1 h before its ledgers are copied. It is 1 min now.",
  );
  expect(auditOf({ token: null, at: 0, problem: "No process is the auditor", lost: [] })).toContain(
    "No process",
  );
  expect(auditOf({ token: "t", at: 0, problem: "", lost: [] })).toContain("No bookie is away");
  const preview: DecommissionPreview = {
    ...{ token: "t", at: 0, bookie: "b3", state: "down", problem: "", drain: false, ledgers: 4, open: 1 },
    ...{ size: 1_000, stored: null, free: null, others: 3, ensemble: 3, seconds: null, counts: [] },
  };
  expect(decommissionPreviewOf(preview)).toContain("4 ledgers, 1 of them open");
  expect(decommissionPreviewOf(preview)).toContain("1,000 B of closed ones, are copied");
  expect(decommissionPreviewOf({ ...preview, stored: 4_096 })).toContain("open, 4 KiB, are copied");
  expect(decommissionPreviewOf({ ...preview, drain: true })).toContain("becomes read-only first");
  expect(decommissionPreviewOf({ ...preview, problem: "There is no room" })).toBe("There is no room.");
});
