import { expect, test } from "vitest";
import { spikeOf } from "./spike";

const usual = Array.from({ length: 40 }, (_, index) => 10 + (index % 3));

test("a few points far above all others cut the axis", () => {
  const values = [...usual, 400, null, 0];
  const spike = spikeOf([{ values }]);
  expect(spike?.peak).toBe(400);
  expect(spike?.index).toBe(40);
  expect(spike?.cut).toBeGreaterThan(12);
  expect(spike?.cut).toBeLessThan(40);
});

test("long, low and sole peaks are no spikes", () => {
  expect(spikeOf([{ values: [...usual, ...usual.map((value) => value * 50)] }])).toBeNull();
  expect(spikeOf([{ values: [...usual, 40] }])).toBeNull();
  expect(spikeOf([{ values: [0, 0, 0, 0, 500, 0, 0, null] }])).toBeNull();
});
