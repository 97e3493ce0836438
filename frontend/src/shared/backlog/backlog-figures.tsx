import { useServerNow } from "../../lib/clock";
import { short } from "../../lib/format";
import { Figure, type Source } from "../figure";
import { type Backlog, backlogText, backlogWords, oldestText, oldestTitle, weightOf } from "./backlog-words";

/** A row's backlog, marked as any figure of it. */
export function BacklogFigure({ of, why }: { of: Source & Backlog; why?: string | undefined }) {
  return (
    <span title={backlogWords(of)?.title}>
      <Figure of={of} value={weightOf(of)} text={() => backlogText(of)} why={why} />
    </span>
  );
}

/** The amount alone, for a tile that shows its unit beside it. */
export function BacklogAmount({
  of,
  backlog,
  why,
}: {
  of: Source;
  backlog: Backlog;
  why?: string | undefined;
}) {
  const words = backlogWords(backlog, short);
  return (
    <span title={words?.title}>
      <Figure of={of} value={weightOf(backlog)} text={() => words?.amount ?? "—"} why={why} />
    </span>
  );
}

/** The age of the first unacknowledged message of a row, updated each second. */
export function OldestAge({ at }: { at: number | null }) {
  const now = useServerNow();
  return <span title={oldestTitle(at)}>{oldestText(at, now)}</span>;
}
