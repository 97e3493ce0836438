import { useNavigate, useSearch } from "@tanstack/react-router";
import * as z from "zod/mini";
import styles from "./range.module.css";

const DEFAULT = "15";
const LABELS: Record<string, string> = { "5": "5 min", "15": "15 min", "60": "1 h", "1440": "24 h" };

/** The time range of charts, in minutes; in the address, unless it is the default. */
export const range = z.catch(z.optional(z.enum(["5", "60", "1440"])), undefined);

/** `longest`: the longest history of the page's subjects, in minutes. */
export function useMinutes(longest: number): number {
  const given: { range?: unknown } = useSearch({ strict: false });
  const minutes = Number(given.range ?? DEFAULT);
  return minutes in LABELS && minutes <= longest ? minutes : Number(DEFAULT);
}

export function RangePicker({ longest }: { longest: number }) {
  const minutes = useMinutes(longest);
  const navigate = useNavigate();
  return (
    <fieldset className={styles.ranges} aria-label="Time range of the charts">
      {Object.entries(LABELS)
        .filter(([value]) => Number(value) <= longest)
        .map(([value, label]) => (
          <button
            key={value}
            type="button"
            aria-pressed={value === String(minutes)}
            onClick={() =>
              void navigate({
                to: ".",
                search: (before: object) => ({ ...before, range: value === DEFAULT ? undefined : value }),
              } as Parameters<typeof navigate>[0])
            }
          >
            {label}
          </button>
        ))}
    </fieldset>
  );
}
