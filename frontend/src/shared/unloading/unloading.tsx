import { lazy, Suspense } from "react";
import type { Whose } from "./unload-queries";

const UnloadDialog = lazy(() =>
  import("./unload-dialog").then((module) => ({ default: module.UnloadDialog })),
);

/** The dialog, whose code is fetched when it is first opened. */
export function Unloading(asked: { whose: Whose; onClose: () => void }) {
  return (
    <Suspense fallback={null}>
      <UnloadDialog {...asked} />
    </Suspense>
  );
}
