import { type ComponentProps, type ComponentType, lazy, Suspense, useCallback } from "react";
import type { Over } from "../../ui/charts/chart";
import { useReadsEverything } from "../access/may";
import type { ChangeMarks } from "./change-marks";

const AFTER_MS = 3_000;
/** Code and marks are fetched once the charts stand: they are no part of a first load. */
const Marks = lazy<ComponentType<ComponentProps<typeof ChangeMarks>>>(async () => {
  await new Promise((done) => setTimeout(done, AFTER_MS));
  // Charts are complete without marks while the gateway is away.
  return import("./change-marks").then(
    (module) => ({ default: module.ChangeMarks }),
    () => ({ default: () => null }),
  );
});

/**
 * The changes of a topic and of its namespace, or with null of the cluster itself, to be drawn over charts of the last
 * `minutes`. Those of the cluster are only for who reads everything.
 */
export function useMarks(cluster: string, topic: string | null, minutes: number): Over {
  const readsEverything = useReadsEverything();
  const shown = topic !== null || readsEverything;
  return useCallback(
    (title, from, to) =>
      shown ? (
        <Suspense fallback={null}>
          <Marks cluster={cluster} topic={topic} minutes={minutes} title={title} from={from} to={to} />
        </Suspense>
      ) : null,
    [cluster, topic, minutes, shown],
  );
}
