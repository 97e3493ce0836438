import { lazy, Suspense, useState } from "react";
import { ActionButton } from "../../ui/action-button";
import { useWhyNot } from "../access/may";
import type { Choice } from "./choice";

const Dialog = lazy(() =>
  import("./change-all-dialog").then((module) => ({ default: module.ChangeAllDialog })),
);

/** The button that begins a change of all rows that match the filter of a list. */
export function ChangeAll(choice: Choice) {
  const [open, setOpen] = useState(false);
  const why = useWhyNot(choice.cluster, {})("createChangeSet");
  return (
    <>
      <ActionButton variant="default" why={why} disabled={!choice.total} onClick={() => setOpen(true)}>
        Change all…
      </ActionButton>
      {open && (
        <Suspense fallback={null}>
          <Dialog {...choice} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
