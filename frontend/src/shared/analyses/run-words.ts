import type { Run } from "../../api/types";

const STATES: Record<Run["state"], { text: string }> = {
  queued: { text: "queued" },
  running: { text: "running" },
  succeeded: { text: "succeeded" },
  failed: { text: "failed" },
  cancelled: { text: "cancelled" },
};

export const RUN_STATES = Object.keys(STATES) as Run["state"][];

/** The state in words; one that this console does not know as it is. */
export function runStateText(state: string): string {
  return STATES[state as Run["state"]]?.text ?? state;
}
