import type { Point } from "./history";

const WIDTH = 44;
const HEIGHT = 20;
const SHOWN = 60;

/** A word-sized trend of the last points; decoration beside a number, so hidden from assistive tech. */
export function Spark({ points, column }: { points: readonly Point[]; column: number }) {
  const values = points
    .slice(-SHOWN)
    .map((point) => point.values[column] ?? null)
    .filter((value) => value !== null);
  if (values.length < 2) return null;
  const top = Math.max(...values, 0) || 1;
  const step = WIDTH / (values.length - 1);
  const path = values
    .map(
      (value, index) =>
        `${index ? "L" : "M"}${(index * step).toFixed(1)} ${(HEIGHT - 1 - (value / top) * (HEIGHT - 3)).toFixed(1)}`,
    )
    .join("");
  return (
    <svg
      width={WIDTH}
      height={HEIGHT}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      aria-hidden="true"
      focusable="false"
      style={{ position: "absolute", right: 14, top: 12 }}
    >
      <path
        d={path}
        fill="none"
        stroke="var(--series-1)"
        strokeWidth="1.4"
        strokeLinejoin="round"
        opacity="0.85"
      />
    </svg>
  );
}
