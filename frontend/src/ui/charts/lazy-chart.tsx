import { type ComponentProps, lazy, Suspense } from "react";

const Loaded = lazy(() => import("./chart").then((module) => ({ default: module.Chart })));
const HEAD_PX = 28;

/** A chart whose code is fetched beside the page's first numbers. Keeps its room until then. */
export function LazyChart(props: ComponentProps<typeof Loaded>) {
  return (
    <Suspense fallback={<div style={{ height: (props.height ?? 180) + HEAD_PX }} />}>
      <Loaded {...props} />
    </Suspense>
  );
}
