/** Runs at most one write per key and animation frame: a burst of messages costs one render. */
export class FrameBatch {
  private readonly waiting = new Map<string, () => void>();
  private frame: number | null = null;

  constructor(private readonly schedule: (run: () => void) => number = scheduleFrame) {}

  put(key: string, write: () => void): void {
    this.waiting.set(key, write);
    this.frame ??= this.schedule(() => this.flush());
  }

  private flush(): void {
    this.frame = null;
    const writes = [...this.waiting.values()];
    this.waiting.clear();
    for (const write of writes) write();
  }
}

// A hidden tab gets no animation frames; there a slow timer keeps the cache from growing stale.
function scheduleFrame(run: () => void): number {
  return document.hidden ? window.setTimeout(run, 250) : window.requestAnimationFrame(run);
}
