import type { ReactNode } from "react";
import { ApiError } from "../../lib/errors";
import { LANGUAGE } from "../../lib/words";

/**
 * The gateway's refusals of a form, by the names of its fields. `rest`: a refusal without a field, or the reason why none
 * is known.
 */
export interface Refusals<Field extends string> {
  of: Partial<Record<Field, ReactNode>>;
  rest: ApiError | null;
}

/** `labels`: those of the form's fields, which begin a refusal in the language of the gateway alone. */
export function refusalsOf<Field extends string>(
  error: unknown,
  labels: Record<Field, string>,
): Refusals<Field> {
  if (!(error instanceof ApiError)) return { of: {}, rest: null };
  const fields = Object.keys(labels) as Field[];
  const field = fields.find((name) => name === error.field || error.message.startsWith(`${name}: `));
  if (!error.isRefusal || field === undefined) return { of: {}, rest: error };
  const text = error.message.replace(`${field}: `, "");
  const isRest = LANGUAGE === "en" && /^\p{Ll}/u.test(text);
  const shown = <span lang="en">{isRest ? `${labels[field]} ${text}` : text}</span>;
  return { of: { [field]: shown } as never, rest: null };
}
