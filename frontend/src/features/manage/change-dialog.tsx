import { Button, NumberInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { bytes, count, dateTime, plural } from "../../lib/format";
import { NotDone } from "../../shared/changes/not-done";
import { CommandLines } from "../../shared/commands/command-lines";
import { COMMANDS, type Commands } from "../../shared/commands/commands";
import styles from "../../shared/cursor/cursor.module.css";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf } from "../../shared/topic/use-topic";
import { Dialog } from "../../ui/dialog";
import { Fact } from "../../ui/fact";
import { CheckIcon, WarningIcon } from "../../ui/icons";
import { ErrorNotice } from "../../ui/states";
import {
  applyLabel,
  consumersOf,
  does,
  doneOf,
  losers,
  lossOf,
  type TopicChange,
  type TopicPreview,
  unreadOf,
  usersOf,
  WORDS,
} from "./change-words";
import { applyChange, previewChange } from "./queries";

const PARTITIONS_MAX = 10_000;
const NAMED_MAX = 3;

/** Changes a topic as a whole: form, preview of exactly that, exactly what was previewed or a refusal, receipt. */
export function ChangeDialog({
  id,
  change,
  partitions,
  onChanged,
  onClose,
}: {
  id: TopicId;
  change: TopicChange;
  /** 0 of a plain topic. */
  partitions: number;
  /** Called whenever something may have been changed; with true when the topic is gone. */
  onChanged: () => void;
  onClose: (gone: boolean) => void;
}) {
  const [wanted, setWanted] = useState<number | null>(change === "partitions" ? partitions + 1 : null);
  const asked = change !== "partitions" || wanted !== null;
  const [shown, setShown] = useState<TopicPreview>();
  const preview = useQuery({
    queryKey: ["topic-change", id, change, wanted],
    queryFn: () => previewChange(id, change, wanted ?? undefined),
    enabled: asked && shown === undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
    retry: false,
  });
  const apply = useMutation({
    mutationFn: (seen: TopicPreview) => applyChange(id, change, seen.token ?? ""),
    onMutate: setShown,
    onError: () => setShown(undefined),
    onSettled: onChanged,
  });
  const now = asked && !preview.isFetching ? preview.data : undefined;
  const close = () => onClose(change === "delete" && apply.isSuccess);
  return (
    <Dialog
      onClose={close}
      title={apply.data ? "Done" : WORDS[change].title}
      closeOnClickOutside={!apply.isPending}
      size="lg"
    >
      <div className={styles.dialog}>
        <p className={styles.target}>
          <b>{nameOf(id)}</b>
        </p>
        {apply.data && shown ? (
          <>
            <div className={styles.preview} role="status">
              <p>
                <CheckIcon /> {dateTime(apply.data.at)}: {doneOf(change, shown, apply.data)}
              </p>
            </div>
            <CommandLines of={commandsOf(id, change, partitions, wanted)} />
            <div className={styles.buttons}>
              <Button onClick={close} data-autofocus>
                Close
              </Button>
            </div>
          </>
        ) : (
          <>
            {change === "partitions" && (
              <PartitionsForm present={partitions} value={wanted} onChange={setWanted} />
            )}
            {preview.error ? (
              <ErrorNotice
                error={preview.error}
                title="The effect could not be computed"
                onRetry={() => preview.refetch()}
              />
            ) : (
              <Preview change={change} preview={now ?? shown} waiting={!asked} />
            )}
            {apply.error && (
              <NotDone
                error={apply.error}
                what="topic"
                nothing={change === "delete" ? "Nothing was deleted" : undefined}
              />
            )}
            {asked && <CommandLines of={commandsOf(id, change, partitions, wanted)} note={NOTES[change]} />}
            <div className={styles.buttons}>
              <Button variant="default" onClick={close}>
                Cancel
              </Button>
              {apply.error ? (
                <Button
                  onClick={() => {
                    apply.reset();
                    preview.refetch();
                  }}
                >
                  Preview again
                </Button>
              ) : (
                <Button
                  color={change === "delete" || change === "terminate" ? "red" : "pulse"}
                  disabled={!now || !does(change, now)}
                  loading={apply.isPending}
                  onClick={() => now && apply.mutate(now)}
                >
                  {applyLabel(change, now ?? shown)}
                </Button>
              )}
            </div>
          </>
        )}
      </div>
    </Dialog>
  );
}

const NOTES: Partial<Record<TopicChange, string>> = {
  delete: "The commands delete whatever the topic holds then, previewed or not.",
};

function commandsOf(id: TopicId, change: TopicChange, partitions: number, wanted: number | null): Commands {
  switch (change) {
    case "delete":
      return COMMANDS.deleteTopic(id, { partitions });
    case "terminate":
      return COMMANDS.terminateTopic(id);
    case "unload":
      return COMMANDS.unloadTopic(id);
    case "partitions":
      return COMMANDS.addPartitions(id, { partitions: wanted ?? partitions });
  }
}

