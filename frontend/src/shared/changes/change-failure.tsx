import { asApiError } from "../../lib/errors";
import { ErrorNotice } from "../../ui/states";

/** A change that failed. `title` states that it was not made: shown only where that is certain, else `unknown`. */
export function ChangeFailure({
  error,
  title,
  unknown = "It is not known whether this was done. Check it before you repeat it",
}: {
  error: unknown;
  title: string;
  unknown?: string;
}) {
  const failure = asApiError(error);
  return <ErrorNotice error={failure} title={failure.mayHaveActed ? unknown : title} />;
}
