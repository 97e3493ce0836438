import { describe, expect, test } from "vitest";
import {
  age,
  byteRate,
  bytes,
  count,
  dateTime,
  duration,
  known,
  rate,
  short,
  signedRate,
  time,
  valueAndUnit,
  withUnit,
} from "./format";
import { fromLocalInput, toLocalInput } from "./local-time";

describe("numbers", () => {
  test("every digit is shown below a million", () => {
    expect(count(1_234_567)).toBe("1,234,567");
    expect(short(9_999)).toBe("9,999");
    expect(short(184_329)).toBe("184,329");
    expect(short(1_234_567)).toBe("1.23M");
  });

  test("an unknown value is a dash, and never empty", () => {
    expect(known(null, count)).toBe("—");
    expect(known(0, count)).toBe("0");
  });

  test("a small rate is never shown as zero", () => {
    expect(rate(0)).toBe("0");
    expect(rate(0.004)).toBe("<0.01");
    expect(rate(0.25)).toBe("0.25");
    expect(rate(18_512)).toBe("18,500");
    expect(rate(12_345_678)).toBe("12.3M");
  });

  test("differences carry a sign, with a true minus", () => {
    expect(signedRate(14)).toBe("+14");
    expect(signedRate(-60)).toBe("−60");
    expect(signedRate(0)).toBe("0");
  });

  test("bytes count in 1024s", () => {
    expect(bytes(0)).toBe("0 B");
    expect(bytes(1023)).toBe("1,023 B");
    expect(bytes(1536)).toBe("1.5 KiB");
    expect(bytes(1023)).toBe("1,023 B");
    expect(bytes(1010 * 1024)).toBe("0.986 MiB");
    expect(bytes(999.4 * 1024)).toBe("999 KiB");
    expect(bytes(2 ** 50 * 3000)).toBe("3,000 PiB");
    expect(byteRate(2048)).toBe("2 KiB/s");
  });
});

describe("times", () => {
  test("a duration has at most its two largest units", () => {
    expect(duration(0.4)).toBe("0 s");
    expect(duration(59)).toBe("59 s");
    expect(duration(60)).toBe("1 min");
    expect(duration(3725)).toBe("1 h 2 min");
    expect(duration(90_061)).toBe("1 d 1 h");
    expect(duration(-5)).toBe("0 s");
  });

  test("an age under a blink is now, also when clocks differ a little", () => {
    expect(age(10_000, 11_000)).toBe("now");
    expect(age(10_500, 10_000)).toBe("now");
    expect(age(10_000, 18_000)).toBe("8 s");
  });

  test("a local time field returns the second that it received", () => {
    const at = Date.UTC(2026, 2, 29, 13, 5, 9);
    expect(fromLocalInput(toLocalInput(at))).toBe(at);
    expect(fromLocalInput("2026-03-29T")).toBeNull();
    expect(fromLocalInput("")).toBeNull();
  });
});

describe("values of results", () => {
  test("ids are text and stay exact", () => {
    expect(withUnit("9223372036854775807", null)).toBe("9223372036854775807");
  });

  test("known units format, unknown ones follow the number", () => {
    expect(withUnit(2.42, "ratio")).toBe("2.42×");
    expect(withUnit(250, "ms")).toBe("250 ms");
    expect(withUnit(1_790_000_000_000, "ms")).toMatch(/2026/);
    expect(withUnit(null, "bytes")).toBe("—");
    expect(valueAndUnit(1149.8, "messages/s")).toEqual({ value: "1,150", unit: "messages/s" });
    expect(valueAndUnit(1536, "bytes")).toEqual({ value: "1.5 KiB", unit: undefined });
  });
});

test("any 64-bit number that a producer states as a time is shown, and breaks no page", () => {
  for (const at of [2 ** 64, 2 ** 63, -(2 ** 63), 8_640_000_000_000_001, Number.NaN]) {
    expect(dateTime(at)).toMatch(/ ms$/);
    expect(time(at)).toMatch(/ ms$/);
    expect(toLocalInput(at)).toBe("");
    expect(toLocalInput(at, "Europe/Berlin")).toBe("");
  }
  expect(dateTime(8_640_000_000_000_001)).toBe("8,640,000,000,000,001 ms");
  expect(dateTime(8_640_000_000_000_000)).not.toMatch(/ ms$/);
});
