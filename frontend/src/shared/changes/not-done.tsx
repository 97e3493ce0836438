import { asApiError } from "../../lib/errors";
import { Notice } from "../../ui/states";
import { ChangeFailure } from "./change-failure";

/** A previewed change of `what` that was refused, or whose result is unknown. `nothing`: the text of a conflict. */
export function NotDone({
  error,
  what,
  nothing = "Nothing was changed",
}: {
  error: unknown;
  what: string;
  nothing?: string | undefined;
}) {
  const failure = asApiError(error);
  const parts = Array.isArray(failure.body.parts) ? (failure.body.parts as Part[]) : [];
  if (parts.some(({ done }) => done)) return <OnSome reason={failure.message} parts={parts} />;
  if (failure.status !== 409)
    return (
      <ChangeFailure
        error={failure}
        title="Nothing was changed"
        unknown={`It is not known whether it was done: check the ${what}`}
      />
    );
  return (
    <div role="alert">
      <Notice tone="error">
        <strong>{nothing}</strong>
        <p lang={failure.lang}>{failure.message}.</p>
      </Notice>
    </div>
  );
}

interface Part {
  partition: number | null;
  done: boolean;
  reason?: string;
}

/** Done on some partitions, and not, or not known to be, on the others. */
function OnSome({ reason, parts }: { reason: string; parts: Part[] }) {
  const done = parts.filter((part) => part.done);
  return (
    <div role="alert">
      <Notice tone="error">
        <strong>It was done on some partitions only</strong>
        <p lang="en">{reason}.</p>
        <ul>
          {parts
            .filter((part) => !part.done)
            .map((part) => (
              <li key={part.partition}>
                Partition {part.partition}: {part.reason ?? "not done"}
              </li>
            ))}
        </ul>
        <p>Done: {done.map(({ partition }) => `partition ${partition}`).join(", ")}.</p>
      </Notice>
    </div>
  );
}
