import { Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { Dialog } from "../../ui/dialog";
import { ErrorNotice } from "../../ui/states";
import { CommandLines } from "../commands/command-lines";
import type { Commands } from "../commands/commands";
import styles from "../cursor/cursor.module.css";
import { NotDone } from "./not-done";

/** A change in one dialog: form, preview of exactly that, exactly what was previewed or a refusal, receipt. */
export function PreviewedDialog<Preview extends { token: string | null }, Receipt>({
  title,
  target,
  what,
  identity,
  preview,
  apply,
  form,
  effect,
  label,
  receipt,
  isWhole = () => true,
  commands,
  note,
  onChanged,
  onClose,
}: {
  title: string;
  target: ReactNode;
  /** What to look at when it is not known whether the change was made. */
  what: string;
  /** What is asked for: another preview is read whenever it changes. */
  identity: readonly unknown[];
  preview: () => Promise<Preview>;
  apply: (token: string) => Promise<Receipt>;
  form?: (isDisabled: boolean) => ReactNode;
  /** What would be done. */
  effect: (preview: Preview) => ReactNode;
  /** Of the button; without a preview while it is computed. */
  label: (preview: Preview | undefined) => string;
  /** What was done. */
  receipt: (done: Receipt) => ReactNode;
  /** Whether that is all that was previewed. */
  isWhole?: (done: Receipt) => boolean;
  commands: (preview: Preview) => Commands | undefined;
  note?: string;
  /** Called whenever something may have been changed. */
  onChanged: () => void;
  onClose: () => void;
}) {
  const [shown, setShown] = useState<Preview>();
  const found = useQuery({
    queryKey: identity,
    queryFn: preview,
    enabled: shown === undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
    retry: false,
  });
  const making = useMutation({
    mutationFn: (seen: Preview) => apply(seen.token ?? ""),
    onMutate: setShown,
    onError: () => setShown(undefined),
    onSettled: onChanged,
  });
  const now = found.isFetching ? undefined : found.data;
  const seen = shown ?? now;
  const lines = seen && commands(seen);
  return (
    <Dialog
      onClose={onClose}
      title={!making.isSuccess ? title : isWhole(making.data) ? "Done" : "Partly done"}
      closeOnClickOutside={!making.isPending}
      size="lg"
    >
      <div className={styles.dialog}>
        <p className={styles.target}>{target}</p>
        {making.isSuccess ? (
          <>
            <div className={styles.preview} role="status">
              {receipt(making.data)}
            </div>
            {lines && <CommandLines of={lines} note={note} />}
            <div className={styles.buttons}>
              <Button onClick={onClose} data-autofocus>
                Close
              </Button>
            </div>
          </>
        ) : (
          <>
            {form?.(making.isPending || making.isError)}
            {found.error && !shown ? (
              <ErrorNotice
                error={found.error}
                title="The effect could not be computed"
                onRetry={() => found.refetch()}
              />
            ) : (
              <div className={styles.preview} aria-live="polite">
                {seen ? effect(seen) : <span>Computing what it would do…</span>}
              </div>
            )}
            {making.error && <NotDone error={making.error} what={what} />}
            {lines && <CommandLines of={lines} note={note} />}
            <div className={styles.buttons}>
              <Button variant="default" onClick={onClose}>
                Cancel
              </Button>
              {making.error ? (
                <Button
                  onClick={() => {
                    making.reset();
                    found.refetch();
                  }}
                >
                  Preview again
                </Button>
              ) : (
                <Button
                  disabled={!now || now.token === null || found.isError}
                  loading={making.isPending}
                  onClick={() => now && making.mutate(now)}
                >
                  {label(seen)}
                </Button>
              )}
            </div>
          </>
        )}
      </div>
    </Dialog>
  );
}
