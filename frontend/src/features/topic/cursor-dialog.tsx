import { Button, NativeSelect, NumberInput, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { CursorAction, CursorPreview, CursorReceipt } from "../../api/types";
import { serverNow } from "../../lib/clock";
import { count, dateTime, plural } from "../../lib/format";
import { fromLocalInput, toLocalInput } from "../../lib/local-time";
import { Command } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { CheckIcon } from "../../ui/icons";
import { ErrorNotice } from "../../ui/states";
import { applyCursor, type CursorChange, previewCursor, type TopicId, topicQuery } from "./queries";
import styles from "./topic.module.css";
import { nameOf } from "./use-topic";

const TITLES: Record<CursorAction, string> = {
  "skip-all": "Skip all messages",
  skip: "Skip messages",
  reset: "Reset to a time",
};

interface DialogProps {
  id: TopicId;
  subscription: string;
  action: CursorAction;
  onClose: () => void;
}

/** Moves a subscription's cursor: form, preview of exactly that form, apply, receipt with the commands. */
export function CursorDialog({ id, subscription, action, onClose }: DialogProps) {
  const client = useQueryClient();
  const [change, setChange] = useState<CursorChange | null>(() => startOf(action));
  const preview = useQuery({
    queryKey: ["cursor-preview", id, subscription, action, change],
    queryFn: () => previewCursor(id, subscription, action, change ?? {}),
    enabled: change !== null,
    staleTime: 10_000,
    gcTime: 0,
    refetchOnWindowFocus: false,
    retry: false,
  });
  const apply = useMutation({
    mutationFn: (confirmed: CursorChange) => applyCursor(id, subscription, action, confirmed),
    onSettled: () => client.invalidateQueries({ queryKey: topicQuery(id).queryKey }),
  });
  return (
    <Dialog
      onClose={onClose}
      title={apply.data ? "Done" : TITLES[action]}
      closeOnClickOutside={!apply.isPending}
    >
      <div className={styles.dialog}>
        <p className={styles.target}>
          <span>Subscription</span> <b>{subscription}</b> <span>of</span> <b>{nameOf(id)}</b>
        </p>
        {apply.data ? (
          <Receipt receipt={apply.data} preview={preview.data} action={action} onClose={onClose} />
        ) : (
          <>
            {action === "reset" && <ResetForm change={change} onChange={setChange} />}
            {action === "skip" && <SkipForm change={change} onChange={setChange} />}
            {preview.error ? (
              <ErrorNotice
                error={preview.error}
                title="The effect could not be computed"
                onRetry={() => preview.refetch()}
              />
            ) : (
              <Preview action={action} preview={preview.data} waiting={change === null} />
            )}
            {apply.error && <ErrorNotice error={apply.error} title="The change may not have been applied" />}
            <div className={styles.buttons}>
              <Button variant="default" onClick={onClose}>
                Cancel
              </Button>
              <Button
                color={action === "reset" ? "pulse" : "red"}
                loading={apply.isPending}
                disabled={change === null || !preview.data || preview.isFetching}
                onClick={() => change && apply.mutate(change)}
              >
                {applyLabel(action, preview.data)}
              </Button>
            </div>
          </>
        )}
      </div>
    </Dialog>
  );
}

function startOf(action: CursorAction): CursorChange {
  if (action === "reset") return { timestamp: serverNow() - 10 * 60_000 };
  return action === "skip" ? { count: 1 } : {};
}

function applyLabel(action: CursorAction, preview: CursorPreview | undefined): string {
  if (!preview) return "Apply";
  const entries = plural(preview.affected, "entry", "entries");
  return action === "reset" ? `Reset, touching ${entries}` : `Skip ${entries}`;
}

const AGO = [
  { value: "", label: "Rewind by…" },
  { value: "1", label: "1 minute" },
  { value: "10", label: "10 minutes" },
  { value: "60", label: "1 hour" },
  { value: "1440", label: "1 day" },
];

function ResetForm({
  change,
  onChange,
}: {
  change: CursorChange | null;
  onChange: (to: CursorChange | null) => void;
}) {
  const [text, setText] = useState(() => toLocalInput(change?.timestamp ?? serverNow()));
  const at = fromLocalInput(text);
  const put = (next: string) => {
    setText(next);
    const timestamp = fromLocalInput(next);
    onChange(timestamp === null ? null : { timestamp });
  };
  return (
    <div className={styles.row}>
      <TextInput
        type="datetime-local"
        step={1}
        label="Deliver again what was published from"
        description="In this browser's time zone"
        value={text}
        error={at === null ? "Give a full date and time" : undefined}
        onChange={(event) => put(event.currentTarget.value)}
      />
      <NativeSelect
        aria-label="Rewind by"
        data={AGO}
        value=""
        onChange={(event) => {
          const minutes = Number(event.currentTarget.value);
          if (minutes > 0) put(toLocalInput(serverNow() - minutes * 60_000));
        }}
      />
    </div>
  );
}

function SkipForm({
  change,
  onChange,
}: {
  change: CursorChange | null;
  onChange: (to: CursorChange | null) => void;
}) {
  const [value, setValue] = useState<string | number>(change?.count ?? 1);
  return (
    <NumberInput
      label="Messages to skip"
      description="From the oldest unacknowledged message on; they will not be delivered"
      min={1}
      max={Number.MAX_SAFE_INTEGER}
      allowDecimal={false}
      allowNegative={false}
      thousandSeparator=","
      value={value}
      error={change === null ? "A whole number, 1 or more" : undefined}
      onChange={(next) => {
        setValue(next);
        const number = Number(next);
        onChange(next !== "" && Number.isSafeInteger(number) && number >= 1 ? { count: number } : null);
      }}
    />
  );
}

function Preview({
  action,
  preview,
  waiting,
}: {
  action: CursorAction;
  preview: CursorPreview | undefined;
  waiting: boolean;
}) {
  return (
    <div className={styles.preview} aria-live="polite">
      {preview ? (
        <>
          <div>
            <strong>{count(preview.affected)}</strong> {effect(action, preview.affected)}
          </div>
          <Positions preview={preview} />
        </>
      ) : (
        <span>{waiting ? "Complete the form to see what it would do." : "Computing what it would do…"}</span>
      )}
    </div>
  );
}

/** An entry holds one message or a whole batch; positions and counts of a cursor are in entries. */
function effect(action: CursorAction, affected: number): string {
  const noun = affected === 1 ? "entry" : "entries";
  return action === "reset"
    ? `${noun} will be delivered again or passed over`
    : `${noun} will not be delivered to this subscription`;
}

function Positions({ preview, moved = false }: { preview: CursorPreview; moved?: boolean }) {
  return (
    <dl>
      <div>
        <dt>{moved ? "Position before" : "Position now"}</dt>
        <dd className="mono">{preview.from ?? "—"}</dd>
      </div>
      <div>
        <dt>after</dt>
        <dd className="mono">{preview.to ?? "—"}</dd>
      </div>
    </dl>
  );
}

function Receipt({
  receipt,
  preview,
  action,
  onClose,
}: {
  receipt: CursorReceipt;
  preview: CursorPreview | undefined;
  action: CursorAction;
  onClose: () => void;
}) {
  return (
    <>
      <div className={styles.preview} role="status">
        <div>
          <CheckIcon /> Applied at {dateTime(serverNow())}
          {preview &&
            `: ${plural(preview.affected, "entry", "entries")} ${action === "reset" ? "touched" : "skipped"}`}
        </div>
        {preview && <Positions preview={preview} moved />}
      </div>
      <Command label="curl" text={receipt.commands.curl} />
      <Command label="pulsar-admin" text={receipt.commands.pulsar_admin} />
      <div className={styles.buttons}>
        <Button onClick={onClose} data-autofocus>
          Close
        </Button>
      </div>
    </>
  );
}
