import type { CursorAction, CursorPreview } from "../../api/types";
import { count, dateTime, duration, known, plural } from "../../lib/format";
import styles from "../../ui/dialog.module.css";
import { Fact } from "../../ui/fact";
import { Table } from "../../ui/grid/table";
import { WarningIcon } from "../../ui/icons";
import { againOf, discardedOf, inEntries, loses, repeats } from "./cursor-words";

/** The effect of a change: first lost and redelivered messages, then the place and the subscription. */
export function Preview({
  action,
  preview,
  at,
  waiting,
}: {
  action: CursorAction;
  preview: CursorPreview | undefined;
  at: number;
  waiting: boolean;
}) {
  if (!preview)
    return (
      <div className={styles.preview} aria-live="polite">
        <span>{waiting ? "Complete the form to see the preview." : "Computing the preview…"}</span>
      </div>
    );
  const lost = loses(preview);
  return (
    <div className={styles.preview} aria-live="polite" data-lost={lost || undefined}>
      {lost && (
        <p className={styles.lost}>
          <WarningIcon />
          <span>
            <strong>{discardedOf(preview)}</strong> will be discarded for this subscription.
          </span>
        </p>
      )}
      {repeats(preview) && (
        <p>
          <strong>{againOf(preview)}</strong> that {preview.again === 1 ? "was" : "were"} acknowledged will be
          delivered again.
        </p>
      )}
      {!lost && !repeats(preview) && (
        <p>
          {preview.gone > 0
            ? "It cannot be undone: no message of the change is stored any more."
            : "Nothing would change: the subscription is at this position already."}
        </p>
      )}
      <Facts preview={preview} />
      {preview.parts.length > 1 && <Partitions preview={preview} />}
      <Remarks action={action} preview={preview} at={at} />
    </div>
  );
}

function Facts({ preview }: { preview: CursorPreview }) {
  const { span, consumers, parts } = preview;
  const [only] = parts;
  const single = parts.length === 1 ? only : undefined;
  const entries = inEntries(preview);
  return (
    <dl className={styles.facts}>
      {single && (
        <Fact label="Next message">
          <span className="mono">{single.from}</span> → <span className="mono">{single.to}</span>
        </Fact>
      )}
      {entries && <Fact label="Stored">{entries}</Fact>}
      {span && (
        <Fact label="Published">
          {dateTime(span.from)} – {dateTime(span.to)}
        </Fact>
      )}
      {single?.first && (
        <Fact label="First">
          <Message message={single.first} />
        </Fact>
      )}
      {single?.last && single.last.id !== single.first?.id && (
        <Fact label="Last">
          <Message message={single.last} />
        </Fact>
      )}
      {preview.holes > 0 && (
        <Fact label="Acknowledged between">{plural(preview.holes, "entry", "entries")}</Fact>
      )}
      {preview.delayed !== 0 && (
        <Fact label="Not due yet">
          {preview.delayed === null ? "not known" : plural(preview.delayed, "delayed message")}
        </Fact>
      )}
      <Fact label="Consumers">
        {consumers.length === 0
          ? "none connected"
          : `${plural(consumers.length, "consumer")} connected${repeats(preview) ? "; they reconnect at the new position" : ""}`}
        {consumers.length > 0 && (
          <small>
            {consumers
              .slice(0, 3)
              .map(({ name }) => name)
              .join(", ")}
            {consumers.length > 3 && ` and ${count(consumers.length - 3)} more`}
          </small>
        )}
      </Fact>
    </dl>
  );
}

function Message({ message }: { message: NonNullable<CursorPreview["parts"][number]["first"]> }) {
  return (
    <>
      <span className="mono">{message.id}</span>
      <small>
        {message.publish_time !== null && dateTime(message.publish_time)}
        {message.key !== null && `, key ${message.key}`}
      </small>
    </>
  );
}

function Partitions({ preview }: { preview: CursorPreview }) {
  return (
    <Table
      caption="By partition"
      maxHeight={200}
      rows={preview.parts}
      rowKey={({ partition }) => partition ?? -1}
      columns={[
        { key: "partition", header: "Partition", numeric: true, cell: ({ partition }) => partition },
        { key: "lost", header: "Discarded", numeric: true, cell: ({ lost }) => known(lost, count) },
        { key: "again", header: "Again", numeric: true, cell: ({ again }) => known(again, count) },
        { key: "from", header: "Next now", cell: ({ from }) => <span className="mono">{from}</span> },
        { key: "to", header: "after", cell: ({ to }) => <span className="mono">{to}</span> },
      ]}
    />
  );
}

/** Further facts to know before the confirmation. */
function Remarks({ action, preview, at }: { action: CursorAction; preview: CursorPreview; at: number }) {
  const lost = loses(preview);
  return (
    <ul className={styles.remarks}>
      <li>State at {dateTime(at)}. Messages that arrive later are not affected.</li>
      {preview.gone > 0 && (
        <li>{plural(preview.gone, "entry was", "entries were")} deleted since, and cannot be restored.</li>
      )}
      {preview.moved > 0 && (
        <li>
          Another user moved the subscription since that change; {plural(preview.moved, "entry", "entries")}{" "}
          would be left as they are now.
        </li>
      )}
      {preview.undoable && lost && preview.kept_ms > 0 && (
        <li>
          It can be undone in full for {duration(preview.kept_ms / 1000)}; after that, messages that retention
          does not keep are deleted.
        </li>
      )}
      {preview.undoable && lost && preview.kept_ms === 0 && (
        <li>Undo restores only messages that are still stored then: this subscription is not durable.</li>
      )}
      {!preview.undoable && action !== "undo" && (
        <li>It could not be undone: too much is acknowledged out of order to be kept.</li>
      )}
      {preview.token === null && (
        <li>It cannot be confirmed here: too much is acknowledged out of order. Use pulsar-admin.</li>
      )}
    </ul>
  );
}
