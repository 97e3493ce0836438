import { Button, NativeSelect, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";
import type { Level } from "../../api/session/calls";
import { dateTime } from "../../lib/format";
import { ChangeDialog } from "../../shared/changes/change-dialog";
import { ACCESS_COMMANDS } from "../../shared/commands/access-commands";
import { CommandLines } from "../../shared/commands/command-lines";
import { LEVEL_WORDS, LEVELS } from "../../shared/people/level-words";
import { OneTimeSecret } from "../../shared/people/one-time-secret";
import { refusalsOf } from "../../shared/people/refusals";
import { Dialog } from "../../ui/dialog";
import styles from "../../ui/dialog.module.css";
import { ErrorNotice } from "../../ui/states";
import { issueToken, type NewToken, revokeToken, type Token } from "./token-queries";

const LABELS = { name: "The name", role: "The role", level: "The level", expires_in_s: "The time" };
const DAY_S = 86_400;
const NEVER = "";
const TIMES = [
  { value: String(DAY_S), label: "1 day" },
  { value: String(30 * DAY_S), label: "30 days" },
  { value: String(90 * DAY_S), label: "90 days" },
  { value: String(365 * DAY_S), label: "1 year" },
  { value: NEVER, label: "Never" },
];
/** Issues a token of a role, which is shown once. */
export function NewTokenDialog({ role, onClose }: { role: string; onClose: () => void }) {
  const client = useQueryClient();
  const nameField = useRef<HTMLInputElement>(null);
  const [name, setName] = useState("");
  const [level, setLevel] = useState<Level>("read");
  const [expiry, setExpiry] = useState(String(30 * DAY_S));
  const [tried, setTried] = useState(false);
  const expires_in_s = expiry === NEVER ? null : Number(expiry);
  const body: NewToken = { name: name.trim(), role, level, expires_in_s };
  const issue = useMutation({
    mutationFn: () => issueToken(body),
    onSettled: () => client.invalidateQueries({ queryKey: ["tokens"] }),
  });
  const refusals = refusalsOf(issue.error, LABELS);
  const missing = body.name === "" ? "Give a name" : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (missing) nameField.current?.focus();
    else if (!issue.isPending) issue.mutate();
  };
  if (issue.data)
    return (
      <Dialog title="Done" onClose={onClose} closeOnClickOutside={false} size="lg">
        <div className={styles.dialog}>
          <OneTimeSecret what="token" value={issue.data.token} />
          <div className={styles.buttons}>
            <Button onClick={onClose} data-autofocus>
              Close
            </Button>
          </div>
        </div>
      </Dialog>
    );
  return (
    <Dialog title={`New token of ${role}`} onClose={onClose} closeOnClickOutside={!issue.isPending} size="lg">
      <form onSubmit={submit} className={styles.dialog} noValidate>
        <TextInput
          ref={nameField}
          label="Name"
          description="What it is for"
          value={name}
          autoComplete="off"
          data-autofocus
          error={refusals.of.name ?? (tried ? missing : null)}
          onChange={(event) => {
            setName(event.currentTarget.value);
            if (issue.error) issue.reset();
          }}
        />
        <NativeSelect
          label="Level"
          description={LEVEL_WORDS[level]}
          value={level}
          data={LEVELS}
          error={refusals.of.level}
          onChange={(event) => setLevel(event.currentTarget.value as Level)}
        />
        <NativeSelect
          label="Expires after"
          value={expiry}
          data={TIMES}
          error={refusals.of.expires_in_s}
          onChange={(event) => setExpiry(event.currentTarget.value)}
        />
        <p className={styles.remarks}>
          {level === "full"
            ? "It serves at brokers and at gateways."
            : "It serves at gateways: REST and the console's API. Brokers refuse it."}
        </p>
        {refusals.rest && (
          <ErrorNotice error={refusals.rest} title="It is not known whether the token was created" />
        )}
        {!missing && <CommandLines of={ACCESS_COMMANDS.issueToken(body)} />}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={issue.isPending}>
            Create token
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** Revokes a token. */
export function RevokeDialog({ token, onClose }: { token: Token; onClose: () => void }) {
  const client = useQueryClient();
  const { id, name, role, used_at } = token;
  return (
    <ChangeDialog
      title="Revoke token"
      target={<b>{name}</b>}
      what="token"
      id={["token", id]}
      wanted={id}
      ask={async () => ({ token: id })}
      apply={revokeToken}
      preview={() => (
        <p>
          Programs with this token are not {role} any more, and their connections are closed. This cannot be
          undone. {used_at === null ? "No gateway has seen it." : `Last used ${dateTime(used_at)}.`}
        </p>
      )}
      receipt={() => <p>{name} is revoked.</p>}
      label={() => "Revoke"}
      red
      commands={() => ACCESS_COMMANDS.revokeToken(id)}
      onChanged={() => client.invalidateQueries({ queryKey: ["tokens"] })}
      onClose={onClose}
    />
  );
}
