import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState, useSyncExternalStore } from "react";
import { FrameBatch } from "./frames";
import { type Channel, liveSocket, type Params, type SocketStatus } from "./socket";

const frames = new FrameBatch();

export const POLL_MS = 5_000;

export function useSocketStatus(): SocketStatus {
  return useSyncExternalStore(liveSocket.watch, () => liveSocket.status);
}

/** How a query should poll: not at all while the socket delivers, else every five seconds. */
export function usePolling(): number | false {
  return useSocketStatus() === "open" ? false : POLL_MS;
}

/**
 * Keeps a cached query current from a live channel while the caller is mounted. `write` may spread one
 * message over several cache entries (the topic list does); by default the data becomes the query's.
 */
export function useLive<T>(
  channel: Channel,
  params: Params,
  key: QueryKey,
  options: { enabled?: boolean; write?: (data: T) => void } = {},
): { error: string | null } {
  const client = useQueryClient();
  const { enabled = true, write } = options;
  const identity = JSON.stringify([channel, params, key]);
  const [error, setError] = useState<string | null>(null);

  // biome-ignore lint/correctness/useExhaustiveDependencies: identity holds channel, params and key by value
  useEffect(() => {
    if (!enabled) return;
    setError(null);
    let mounted = true;
    const stop = liveSocket.subscribe(channel, params, {
      data: (data) =>
        frames.put(identity, () => {
          if (!mounted) return;
          if (write) write(data as T);
          else client.setQueryData(key, data as T);
        }),
      error: setError,
    });
    return () => {
      mounted = false;
      stop();
    };
  }, [identity, enabled, client, write]);

  return { error };
}
