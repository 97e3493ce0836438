import { type ComponentProps, lazy, Suspense } from "react";

const PolicyDialog = lazy(() =>
  import("./policy-dialog").then((module) => ({ default: module.PolicyDialog })),
);

/** The dialog of a policy, whose code is fetched when it is first opened. */
export function PolicyChange(asked: ComponentProps<typeof PolicyDialog>) {
  return (
    <Suspense fallback={null}>
      <PolicyDialog {...asked} />
    </Suspense>
  );
}
