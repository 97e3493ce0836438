// `<input type="datetime-local">` speaks the browser's zone without naming it.

/** Milliseconds since the epoch as the value of a datetime-local field, to the second. */
export function toLocalInput(at: number): string {
  const date = new Date(at);
  const two = (value: number) => String(value).padStart(2, "0");
  const day = `${String(date.getFullYear()).padStart(4, "0")}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day}T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** The field's value as milliseconds; null while it is incomplete. */
export function fromLocalInput(text: string): number | null {
  if (!/^\d{4,6}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text)) return null;
  const at = new Date(text).getTime();
  return Number.isNaN(at) ? null : at;
}
