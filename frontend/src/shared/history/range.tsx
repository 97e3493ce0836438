import { useNavigate, useSearch } from "@tanstack/react-router";
import * as z from "zod/mini";
import styles from "./range.module.css";

const DEFAULT = "15";
const LABELS: Record<string, string> = {
  "5": "5 min",
  "15": "15 min",
  "60": "1 h",
  "1440": "24 h",
  "10080": "7 d",
};
export const DAY_MINUTES = 1440;

/** The range of charts, in the address: the minutes unless they are the default, and the day to compare with. */
export const charts = {
  range: z.catch(z.optional(z.enum(["5", "60", "1440", "10080"])), undefined),
  compare: z.catch(z.optional(z.literal("yesterday")), undefined),
};

function useCharts(): { range?: unknown; compare?: unknown } {
  return useSearch({ strict: false });
}

/** The time range of charts, in minutes. */
export function useMinutes(): number {
  return Number(useCharts().range ?? DEFAULT);
}

/** Whether charts also show the time a day before; a week is not compared with itself. */
export function useComparesDays(): boolean {
  const { compare } = useCharts();
  const isDay = useMinutes() <= DAY_MINUTES;
  return compare === "yesterday" && isDay;
}

export function RangePicker() {
  const minutes = useMinutes();
  const compares = useComparesDays();
  const navigate = useNavigate();
  const set = (change: object) =>
    void navigate({
      to: ".",
      search: (before: object) => ({ ...before, ...change }),
    } as Parameters<typeof navigate>[0]);
  return (
    <fieldset className={styles.ranges} style={{ flexWrap: "wrap" }} aria-label="Time range of the charts">
      {Object.entries(LABELS).map(([value, label]) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === String(minutes)}
          onClick={() => set({ range: value === DEFAULT ? undefined : value })}
        >
          {label}
        </button>
      ))}
      {minutes <= DAY_MINUTES && (
        <button
          type="button"
          aria-pressed={compares}
          onClick={() => set({ compare: compares ? undefined : "yesterday" })}
        >
          <span className="visually-hidden">Compare with the same time </span>yesterday
        </button>
      )}
    </fieldset>
  );
}
