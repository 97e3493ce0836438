// @vitest-environment jsdom
import { afterEach, expect, test, vi } from "vitest";
import { fromLocalInput, toLocalInput } from "./local-time";

afterEach(() => {
  localStorage.clear();
  vi.resetModules();
});

const SUMMER = Date.UTC(2026, 6, 1, 12, 0, 5);
const WINTER = Date.UTC(2026, 0, 1, 23, 30, 0);

test("a field shows and takes the wall clock of the chosen zone", () => {
  expect(toLocalInput(SUMMER, "UTC")).toBe("2026-07-01T12:00:05");
  expect(toLocalInput(SUMMER, "Europe/Berlin")).toBe("2026-07-01T14:00:05");
  expect(toLocalInput(WINTER, "Asia/Kolkata")).toBe("2026-01-02T05:00:00");
  for (const zone of ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Pacific/Auckland"])
    for (const at of [SUMMER - 5_000, WINTER, Date.UTC(2026, 2, 29, 1, 0, 0), Date.UTC(2026, 9, 25, 3, 0, 0)])
      expect(fromLocalInput(toLocalInput(at, zone), zone), `${zone} ${at}`).toBe(at);
  expect(fromLocalInput("2026-07", "UTC")).toBeNull();
});

test("times name a chosen zone, and an unknown one counts as none", async () => {
  localStorage.setItem("magnetar-time-zone", "UTC");
  const { dateTime, time } = await import("./format");
  expect(dateTime(SUMMER)).toMatch(/12:00:05 UTC$/);
  expect(time(SUMMER)).toBe("12:00:05");
  vi.resetModules();
  localStorage.setItem("magnetar-time-zone", "Mars/Base");
  expect((await import("./zone")).ZONE).toBeUndefined();
});
