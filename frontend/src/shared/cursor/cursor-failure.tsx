import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { CursorPart, LastChange } from "../../api/types";
import { asApiError } from "../../lib/errors";
import { count, dateTime } from "../../lib/format";
import styles from "../../ui/dialog.module.css";
import { Notice } from "../../ui/states";
import { ChangeFailure } from "../changes/change-failure";
import type { TopicId } from "../topic/queries";
import { changesQuery } from "./cursor-queries";
import { outcome } from "./cursor-words";

/** A change that was refused, or whose result is unknown. `isIt`: whether a last change is this one. */
export function NotDone(props: {
  error: unknown;
  id: TopicId;
  subscription: string;
  isIt: (change: LastChange) => boolean;
}) {
  const failure = asApiError(props.error);
  if (failure.mayHaveActed) return <Unknown {...props} />;
  const parts = Array.isArray(failure.body.parts) ? (failure.body.parts as CursorPart[]) : [];
  if (failure.status !== 409) return <ChangeFailure error={failure} title="Nothing was changed" />;
  return <Difference reason={failure.message} parts={parts} />;
}

/** The obstacles, partition by partition. */
function Difference({ reason, parts }: { reason: string; parts: CursorPart[] }) {
  const refused = parts.filter(({ why }) => why);
  const done = parts.filter((part) => part.done);
  return (
    <Notice tone="error">
      <strong>{done.length > 0 ? "Only some partitions were changed" : "Nothing was changed"}</strong>
      <p lang="en">{reason}.</p>
      {refused.length > 0 && (
        <ul className={styles.remarks}>
          {refused.map((part) => (
            <li key={part.partition ?? -1}>
              {part.partition !== null && `Partition ${part.partition}: `}
              {part.entries
                ? `${count(part.entries)} ${part.entries === 1 ? "entry differs" : "entries differ"}`
                : part.reason}
              {part.mark_delete && (
                <>
                  ; acknowledged now up to <span className="mono">{part.mark_delete}</span>
                </>
              )}
            </li>
          ))}
        </ul>
      )}
      {done.length > 0 && <p>Changed: {done.map(({ partition }) => `partition ${partition}`).join(", ")}.</p>}
    </Notice>
  );
}

/** No answer: the subscription's last change shows whether it was made. */
function Unknown({
  error,
  id,
  subscription,
  isIt,
}: {
  error: unknown;
  id: TopicId;
  subscription: string;
  isIt: (change: LastChange) => boolean;
}) {
  const look = useQuery({ ...changesQuery(id), retry: false, refetchOnWindowFocus: false });
  const found = look.data?.changes.find((change) => change.subscription === subscription && isIt(change));
  const silent = look.data?.unknown.length ?? 0;
  return (
    <Notice tone={found ? "info" : "warning"}>
      <strong>{found ? "The change was made" : "It is not known whether the change was made"}</strong>
      <p lang={asApiError(error).lang}>{asApiError(error).message}.</p>
      {found && (
        <p>
          At {dateTime(found.at)}: {outcome(found)}.
        </p>
      )}
      {look.data && !found && silent === 0 && (
        <p>Checked at {dateTime(look.dataUpdatedAt)}: the change was not made.</p>
      )}
      {silent > 0 && <p>{count(silent)} of the partitions do not answer.</p>}
      {look.error && (
        <p>
          The broker does not answer yet: <span lang="en">{asApiError(look.error).message}</span>.
        </p>
      )}
      {!found && (
        <Button variant="default" size="compact-sm" loading={look.isFetching} onClick={() => look.refetch()}>
          Check again
        </Button>
      )}
    </Notice>
  );
}
