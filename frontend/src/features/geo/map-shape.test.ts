import { describe, expect, it } from "vitest";
import { curveOf, MAP_HEIGHT, MAP_WIDTH, NODE_HEIGHT, NODE_WIDTH, spotsOf, viewBoxOf } from "./map-shape";
import { trendPath } from "./trend-line";

describe("the map", () => {
  it.each([1, 2, 3, 8, 12])("has room for each of %i clusters", (count) => {
    const spots = spotsOf(Array.from({ length: count }, (_, index) => `c${index}`));
    for (const { x, y } of spots.values()) {
      expect(x - NODE_WIDTH / 2).toBeGreaterThanOrEqual(0);
      expect(x + NODE_WIDTH / 2).toBeLessThanOrEqual(MAP_WIDTH);
      expect(y - NODE_HEIGHT / 2).toBeGreaterThanOrEqual(0);
      expect(y + NODE_HEIGHT / 2).toBeLessThanOrEqual(MAP_HEIGHT);
    }
    expect(new Set([...spots.values()].map(({ x, y }) => `${x.toFixed()} ${y.toFixed()}`)).size).toBe(count);
  });

  it("draws both directions of a pair apart", () => {
    const spots = spotsOf(["a", "b"]);
    const there = curveOf({ from: "a", to: "b" }, spots);
    const back = curveOf({ from: "b", to: "a" }, spots);
    expect(Math.abs(there.label.y - back.label.y)).toBeGreaterThan(90);
    expect(there.path).not.toBe(back.path);
  });
});

describe("a trend", () => {
  it("has gaps where values are unknown, and never a zero for them", () => {
    expect(trendPath([0, 10, null, 10, 5], 40, 12)).toBe("M0.0 11.0L10.0 1.0M30.0 1.0L40.0 6.0");
    expect(trendPath([null, null], 40, 12)).toBe("");
    expect(trendPath([], 40, 12)).toBe("");
  });
});

it("shows no empty half of the map", () => {
  expect(viewBoxOf(spotsOf(["a", "b"]))).toBe("0 142 900 176");
  expect(viewBoxOf(spotsOf(["a"]))).toBe("0 142 900 176");
});
