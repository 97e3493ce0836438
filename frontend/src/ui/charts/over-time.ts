import { dateTime, time } from "../../lib/format";

const DAY_S = 86_400;

/** The common options of live lines over time; `xs` are seconds since the epoch. */
export function overTime(xs: number[], height: number) {
  const isLong = (xs.at(-1) ?? 0) - (xs[0] ?? 0) > DAY_S;
  return {
    kind: "line" as const,
    time: true,
    live: true,
    xs,
    xLabel: "Time",
    xText: (x: number) => (isLong ? dateTime(x * 1000) : time(x * 1000)),
    height,
  };
}
