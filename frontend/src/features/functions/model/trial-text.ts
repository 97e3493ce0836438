import type { TriedMessage } from "./function-queries";

type Value = TriedMessage["output"];

const NOTHING = { text: "nothing" };
const DELETED = { text: "deleted" };

/** The text of a value; bytes that are no text in base64. */
export function valueText(value: Value): string {
  if (value === null) return NOTHING.text;
  return value.text ?? value.base64 ?? "";
}

/** The result of a function for a message, as lines. */
export function trialText(message: TriedMessage): string {
  return [
    `input    ${valueText(message.input)}`,
    ...(message.error ? [message.error.trimEnd()] : [`output   ${valueText(message.output)}`]),
    ...message.publications.map(({ topic, value }) => `publish  ${topic}: ${valueText(value)}`),
    ...message.state.map(
      ({ key, value }) => `state    ${key} = ${value === null ? DELETED.text : valueText(value)}`,
    ),
    ...message.logs.map((line) => `log      ${line}`),
    ...(message.dropped > 0 ? [`and ${message.dropped} more lines`] : []),
  ].join("\n");
}
