import { asApiError } from "../../lib/errors";
import { ErrorNotice, Notice } from "../../ui/states";

/** A previewed change of `what` that was refused, or of which nobody knows. `nothing`: what is said of a conflict. */
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
  if (failure.status !== 409)
    return (
      <ErrorNotice
        error={failure}
        title={
          failure.mayHaveActed
            ? `It is not known whether it was done: look at the ${what}`
            : "Nothing was changed"
        }
      />
    );
  return (
    <div role="alert">
      <Notice tone="error">
        <strong>{nothing}</strong>
        <p>{failure.message}.</p>
      </Notice>
    </div>
  );
}
