import { Button } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import type { Choice } from "./choice";

const Dialog = lazy(() =>
  import("./change-all-dialog").then((module) => ({ default: module.ChangeAllDialog })),
);

/** The button that begins a change of all rows that match the filter of a list. */
export function ChangeAll(choice: Choice) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button variant="default" disabled={!choice.total} onClick={() => setOpen(true)}>
        Change all…
      </Button>
      {open && (
        <Suspense fallback={null}>
          <Dialog {...choice} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}
