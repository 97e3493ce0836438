const SHARE = 0.9;
const TIMES = 4;
const POINTS_MIN = 12;

/** A few values that would flatten all others: where the axis is cut, and the highest. */
export interface Spike {
  cut: number;
  peak: number;
  index: number;
}

/** The spike of a chart: points more than `TIMES` as high as nine in ten of those above zero; null without one. */
export function spikeOf(series: readonly { values: readonly (number | null)[] }[]): Spike | null {
  let peak = 0;
  let index = -1;
  const above: number[] = [];
  for (const { values } of series)
    values.forEach((value, place) => {
      if (value === null || value <= 0) return;
      above.push(value);
      if (value > peak) {
        peak = value;
        index = place;
      }
    });
  if (above.length < POINTS_MIN) return null;
  above.sort((a, b) => a - b);
  const usual = above[Math.floor((above.length - 1) * SHARE)] ?? peak;
  return peak > TIMES * usual ? { cut: 1.5 * usual, peak, index } : null;
}
