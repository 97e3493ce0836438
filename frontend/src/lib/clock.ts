import { useSyncExternalStore } from "react";

// The server's clock as seen from here: ages of numbers must not depend on how this machine's clock is set.
let skewMs = 0;

export function learnServerTime(now: number): void {
  skewMs = now - Date.now();
}

/** A moment of this machine's clock by the server's. */
export function serverTime(local: number): number {
  return local + skewMs;
}

export function serverNow(): number {
  return serverTime(Date.now());
}

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let second = 0;

function watch(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    second += 1;
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The server's time, re-rendering the caller once a second; every user shares one timer. */
export function useServerNow(): number {
  useSyncExternalStore(watch, () => second);
  return serverNow();
}
