import { ApiError } from "../../lib/errors";

/**
 * The gateway's refusals of a form, by the names of its fields. `rest`: a refusal without a field, or the reason why none
 * is known.
 */
export interface Refusals<Field extends string> {
  of: Partial<Record<Field, string>>;
  rest: ApiError | null;
}

/** `labels`: those of the form's fields. */
export function refusalsOf<Field extends string>(
  error: unknown,
  labels: Record<Field, string>,
): Refusals<Field> {
  if (!(error instanceof ApiError)) return { of: {}, rest: null };
  const fields = Object.keys(labels) as Field[];
  const field = fields.find((name) => name === error.field || error.message.startsWith(`${name}: `));
  if (!error.isRefusal || field === undefined) return { of: {}, rest: error };
  const text = error.message.replace(`${field}: `, "");
  return { of: { [field]: /^\p{Ll}/u.test(text) ? `${labels[field]} ${text}` : text } as never, rest: null };
}
