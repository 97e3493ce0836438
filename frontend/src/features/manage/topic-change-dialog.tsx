import { NumberInput } from "@mantine/core";
import { useRef, useState } from "react";
import { bytes, count, dateTime, plural } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { COMMANDS, type Commands } from "../../shared/commands/commands";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf } from "../../shared/topic/use-topic";
import styles from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { CheckIcon, WarningIcon } from "../../ui/icons";
import {
  applyLabel,
  consumersOf,
  doneOf,
  losers,
  lossOf,
  type TopicChange,
  type TopicPreview,
  type TopicReceipt,
  unreadOf,
  usersOf,
  WORDS,
} from "./change-words";
import { applyChange, previewChange } from "./queries";

const PARTITIONS_MAX = 10_000;
const NAMED_MAX = 3;

interface Wanted {
  partitions?: number;
}

/** Changes a topic as a whole. */
export function TopicChangeDialog({
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
  /** Called whenever something may have been changed. */
  onChanged: () => void;
  /** Called with true when the topic was deleted. */
  onClose: (isGone: boolean) => void;
}) {
  const isClosed = useRef(false);
  const [more, setMore] = useState<number | null>(partitions + 1);
  const growth = more === null ? null : { partitions: more };
  return (
    <ChangeDialog<Wanted, TopicPreview, TopicReceipt>
      title={WORDS[change].title}
      target={<b>{nameOf(id)}</b>}
      what="topic"
      id={["topic", id, change]}
      wanted={change === "partitions" ? growth : {}}
      form={
        change === "partitions"
          ? (isDisabled, problem) => (
              <PartitionsForm
                present={partitions}
                value={more}
                isDisabled={isDisabled}
                problem={problem}
                onChange={setMore}
              />
            )
          : undefined
      }
      ask={(wanted) => previewChange(id, change, wanted.partitions)}
      apply={async (token) => {
        const receipt = await applyChange(id, change, token);
        if (isClosed.current && change === "delete") onClose(true); // the page shows a topic that is no more
        return receipt;
      }}
      preview={(_, preview) => <Preview change={change} preview={preview} />}
      losesData={(preview) => change === "delete" && lossOf(preview) !== null}
      receipt={(_, receipt, preview) => (
        <p>
          <CheckIcon /> {dateTime(receipt.at)}: {doneOf(change, preview, receipt)}
        </p>
      )}
      label={(_, preview) => applyLabel(change, preview)}
      red={change === "delete" || change === "terminate"}
      commands={(wanted) => commandsOf(id, change, partitions, wanted)}
      note={NOTES[change]}
      nothing={change === "delete" ? "Nothing was deleted" : undefined}
      onChanged={onChanged}
      onClose={(isDone) => {
        isClosed.current = true;
        onClose(change === "delete" && isDone);
      }}
    />
  );
}

const NOTES: Partial<Record<TopicChange, string>> = {
  delete: "The commands delete everything that the topic holds at that time, previewed or not.",
};

function commandsOf(id: TopicId, change: TopicChange, partitions: number, wanted: Wanted): Commands {
  switch (change) {
    case "delete":
      return COMMANDS.deleteTopic(id, { partitions });
    case "terminate":
      return COMMANDS.terminateTopic(id);
    case "unload":
      return COMMANDS.unloadTopic(id);
    case "partitions":
      return COMMANDS.addPartitions(id, { partitions: wanted.partitions ?? partitions });
  }
}

function PartitionsForm({
  present,
  value,
  isDisabled,
  problem,
  onChange,
}: {
  present: number;
  value: number | null;
  isDisabled: boolean;
  problem: string | null;
  onChange: (value: number | null) => void;
}) {
  const [text, setText] = useState<string | number>(value ?? "");
  return (
    <NumberInput
      label="Partitions"
      description={`More than the present ${count(present)}, at most ${count(PARTITIONS_MAX)}`}
      min={present + 1}
      max={PARTITIONS_MAX}
      allowDecimal={false}
      allowNegative={false}
      disabled={isDisabled}
      value={text}
      error={
        value === null ? `A whole number from ${count(present + 1)} to ${count(PARTITIONS_MAX)}` : problem
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

function Preview({ change, preview }: { change: TopicChange; preview: TopicPreview }) {
  const loss = change === "delete" ? lossOf(preview) : null;
  return (
    <>
      {loss && (
        <p className={styles.lost}>
          <WarningIcon />
          <span>
            <strong>{loss}</strong> {loss.startsWith("1 ") ? "is" : "are"} deleted with it.
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
            : "Publishing is refused from then on. Its messages stay, and can be read to the end."}
        </p>
      )}
      {change === "unload" && (
        <p>Its broker closes it; it is loaded again at its next use. No messages are lost.</p>
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
        {preview.token === null && !(change === "terminate" && preview.terminated) && (
          <li>It cannot be confirmed here: too many clients use it.</li>
        )}
      </ul>
    </>
  );
}

const REMARKS: Record<TopicChange, (preview: TopicPreview) => string[]> = {
  delete: (preview) => [
    preview.producers.length > 0
      ? "It cannot be undone. Stop the producers first: a message that arrives after this preview prevents the deletion."
      : "It cannot be undone. A message that arrives after this preview prevents the deletion.",
    ...(preview.remakes && usersOf(preview) !== null
      ? ["Clients that reconnect will recreate the topic (auto-creation is on here)."]
      : []),
    ...(preview.unread.length > 0
      ? [`Not known, because they cannot be read now: ${preview.unread.join(", ")}.`]
      : []),
  ],
  terminate: () => ["It cannot be undone."],
  unload: () => ["Unacknowledged messages are delivered again."],
  partitions: (preview) => [
    "Partitions cannot be removed again.",
    "Messages with a key may be sent to another partition than earlier ones: their order is not kept across the change.",
    ...(preview.subscriptions.length > 0
      ? [
          `The topic's ${plural(preview.subscriptions.length, "subscription")} ${preview.subscriptions.length === 1 ? "is" : "are"} created on the new partitions, too.`,
        ]
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
      {plural(clients.length, kind)} connected; {clients.length === 1 ? "it" : "they"} will be disconnected
      {away === "unload" && " and reconnect"}
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
