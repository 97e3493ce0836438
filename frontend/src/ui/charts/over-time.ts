import { time } from "../../lib/format";

/** The common options of live lines over time; `xs` are seconds since the epoch. */
export function overTime(xs: number[], height: number) {
  return {
    kind: "line" as const,
    time: true,
    live: true,
    xs,
    xLabel: "Time",
    xText: (x: number) => time(x * 1000),
    height,
  };
}
