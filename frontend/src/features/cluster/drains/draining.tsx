import { lazy, Suspense } from "react";
import type { DrainChange } from "./drain-queries";

const DrainDialog = lazy(() => import("./drain-dialog").then((module) => ({ default: module.DrainDialog })));

/** The dialog, whose code is fetched when it is first opened. */
export function Draining(asked: { wanted: DrainChange; onClose: () => void }) {
  return (
    <Suspense fallback={null}>
      <DrainDialog {...asked} />
    </Suspense>
  );
}
