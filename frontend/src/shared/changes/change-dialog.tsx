import { Button } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { ApiError } from "../../lib/errors";
import { Dialog } from "../../ui/dialog";
import styles from "../../ui/dialog.module.css";
import { ErrorNotice } from "../../ui/states";
import { CommandLines } from "../commands/command-lines";
import type { Commands } from "../commands/shell";
import { NotDone } from "./not-done";

const TYPING_MS = 300;

/** Form → preview of its effect → exactly that change, or a refusal → receipt. */
export function ChangeDialog<Wanted, Preview extends { token: string | null }, Receipt>({
  title,
  target,
  what,
  id,
  wanted,
  form,
  ask,
  apply: make,
  preview: shownAs,
  receipt: receiptAs,
  isWhole = () => true,
  losesData = () => false,
  label,
  red,
  commands,
  note,
  nothing,
  onChanged,
  onClose,
}: {
  title: string;
  target: ReactNode;
  /** A noun for one changed object, for sentences. */
  what: string;
  /** A key that distinguishes its previews from those of other dialogs. */
  id: readonly unknown[];
  /** Null while the form is not complete. */
  wanted: Wanted | null;
  /** `problem`: the reason for refusing the input. */
  form?: ((isDisabled: boolean, problem: string | null) => ReactNode) | undefined;
  ask: (wanted: Wanted) => Promise<Preview>;
  apply: (token: string) => Promise<Receipt>;
  preview: (wanted: Wanted, preview: Preview) => ReactNode;
  receipt: (wanted: Wanted, receipt: Receipt, preview: Preview) => ReactNode;
  /** Whether all that was previewed was done. */
  isWhole?: (receipt: Receipt) => boolean;
  losesData?: (preview: Preview) => boolean;
  label: (wanted: Wanted | null, preview: Preview | undefined) => string;
  red?: boolean;
  commands: (wanted: Wanted, preview: Preview) => Commands | undefined;
  /** About the commands. */
  note?: string | undefined;
  /** The text of a refusal because the state changed since the preview. */
  nothing?: string | undefined;
  /** Called whenever something may have been changed. */
  onChanged: () => void;
  onClose: (isDone: boolean) => void;
}) {
  // A change that is being applied stays as it was confirmed, whatever arrives meanwhile.
  const [confirmed, setConfirmed] = useState<{ wanted: Wanted; preview: Preview }>();
  const key = JSON.stringify(wanted);
  const [settled] = useDebouncedValue(key, TYPING_MS);
  const found = useQuery({
    queryKey: ["change", ...id, settled],
    queryFn: () => ask(JSON.parse(settled)),
    enabled: settled !== "null" && confirmed === undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
    retry: false,
  });
  const apply = useMutation({
    mutationFn: (token: string) => make(token),
    onError: () => setConfirmed(undefined),
    onSettled: onChanged,
  });
  const isFresh = settled === key && !found.isFetching;
  const now =
    wanted !== null && isFresh && !found.error ? { wanted, preview: found.data as Preview } : undefined;
  const seen = confirmed ?? (now?.preview ? now : undefined);
  const error = wanted !== null && isFresh && !confirmed ? found.error : null;
  const isRefused = form !== undefined && error instanceof ApiError && error.status === 400;
  const lines = seen && commands(seen.wanted, seen.preview);
  const token = now?.preview?.token ?? null;
  const close = () => onClose(apply.isSuccess);
  return (
    <Dialog
      onClose={close}
      title={!apply.data ? title : isWhole(apply.data) ? "Done" : "Partly done"}
      closeOnClickOutside={!apply.isPending}
      size="lg"
    >
      <div className={styles.dialog}>
        <p className={styles.target}>{target}</p>
        {apply.data && seen ? (
          <>
            <div className={styles.preview} role="status">
              {receiptAs(seen.wanted, apply.data, seen.preview)}
            </div>
            {lines && <CommandLines of={lines} note={note} />}
            <div className={styles.buttons}>
              <Button onClick={close} data-autofocus>
                Close
              </Button>
            </div>
          </>
        ) : (
          <>
            {form?.(apply.isPending || apply.isError, isRefused ? error.message : null)}
            {error && !isRefused ? (
              <ErrorNotice
                error={error}
                title="The effect could not be computed"
                onRetry={() => found.refetch()}
              />
            ) : (
              <div
                className={styles.preview}
                aria-live="polite"
                data-preview
                data-lost={(seen && losesData(seen.preview)) || undefined}
              >
                {seen ? (
                  shownAs(seen.wanted, seen.preview)
                ) : (
                  <span>
                    {wanted === null || isRefused
                      ? "Complete the form to see the preview."
                      : "Computing the preview…"}
                  </span>
                )}
              </div>
            )}
            {apply.error && <NotDone error={apply.error} what={what} nothing={nothing} />}
            {lines && <CommandLines of={lines} note={note} />}
            <div className={styles.buttons}>
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              {apply.error ? (
                <Button
                  onClick={() => {
                    apply.reset();
                    found.refetch();
                  }}
                >
                  Preview again
                </Button>
              ) : (
                <Button
                  color={red ? "red" : "pulse"}
                  disabled={token === null}
                  loading={apply.isPending}
                  onClick={() => {
                    if (!now || token === null) return;
                    setConfirmed(now);
                    apply.mutate(token);
                  }}
                >
                  {label(wanted, seen?.preview)}
                </Button>
              )}
            </div>
          </>
        )}
      </div>
    </Dialog>
  );
}
