import { expect, test } from "vitest";
import { nameOfBundle, parseBundle, shareOf } from "./search";

test("a bundle in the address is its three parts, and anything else opens nothing", () => {
  const id = { tenant: "shop", namespace: "orders", bundle: "0x00000000_0x40000000" };
  expect(parseBundle(nameOfBundle(id))).toEqual(id);
  for (const text of [undefined, "", "shop/orders", "shop/orders/0x0_0x4", "a/b/c/0x00000000_0x40000000"])
    expect(parseBundle(text)).toBeNull();
});

test("the share of a range counts the highest hash, too", () => {
  expect(shareOf("0x00000000_0x40000000")).toBe(0.25);
  expect(shareOf("0xc0000000_0xffffffff")).toBe(0.25);
  expect(shareOf("0x00000000_0xffffffff")).toBe(1);
});
