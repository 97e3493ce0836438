import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { FrameBatch } from "./frames";
import { type Channel, liveSocket, type Params, type SocketStatus } from "./socket";

const frames = new FrameBatch();

export const POLL_MS = 2_000;

export function useSocketStatus(): SocketStatus {
  return useSyncExternalStore(liveSocket.watch, () => liveSocket.status);
}

/** The polling interval of a query: none while the socket delivers, else two seconds. */
export function usePolling(): number | false {
  return useSocketStatus() === "open" ? false : POLL_MS;
}

// The reasons for which feeds in use deliver nothing new, by their identity.
const failing = new Map<string, string>();
const watchers = new Set<() => void>();
let firstFailure: string | null = null;

function tellFailure(identity: string, reason: string | null): void {
  if (reason === null) failing.delete(identity);
  else failing.set(identity, reason);
  const [first = null] = failing.values();
  if (first === firstFailure) return;
  firstFailure = first;
  for (const watcher of watchers) watcher();
}

function watchFailures(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

/** The gateway's reason why the data of a page is not kept current; null while it is. */
export function useFeedFailure(): string | null {
  return useSyncExternalStore(watchFailures, () => firstFailure);
}

/**
 * Keeps a cached query current from a live channel while the caller is mounted. `write` may spread one
 * message over several cache entries (the topic list does); by default the data becomes the query's data.
 */
export function useLive<T>(
  channel: Channel,
  params: Params,
  key: QueryKey,
  options: { enabled?: boolean; write?: (data: T) => void } = {},
): void {
  const client = useQueryClient();
  const { enabled = true, write } = options;
  const identity = JSON.stringify([channel, params, key]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: identity holds channel, params and key by value
  useEffect(() => {
    if (!enabled) return;
    let mounted = true;
    const stop = liveSocket.subscribe(channel, params, {
      data: (data) =>
        frames.put(identity, () => {
          if (!mounted) return;
          tellFailure(identity, null);
          if (write) write(data as T);
          else client.setQueryData(key, data as T);
        }),
      // For data that was never read, the GET reports the reason.
      error: (reason) => {
        if (write || client.getQueryData(key) !== undefined) tellFailure(identity, reason);
      },
    });
    return () => {
      mounted = false;
      tellFailure(identity, null);
      stop();
    };
  }, [identity, enabled, client, write]);
}
