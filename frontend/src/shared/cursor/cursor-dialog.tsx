import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { CursorAction, CursorPreview, CursorReceipt } from "../../api/types";
import { serverNow, serverTime } from "../../lib/clock";
import { asApiError } from "../../lib/errors";
import { dateTime } from "../../lib/format";
import { Dialog } from "../../ui/dialog";
import styles from "../../ui/dialog.module.css";
import { ErrorNotice, Notice } from "../../ui/states";
import { CommandLines } from "../commands/command-lines";
import { COMMANDS } from "../commands/commands";
import type { Commands } from "../commands/shell";
import { useLacks } from "../lacking/lacking";
import type { TopicId } from "../topic/queries";
import { NotDone } from "./cursor-failure";
import { ResetForm, SkipForm } from "./cursor-forms";
import { Preview } from "./cursor-preview";
import { applyCursor, type CursorChange, changesQuery, previewCursor, undoCursor } from "./cursor-queries";
import { Receipt } from "./cursor-receipt";
import { applyLabel, loses, outcome, repeats, TITLES } from "./cursor-words";

interface DialogProps {
  id: TopicId;
  subscription: string;
  action: CursorAction;
  /** The change to undo. */
  undo?: string | undefined;
  /** Called whenever something may have been changed. */
  onChanged: () => void;
  onClose: () => void;
}

/** `change` is null while the form is not complete. */
interface Asked {
  action: CursorAction;
  change: CursorChange | null;
}

/**
 * Moves a subscription's cursor: form, preview of exactly that form, the previewed change or a refusal that states the
 * difference, receipt with the brokers' counts, and undo.
 */
export function CursorDialog({ id, subscription, action, undo, onChanged, onClose }: DialogProps) {
  const [asked, setAsked] = useState<Asked>(() => ({ action, change: startOf(action, undo) }));
  const [receipt, setReceipt] = useState<CursorReceipt | null>(null);
  const client = useQueryClient();
  const lack = useLacks()["cursor-preview"];
  const onSettled = () => {
    onChanged();
    client.invalidateQueries({ queryKey: changesQuery(id).queryKey });
  };
  const preview = useQuery({
    queryKey: ["cursor-preview", id, subscription, asked],
    queryFn: () => previewCursor(id, subscription, asked.action, asked.change ?? {}),
    enabled: asked.change !== null && receipt === null,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
    retry: false,
  });
  const apply = useMutation({
    mutationFn: ({ token }: CursorPreview) => applyCursor(id, subscription, asked.action, token ?? ""),
    onSuccess: setReceipt,
    onSettled,
  });
  const back = useMutation({
    mutationFn: (change: string) => undoCursor(id, subscription, change),
    onSuccess: setReceipt,
    onError: (error, change) => {
      if (asApiError(error).mayHaveActed) return;
      // A conflict exists: the preview of the undo shows its present effect, and can be confirmed.
      setAsked({ action: "undo", change: { id: change } });
      setReceipt(null);
      apply.reset();
    },
    onSettled,
  });
  const again = () => {
    apply.reset();
    back.reset();
    preview.refetch();
  };
  const setChange = (change: CursorChange | null) => setAsked({ ...asked, change });
  return (
    <Dialog
      onClose={onClose}
      title={receipt ? "Done" : TITLES[asked.action]}
      closeOnClickOutside={!apply.isPending && !back.isPending}
      size="lg"
    >
      <div className={styles.dialog}>
        <p className={styles.target}>
          <span>Subscription</span> <b>{subscription}</b> <span>of</span>{" "}
          <b>{`${id.domain}://${id.tenant}/${id.namespace}/${id.topic}`}</b>
        </p>
        {back.error && (
          <NotDone
            error={back.error}
            id={id}
            subscription={subscription}
            isIt={({ undoes }) => undoes === back.variables}
          />
        )}
        {receipt ? (
          <Receipt
            receipt={receipt}
            commands={receipt.change === "undo" ? null : commandsOf(id, subscription, asked)}
            undoing={back.isPending}
            onUndo={back.mutate}
            onClose={onClose}
          />
        ) : (
          <>
            {asked.action === "reset" && <ResetForm change={asked.change} onChange={setChange} />}
            {asked.action === "skip" && <SkipForm change={asked.change} onChange={setChange} />}
            {preview.error ? (
              <ErrorNotice
                error={preview.error}
                title="The effect could not be computed"
                onRetry={() => preview.refetch()}
              />
            ) : (
              <Preview
                action={asked.action}
                preview={preview.data}
                at={preview.dataUpdatedAt}
                waiting={asked.change === null}
              />
            )}
            {lack && (
              <Notice tone="info">
                <p>
                  {lack}. The cluster may change between preview and change; where the subscription stands is
                  read again just before.
                </p>
              </Notice>
            )}
            {!apply.error && preview.data && (
              <ChangedSince id={id} subscription={subscription} at={preview.dataUpdatedAt} onAgain={again} />
            )}
            {apply.error && (
              <NotDone
                error={apply.error}
                id={id}
                subscription={subscription}
                isIt={(change) => change.id === apply.variables?.id}
              />
            )}
            {asked.action !== "undo" && asked.change !== null && (
              <CommandLines
                of={commandsOf(id, subscription, asked)}
                note="They do the same from the subscription's position at that time."
              />
            )}
            <div className={styles.buttons}>
              <Button variant="default" onClick={onClose}>
                Cancel
              </Button>
              {apply.error ? (
                <Button onClick={again}>Preview again</Button>
              ) : (
                <ApplyButton
                  preview={asked.change !== null && !preview.isFetching ? preview.data : undefined}
                  applying={apply.isPending}
                  onApply={apply.mutate}
                />
              )}
            </div>
          </>
        )}
      </div>
    </Dialog>
  );
}

