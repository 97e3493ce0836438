import { Button, NativeSelect, NumberInput, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import type { Candidate, Rehearsal, SchemaKind, SchemaVersions, Verdict } from "../../api/types";
import { asApiError } from "../../lib/errors";
import { count } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf } from "../../shared/topic/use-topic";
import { ActionButton } from "../../ui/action-button";
import { Panel } from "../../ui/panel";
import { ErrorNotice, Loading, Notice } from "../../ui/states";
import { judge, rehearse, versionQuery } from "./queries";
import { Result } from "./rehearsal";
import styles from "./schema.module.css";
import { VerdictNotice } from "./verdict";

const RegisterDialog = lazy(() =>
  import("./register-dialog").then((module) => ({ default: module.RegisterDialog })),
);

const TYPES: readonly SchemaKind[] = [
  ...(["AVRO", "JSON", "PROTOBUF", "PROTOBUF_NATIVE", "KEY_VALUE", "STRING", "BOOLEAN"] as const),
  ...(["INT8", "INT16", "INT32", "INT64", "FLOAT", "DOUBLE", "DATE", "TIME", "TIMESTAMP"] as const),
  ...(["INSTANT", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME"] as const),
];
const DEFINED: readonly SchemaKind[] = ["AVRO", "JSON", "PROTOBUF", "PROTOBUF_NATIVE", "KEY_VALUE"];
const MESSAGES = 100;
const MESSAGES_MAX = 1_000;

/** The tried candidate and its results. `rehearsal` null: there are no messages to read. */
interface Tried {
  candidate: Candidate;
  verdict: Verdict;
  rehearsal: Rehearsal | null;
  /** The reason why the messages could not be read. */
  failure: Error | null;
}

/** A schema typed in by the user: whether it is compatible, and the last messages decoded with it. */
export function CandidatePanel({
  id,
  newest,
  shown,
}: {
  id: TopicId;
  newest: SchemaVersions;
  shown: number | null;
}) {
  const client = useQueryClient();
  const [form, setForm] = useState<Form>({ type: "AVRO", definition: "", properties: "" });
  const [messages, setMessages] = useState<string | number>(MESSAGES);
  const [registering, setRegistering] = useState(false);
  const candidate = candidateOf(form);
  const number = Number(messages);
  const isNumber = Number.isInteger(number) && number >= 1 && number <= MESSAGES_MAX;
  const attempt = useMutation({ mutationFn: (asked: Candidate) => tryOut(id, asked, number) });
  const tried = attempt.data;
  const isCurrent = tried !== undefined && JSON.stringify(tried.candidate) === JSON.stringify(candidate);
  const start = useMutation({
    mutationFn: (version: number) => client.ensureQueryData(versionQuery(id, version)),
    onSuccess: ({ type, definition, properties }) =>
      setForm({ type, definition, properties: linesOf(properties) }),
  });
  const why = useWhyNot(id.cluster, { topic: nameOf(id) })("registerSchema");
  const refused = attempt.error ? asApiError(attempt.error).field : null;
  return (
    <Panel
      title="Try a schema"
      note="before it is registered"
      actions={
        shown !== null && (
          <Button
            variant="default"
            size="compact-xs"
            loading={start.isPending}
            onClick={() => start.mutate(shown)}
          >
            Start from version {shown}
          </Button>
        )
      }
    >
      <div className={styles.stack}>
        {start.error && <ErrorNotice error={start.error} title={`Version ${shown} could not be read`} />}
        <form
          className={styles.stack}
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            if (candidate && isNumber) attempt.mutate(candidate);
          }}
        >
          <div className={styles.row}>
            <NativeSelect
              label="Type"
              value={form.type}
              data={TYPES as SchemaKind[]}
              onChange={({ currentTarget: { value } }) => setForm({ ...form, type: value as SchemaKind })}
            />
            <NumberInput
              label="Messages to rehearse"
              description={`The last ones, at most ${count(MESSAGES_MAX)}`}
              min={1}
              max={MESSAGES_MAX}
              allowDecimal={false}
              allowNegative={false}
              value={messages}
              error={isNumber ? undefined : `A whole number from 1 to ${count(MESSAGES_MAX)}`}
              onChange={setMessages}
            />
          </div>
          {DEFINED.includes(form.type) && (
            <Textarea
              label="Definition"
              description={
                form.type === "KEY_VALUE"
                  ? "A JSON object with key and value; their types are in the properties"
                  : "As it would be registered, in JSON"
              }
              autosize
              minRows={6}
              maxRows={24}
              spellCheck={false}
              classNames={{ input: "mono" }}
              value={form.definition}
              error={refused === "definition" || refused === "schema"}
              onChange={({ currentTarget: { value } }) => setForm({ ...form, definition: value })}
            />
          )}
          <Textarea
            label="Properties"
            description="One per line, name=value; may be empty"
            autosize
            minRows={1}
            maxRows={8}
            spellCheck={false}
            classNames={{ input: "mono" }}
            value={form.properties}
            error={candidate ? undefined : "Each line needs a name, then ="}
            onChange={({ currentTarget: { value } }) => setForm({ ...form, properties: value })}
          />
          <div className={styles.buttons}>
            <Button type="submit" loading={attempt.isPending} disabled={!candidate || !isNumber}>
              Try it
            </Button>
            <ActionButton
              variant="default"
              why={why}
              disabled={
                why === null && (!isCurrent || !tried.verdict.compatible || tried.verdict.version !== null)
              }
              onClick={() => setRegistering(true)}
            >
              Register…
            </ActionButton>
          </div>
        </form>
        {attempt.isPending && <Loading label="Trying the schema on the last messages" rows={4} />}
        {attempt.error && <ErrorNotice error={attempt.error} title="The schema could not be tried" />}
        {tried && !attempt.isPending && (
          <section aria-label="Result" className={styles.stack}>
            {!isCurrent && (
              <Notice tone="info">The form has changed since: the result is for what was tried.</Notice>
            )}
            <VerdictNotice verdict={tried.verdict} />
            {tried.failure && (
              <ErrorNotice error={tried.failure} title="The messages could not be rehearsed" />
            )}
            {tried.rehearsal && <Result rehearsal={tried.rehearsal} />}
            {!tried.rehearsal && !tried.failure && (
              <p className={styles.quiet}>A non-persistent topic keeps no messages to rehearse.</p>
            )}
          </section>
        )}
        {registering && tried && (
          <Suspense fallback={null}>
            <RegisterDialog
              id={id}
              candidate={tried.candidate}
              verdict={tried.verdict}
              rehearsal={tried.rehearsal}
              newest={newest}
              onAgain={() => {
                setRegistering(false);
                attempt.mutate(tried.candidate);
              }}
              onClose={() => setRegistering(false)}
            />
          </Suspense>
        )}
      </div>
    </Panel>
  );
}

interface Form {
  type: SchemaKind;
  definition: string;
  properties: string;
}

/** Null while a property has no name. */
function candidateOf({ type, definition, properties }: Form): Candidate | null {
  const pairs = properties
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1)] as const);
  if (properties.split("\n").some((line) => line.trim() !== "" && line.indexOf("=") < 1)) return null;
  return {
    type,
    definition: DEFINED.includes(type) ? definition : "",
    properties: Object.fromEntries(pairs),
  };
}

function linesOf(properties: Record<string, string>): string {
  return Object.entries(properties)
    .map(([name, value]) => `${name}=${value}`)
    .join("\n");
}

/** The verdict is worth something without the messages, but not the other way round. */
async function tryOut(id: TopicId, candidate: Candidate, messages: number): Promise<Tried> {
  const reading: Promise<{ rehearsal: Rehearsal | null; failure: Error | null }> =
    id.domain === "non-persistent"
      ? Promise.resolve({ rehearsal: null, failure: null })
      : rehearse(id, candidate, messages).then(
          (rehearsal) => ({ rehearsal, failure: null }),
          (failure: Error) => ({ rehearsal: null, failure }),
        );
  const verdict = await judge(id, candidate);
  return { candidate, verdict, ...(await reading) };
}
