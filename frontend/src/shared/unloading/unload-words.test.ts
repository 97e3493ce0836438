import { expect, test } from "vitest";
import type { UnloadPreview, UnloadReceipt, Whose } from "./unload-queries";
import { applyLabel, doneOf, effectOf, othersOf, remarksOf, unnamedOf } from "./unload-words";

const namespace: Whose = { cluster: "here", tenant: "shop", namespace: "orders" };
const broker: Whose = { cluster: "here", broker: "a:8080" };
const preview: UnloadPreview = {
  ...{ token: "t", at: 0, total: 3, unowned: 1, first: [], brokers: 2 },
  owners: [
    { broker: "a:8080", state: "up", bundles: 2 },
    { broker: "b:8080", state: "up", bundles: 1 },
  ],
  figures: {
    ...{ known: "live", at: 0, topics: 3, producers: 1, consumers: 1, msg_rate_in: 0, msg_rate_out: 0 },
    ...{ bytes_rate_in: 0, bytes_rate_out: 0, backlog: null, backlog_messages: null },
    ...{ backlog_estimated: null, backlog_unmeasured: null },
  },
};
const [a = { broker: "", state: "", bundles: 0 }] = preview.owners;
const receipt: UnloadReceipt = {
  ...{ at: 0, total: 3, done: 3, left: 0, failed: 0, unknown: 0, others: [] },
  owners: [{ broker: "", bundles: 3 }],
};

test("bundles to unload are counted by owner, separately from those without one", () => {
  expect(effectOf(namespace, preview)).toBe(
    "2 brokers close the topics of 3 bundles and release them. Clients reconnect to the next owners. No stored message is lost. 1 more has no owner and stays so.",
  );
  expect(effectOf(broker, { ...preview, total: 1, unowned: 0, owners: [a] })).toContain(
    "a:8080 closes the topics of 1 bundle and releases it.",
  );
  expect(applyLabel(preview)).toBe("Unload 3 bundles");
  expect(applyLabel({ ...preview, token: null })).toBe("Too many to be confirmed");
});

test("without owned bundles there is nothing to do", () => {
  const nothing = { ...preview, token: null, total: 0, owners: [] };
  expect(applyLabel(nothing)).toBe("Nothing to unload");
  expect(effectOf(broker, nothing)).toContain("owns no bundle");
  expect(effectOf(namespace, nothing)).toContain("No broker owns a bundle of it");
  expect(remarksOf(broker, nothing)).toEqual([]);
});

test("the preview names the next owners, and that the broker may receive bundles again", () => {
  expect(remarksOf(namespace, preview).join()).toContain("may be the same broker");
  expect(remarksOf(namespace, { ...preview, brokers: 1 }).join()).toContain("it owns them next");
  expect(remarksOf(namespace, { ...preview, brokers: 0 }).join()).toContain(
    "the bundles have no owner until one does",
  );
  expect(remarksOf(broker, preview).join()).toContain("can own bundles again");
  const down = { ...preview, owners: [{ ...a, state: "down" }] };
  expect(remarksOf(broker, down)[0]).toContain("a:8080 does not answer");
});

test("a receipt counts unloaded bundles and names only known owners", () => {
  expect(doneOf(receipt)).toBe(
    "3 bundles were unloaded. Right after, no broker owned 3 of them; an owner is assigned on first use.",
  );
  expect(doneOf({ ...receipt, owners: null })).toContain("not known");
  const one = { ...receipt, total: 1, done: 1, owners: [{ broker: "", bundles: 1 }] };
  expect(doneOf(one)).toBe(
    "1 bundle was unloaded. Right after, it had no owner; one is assigned on first use.",
  );
  const taken = { ...receipt, done: 2, left: 1, owners: [{ broker: "b:8080", bundles: 2 }] };
  expect(doneOf(taken)).toBe("2 of 3 bundles were unloaded. Right after, b:8080 owned 2 of them.");
});

test("bundles that were not unloaded are listed by result, and unnamed ones are counted", () => {
  expect(othersOf(receipt)).toEqual([]);
  const partly = { ...receipt, total: 9, done: 1, left: 1, failed: 2, unknown: 5 };
  expect(othersOf(partly)).toEqual([
    "1 bundle was skipped: changed since the preview.",
    "2 bundles were not unloaded.",
    "It is not known whether 5 bundles were unloaded: check the bundles.",
  ]);
  expect(unnamedOf(partly)).toBe(8);
});
