const STATES: Record<string, { text: string }> = {
  queued: { text: "queued" },
  running: { text: "running" },
  succeeded: { text: "succeeded" },
  failed: { text: "failed" },
  cancelled: { text: "cancelled" },
};

/** The state in words; one that this console does not know as it is. */
export function runStateText(state: string): string {
  return STATES[state]?.text ?? state;
}
