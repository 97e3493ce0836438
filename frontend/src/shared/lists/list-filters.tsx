import { NativeSelect } from "@mantine/core";
import { useDeferredValue, useEffect, useRef, useState } from "react";
import { duration } from "../../lib/format";

const AGES_S = [60, 300, 1_800, 3_600, 21_600, 86_400, 604_800];

/** "300" → 300; undefined for what is no number of seconds. */
export function secondsOf(text: string | undefined): number | undefined {
  return text && /^[1-9]\d{0,7}$/.test(text) ? Number(text) : undefined;
}

/** The least age of the oldest unacknowledged message. `value` in seconds. */
export function AgeFilter({
  value,
  onPick,
}: {
  value: number | undefined;
  onPick: (seconds: number | undefined) => void;
}) {
  const ages = value === undefined || AGES_S.includes(value) ? AGES_S : [...AGES_S, value];
  return (
    <NativeSelect
      aria-label="Oldest unacknowledged"
      size="xs"
      value={value ?? ""}
      data={[
        { value: "", label: "Any age" },
        ...ages.map((seconds) => ({ value: String(seconds), label: `Older than ${duration(seconds)}` })),
      ]}
      onChange={(event) => onPick(Number(event.currentTarget.value) || undefined)}
    />
  );
}

/** Announces the number of matches to a screen reader when typing pauses, not at every update. */
export function Announce({
  total,
  busy,
  words,
}: {
  total: number | undefined;
  busy: boolean;
  words: (total: number) => string;
}) {
  const [announced, setAnnounced] = useState("");
  const text = total === undefined || busy ? "" : words(total);
  const rounded = useDeferredValue(text);
  const spokenAt = useRef(0);
  useEffect(() => {
    if (!rounded) return;
    const wait = Math.max(800, 10_000 - (Date.now() - spokenAt.current));
    const timer = setTimeout(() => {
      spokenAt.current = Date.now();
      setAnnounced(rounded);
    }, wait);
    return () => clearTimeout(timer);
  }, [rounded]);
  return (
    <output className="visually-hidden" aria-live="polite">
      {announced}
    </output>
  );
}
