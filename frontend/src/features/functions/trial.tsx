import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { dateTime, plural, tenths } from "../../lib/format";
import { ActionButton } from "../../ui/action-button";
import { Code } from "../../ui/code/code";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Notice } from "../../ui/states";
import {
  type Deployment,
  type FunctionPlace,
  type TriedMessage,
  tryFunction,
} from "./model/function-queries";
import { trialText, valueText } from "./model/trial-text";

const MESSAGES = 10;
const wrap = { overflowWrap: "anywhere" } as const;

/** A function on the last messages of its inputs, without deploying it. `ask` null: the form around it is not right. */
export function Trial({
  ask,
  why,
  children,
}: {
  ask: () => { place: FunctionPlace; deployment: Deployment } | null;
  why: string | null;
  /** About the code that is tried, unless it is that of the form. */
  children?: ReactNode;
}) {
  const trial = useMutation({
    mutationFn: ({ place, deployment }: { place: FunctionPlace; deployment: Deployment }) =>
      tryFunction(place, deployment, MESSAGES),
  });
  const start = () => {
    const given = ask();
    if (given) trial.mutate(given);
  };
  return (
    <Panel title="Try it" note="nothing is published, stored or acknowledged">
      <div style={{ display: "grid", gap: 12 }}>
        {children && <p style={{ margin: 0 }}>{children}</p>}
        <div>
          <ActionButton variant="default" why={why} onClick={start} loading={trial.isPending}>
            {`Try on the last ${MESSAGES} messages`}
          </ActionButton>
        </div>
        {trial.error && <ErrorNotice title="The function was not tried" error={trial.error} />}
        {trial.data && (
          <section aria-label="Trial" aria-live="polite" style={{ display: "grid", gap: 8 }}>
            {trial.data.ended && (
              <Notice tone="warning">
                <p>
                  The trial ended early: <span lang="en">{trial.data.ended}</span>.
                </p>
              </Notice>
            )}
            {trial.data.messages.length === 0 && <Empty title="The inputs have no messages" />}
            {trial.data.unreadable + trial.data.left_out > 0 && (
              <p style={{ margin: 0 }}>
                {plural(
                  trial.data.unreadable + trial.data.left_out,
                  "message or batch",
                  "messages or batches",
                )}{" "}
                cannot be tried: encrypted, in chunks, damaged or too large.
              </p>
            )}
            {trial.data.secrets.length > 0 && (
              <p style={{ margin: 0 }}>A trial has no secrets. Asked for: {trial.data.secrets.join(", ")}.</p>
            )}
            {trial.data.messages.map((message) => (
              <Tried key={`${message.topic} ${message.id}`} message={message} />
            ))}
          </section>
        )}
      </div>
    </Panel>
  );
}

function Tried({ message }: { message: TriedMessage }) {
  return (
    <details open={message.error !== ""}>
      <summary style={wrap}>
        {message.error ? "Exception" : valueText(message.output)} ← {valueText(message.input)}
        {message.took_ms !== null && ` (${tenths(message.took_ms)} ms)`}
      </summary>
      <p style={wrap}>
        {message.topic}, {message.id}, {dateTime(message.published_at)}
      </p>
      <Code label={`Result for message ${message.id}`}>{trialText(message)}</Code>
    </details>
  );
}