function commandsOf(id: TopicId, subscription: string, { action, change }: Asked): Commands {
  const at = { ...id, subscription };
  switch (action) {
    case "skip-all":
      return COMMANDS.skipAll(at);
    case "skip":
      return COMMANDS.skip(at, { count: change?.count ?? 1 });
    case "reset":
      return COMMANDS.reset(at, { timestamp: change?.timestamp ?? 0 });
    case "undo":
      return COMMANDS.undo();
  }
}

/** Reports that another user moved the subscription while the dialog was open. */
function ChangedSince(props: { id: TopicId; subscription: string; at: number; onAgain: () => void }) {
  const look = useQuery({ ...changesQuery(props.id), refetchInterval: 5000, retry: false });
  const last = look.data?.changes.find(({ subscription }) => subscription === props.subscription);
  if (!last || last.at <= serverTime(props.at)) return null;
  return (
    <Notice tone="warning">
      <p>
        {last.by || "Another user"} changed this subscription at {dateTime(last.at)}: {outcome(last)}.
      </p>
      <Button variant="default" size="compact-sm" onClick={props.onAgain}>
        Preview again
      </Button>
    </Notice>
  );
}

/** Red for whatever loses unread messages. */
function ApplyButton({
  preview,
  applying,
  onApply,
}: {
  preview: CursorPreview | undefined;
  applying: boolean;
  onApply: (preview: CursorPreview) => void;
}) {
  const effective = preview && preview.token !== null && (loses(preview) || repeats(preview));
  return (
    <Button
      color={preview && loses(preview) ? "red" : "pulse"}
      loading={applying}
      disabled={!effective}
      onClick={() => preview && onApply(preview)}
    >
      {applyLabel(preview)}
    </Button>
  );
}

function startOf(action: CursorAction, undo: string | undefined): CursorChange {
  if (action === "reset") return { timestamp: serverNow() - 10 * 60_000 };
  if (action === "undo") return { id: undo ?? "" };
  return action === "skip" ? { count: 1 } : {};
}
