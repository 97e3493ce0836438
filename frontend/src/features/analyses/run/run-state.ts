import { useRef } from "react";
import type { Run } from "../../../api/types";
import type { Tone } from "../../../ui/badge";

/** The title without the target, which pages show beside it. */
export function shortTitle({ title, target, analysis }: { title: string; target: string; analysis: string }) {
  return (target ? title.replace(` of ${target}`, "") : title) || analysis;
}

export function isOver(run: Run): boolean {
  return run.finished_at !== null || ["succeeded", "failed", "cancelled"].includes(run.state);
}

/** An export is stopped and resumed: its table keeps what was committed. */
export function isExport({ analysis }: Run): boolean {
  return analysis === "export";
}

export function toneOfRun(state: string): Tone {
  switch (state) {
    case "succeeded":
      return "ok";
    case "failed":
      return "bad";
    case "cancelled":
      return "warn";
    case "running":
      return "accent";
    default:
      return "neutral";
  }
}

/** Share done, 0 to 1; null while the number of tasks isn't known. */
export function shareOf(run: Run): number | null {
  if (run.state === "succeeded") return 1;
  const { progress } = run;
  if (progress.total <= 0) return null;
  return Math.max(0, Math.min(1, progress.done / progress.total));
}

/**
 * The share to show. A later stage may plan more tasks, and a late answer may carry an old count: the bar
 * does not move back.
 */
export function useMonotonicShare(run: Run): number | null {
  const best = useRef<{ id: string; share: number | null }>({ id: run.id, share: null });
  if (best.current.id !== run.id) best.current = { id: run.id, share: null };
  const share = shareOf(run);
  if (share !== null) best.current.share = Math.max(share, best.current.share ?? 0);
  return best.current.share;
}

/** Seconds a run has lasted so far, or lasted in all; null before it started. */
export function elapsedOf(run: Run, now: number): number | null {
  return run.started_at === null ? null : ((run.finished_at ?? now) - run.started_at) / 1000;
}
