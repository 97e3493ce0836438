import { Button, NativeSelect, TextInput } from "@mantine/core";
import { type QueryKey, useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useRef, useState } from "react";
import type { Level } from "../../api/session/calls";
import { Dialog } from "../../ui/dialog";
import styles from "../../ui/dialog.module.css";
import { ErrorNotice } from "../../ui/states";
import { OneTimeSecretDialog } from "./one-time-secret";
import { refusalsOf } from "./refusals";

const LABELS = { name: "The name", role: "The role", level: "The level", expires_in_s: "The time" };
const DAY_S = 86_400;
export const ONE_DAY = { label: "1 day", seconds: DAY_S };
export const WEEK = { label: "7 days", seconds: 7 * DAY_S };
export const MONTH = { label: "30 days", seconds: 30 * DAY_S };
export const QUARTER = { label: "90 days", seconds: 90 * DAY_S };
export const YEAR = { label: "1 year", seconds: 365 * DAY_S };
export const NEVER = { label: "Never", seconds: null };

/** A token to create; `Seconds` without null where each one ends. */
export interface WantedToken<Seconds extends number | null> {
  name: string;
  level: Level;
  expires_in_s: Seconds;
}

/** Creates a token, which is shown once. */
export function TokenForm<Seconds extends number | null>({
  title,
  size,
  levels,
  times,
  initialTime,
  levelText,
  remark,
  issue,
  queryKey,
  commands,
  onClose,
  children,
}: {
  title: string;
  size: "md" | "lg";
  levels: readonly Level[];
  times: readonly { label: string; seconds: Seconds }[];
  initialTime: { label: string; seconds: Seconds };
  levelText: (level: Level) => string;
  /** The servers that accept a token of a level. */
  remark: (level: Level) => string;
  issue: (wanted: WantedToken<Seconds>) => Promise<{ token: string }>;
  /** The key of the list of tokens. */
  queryKey: QueryKey;
  commands?: (wanted: WantedToken<Seconds>) => ReactNode;
  onClose: () => void;
  /** Beside the token that was created. */
  children?: ReactNode;
}) {
  const client = useQueryClient();
  const nameField = useRef<HTMLInputElement>(null);
  const [name, setName] = useState("");
  const [level, setLevel] = useState<Level>("read");
  const [time, setTime] = useState(initialTime);
  const [tried, setTried] = useState(false);
  const wanted = { name: name.trim(), level, expires_in_s: time.seconds };
  const create = useMutation({
    mutationFn: () => issue(wanted),
    onSettled: () => client.invalidateQueries({ queryKey }),
  });
  const refusals = refusalsOf(create.error, LABELS);
  const missing = wanted.name === "" ? "Give a name" : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (missing) nameField.current?.focus();
    else if (!create.isPending) create.mutate();
  };
  if (create.data)
    return (
      <OneTimeSecretDialog what="token" value={create.data.token} size={size} onClose={onClose}>
        {children}
      </OneTimeSecretDialog>
    );
  return (
    <Dialog title={title} onClose={onClose} closeOnClickOutside={!create.isPending} size={size}>
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
            if (create.error) create.reset();
          }}
        />
        <NativeSelect
          label="Level"
          description={levelText(level)}
          value={level}
          data={levels}
          error={refusals.of.level}
          onChange={(event) => setLevel(event.currentTarget.value as Level)}
        />
        <NativeSelect
          label="Expires after"
          value={time.label}
          data={times.map(({ label }) => label)}
          error={refusals.of.expires_in_s}
          onChange={(event) =>
            setTime(times.find(({ label }) => label === event.currentTarget.value) ?? initialTime)
          }
        />
        <p className={styles.remarks}>{remark(level)}</p>
        {refusals.rest && (
          <ErrorNotice error={refusals.rest} title="It is not known whether the token was created" />
        )}
        {!missing && commands?.(wanted)}
        <div className={styles.buttons}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={create.isPending}>
            Create token
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