function PartitionsForm({
  present,
  value,
  onChange,
}: {
  present: number;
  value: number | null;
  onChange: (value: number | null) => void;
}) {
  const [text, setText] = useState<string | number>(value ?? "");
  return (
    <NumberInput
      label="Partitions"
      description={`More than the ${count(present)} that there are, at most ${count(PARTITIONS_MAX)}`}
      min={present + 1}
      max={PARTITIONS_MAX}
      allowDecimal={false}
      allowNegative={false}
      value={text}
      error={
        value === null ? `A whole number from ${count(present + 1)} to ${count(PARTITIONS_MAX)}` : undefined
      }
      onChange={(next) => {
        setText(next);
        const number = Number(next);
        const fits = next !== "" && Number.isSafeInteger(number);
        onChange(fits && number > present && number <= PARTITIONS_MAX ? number : null);
      }}
    />
  );
}

function Preview({
  change,
  preview,
  waiting,
}: {
  change: TopicChange;
  preview: TopicPreview | undefined;
  waiting: boolean;
}) {
  if (!preview)
    return (
      <div className={styles.preview} aria-live="polite">
        <span>{waiting ? "Complete the form to see what it would do." : "Computing what it would do…"}</span>
      </div>
    );
  const loss = change === "delete" ? lossOf(preview) : null;
  return (
    <div className={styles.preview} aria-live="polite" data-lost={loss !== null || undefined}>
      {loss && (
        <p className={styles.lost}>
          <WarningIcon />
          <span>
            <strong>{loss}</strong> go with it.
          </span>
        </p>
      )}
      {change === "delete" && !loss && preview.unread.length === 0 && (
        <p>No subscription has messages that it has not read.</p>
      )}
      {change === "terminate" && (
        <p>
          {preview.terminated
            ? "It is terminated already: nothing would change."
            : "Nobody publishes to it from then on. Its messages stay, and can be read to the end."}
        </p>
      )}
      {change === "unload" && (
        <p>Its broker closes it, and whoever uses it opens it again. Nothing is lost.</p>
      )}
      {change === "partitions" && (
        <p>
          From {plural(preview.partitions, "partition")} to{" "}
          {plural(preview.partitions_after ?? 0, "partition")}.
        </p>
      )}
      <Facts change={change} preview={preview} />
      <ul className={styles.remarks}>
        {REMARKS[change](preview).map((remark) => (
          <li key={remark}>{remark}</li>
        ))}
      </ul>
    </div>
  );
}

const REMARKS: Record<TopicChange, (preview: TopicPreview) => string[]> = {
  delete: (preview) => [
    preview.producers.length > 0
      ? "It cannot be undone. Stop the producers first: a message that comes after this preview keeps it from being done."
      : "It cannot be undone. A message that comes after this preview keeps it from being done.",
    ...(preview.remakes && usersOf(preview) !== null
      ? ["Clients that connect again make the topic anew: in this namespace they may."]
      : []),
    ...(preview.unread.length > 0
      ? [`Not known, because they cannot be read now: ${preview.unread.join(", ")}.`]
      : []),
    ...(preview.token === null ? ["It cannot be confirmed here: too many clients use it."] : []),
  ],
  terminate: () => ["It cannot be undone."],
  unload: () => ["Messages that were delivered and are not acknowledged are delivered again."],
  partitions: (preview) => [
    "They cannot be taken away again.",
    "Messages with a key may go to another partition than those before: their order starts anew.",
    ...(preview.subscriptions.length > 0
      ? [`The new ones get the topic's ${plural(preview.subscriptions.length, "subscription")}, too.`]
      : []),
  ],
};

function Facts({ change, preview }: { change: TopicChange; preview: TopicPreview }) {
  const lost = losers(preview);
  const consumers = consumersOf(preview);
  const parts = preview.partitions > 0 ? ` on ${plural(preview.partitions, "partition")}` : "";
  return (
    <dl className={styles.facts}>
      {change === "delete" && (
        <Fact label="Stored">
          {bytes(preview.bytes)}
          {parts}
        </Fact>
      )}
      {change === "delete" && lost.length > 1 && (
        <Fact label="Unread">
          {lost.slice(0, NAMED_MAX).map((one) => (
            <small key={one.name}>
              {one.name}: {unreadOf(one)}
            </small>
          ))}
          {lost.length > NAMED_MAX && <small>and {plural(lost.length - NAMED_MAX, "more", "more")}</small>}
        </Fact>
      )}
      {change !== "partitions" && (
        <Fact label="Producers">
          <Clients clients={preview.producers} kind="producer" away={change} />
        </Fact>
      )}
      {change !== "partitions" && change !== "terminate" && (
        <Fact label="Consumers">
          <Clients clients={consumers} kind="consumer" away={change} />
        </Fact>
      )}
    </dl>
  );
}

function Clients({
  clients,
  kind,
  away,
}: {
  clients: TopicPreview["producers"];
  kind: string;
  away: TopicChange;
}) {
  if (clients.length === 0) return "none connected";
  return (
    <>
      {plural(clients.length, kind)} connected, sent away{away === "unload" && " and back"}
      <small>
        {clients
          .slice(0, NAMED_MAX)
          .map(({ name, address }) => `${name} (${address.replace(/^\//, "")})`)
          .join(", ")}
        {clients.length > NAMED_MAX && ` and ${count(clients.length - NAMED_MAX)} more`}
      </small>
    </>
  );
}
