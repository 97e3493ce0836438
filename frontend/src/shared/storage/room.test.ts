import { expect, test } from "vitest";
import { toneOfRoom, whyReadOnly } from "./room";

const row = {
  free_bytes: 18,
  total_bytes: 100,
  usage: 0.82,
  usage_limit: 0.5,
  usage_writable: 0.45,
  reason: "disk usage of /d 0.820",
  state: "read-only",
};

test("a read-only bookie shows the reason with figures and the condition to become writable", () => {
  expect(whyReadOnly(row)).toBe("Disk 82\u00a0% full, limit 50\u00a0%, writable again below 45\u00a0%");
  expect(whyReadOnly({ ...row, usage: 0.3, reason: "no room for the index" })).toBe("no room for the index");
  expect(whyReadOnly({ ...row, usage: null, usage_limit: null, reason: "" })).toBe(
    "The bookie reports no reason",
  );
  expect(whyReadOnly({ ...row, state: "writable" })).toBeNull();
});

test("a bar is red above the bookie's own limit", () => {
  expect(toneOfRoom(row, 0.82)).toBe("bad");
  expect(toneOfRoom({ ...row, state: "writable", usage: 0.47 }, 0.47)).toBe("warn");
  expect(toneOfRoom({ ...row, state: "writable", usage: 0.3 }, 0.3)).toBe("bar");
  const silent = { ...row, state: "writable", usage: null, usage_limit: null };
  expect([0.5, 0.9, 0.97].map((share) => toneOfRoom(silent, share))).toEqual(["bar", "warn", "bad"]);
});
