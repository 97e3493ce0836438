import { asApiError } from "../../lib/errors";
import { ErrorNotice } from "../../ui/states";

/** A change that failed. `title` states that it was not made; it is shown only where that is certain. */
export function ChangeFailure({ error, title }: { error: unknown; title: string }) {
  const failure = asApiError(error);
  return (
    <ErrorNotice
      error={failure}
      title={
        failure.mayHaveActed ? "It is not known whether this was done. Check it before you repeat it" : title
      }
    />
  );
}
