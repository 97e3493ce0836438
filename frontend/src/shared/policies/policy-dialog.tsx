import { Button } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { ApiError, asApiError } from "../../lib/errors";
import { localized } from "../../lib/language/sentences";
import { Dialog } from "../../ui/dialog";
import { CheckIcon } from "../../ui/icons";
import { ErrorNotice, Notice } from "../../ui/states";
import { CommandLines } from "../commands/command-lines";
import { COMMANDS } from "../commands/commands";
import type { Commands } from "../commands/shell";
import { nameOf } from "../topic/use-topic";
import { changeOf, setterOf } from "./change-text";
import { lossesOf, receiptOf, saveLabel } from "./effect-words";
import { endingsOf } from "./flow-words";
import styles from "./policies.module.css";
import { PolicyEffects } from "./policy-effects";
import { PolicyForm } from "./policy-form";
import { type Policy, type PolicyPlace, previewPolicy, savePolicy } from "./policy-queries";
import { describe, differing, problemsOf, type Texts, textsOf, toValue, type Value } from "./policy-values";

const REFUSED_VALUE = [400, 412, 422, 501];
const TYPING_MS = 300;

interface Turn {
  policy: Policy;
  remove: boolean;
  /** The form's initial value, when it is not the effective one. */
  value?: Value;
}

/** Sets or removes one policy: form, effect of saving, the previewed change or a refusal, receipt, and from there its
 *  undo, which is previewed as well. */
export function PolicyDialog({
  place,
  policy,
  remove = false,
  onSaved,
  onClose,
}: {
  place: PolicyPlace;
  policy: Policy;
  remove?: boolean;
  /** Called with the row as it is then. */
  onSaved: (row: Policy) => void;
  onClose: () => void;
}) {
  // The row stays as it was when the dialog opened, whatever changes on the page behind it, until a new preview.
  const [turns, setTurns] = useState<Turn[]>([{ policy, remove }]);
  return (
    <OneChange
      key={turns.length}
      place={place}
      turn={turns[turns.length - 1] as Turn}
      onSaved={onSaved}
      onBack={(turn) => setTurns((before) => [...before, turn])}
      onClose={onClose}
    />
  );
}

function OneChange({
  place,
  turn: { policy: opened, remove, value: first },
  onSaved,
  onBack,
  onClose,
}: {
  place: PolicyPlace;
  turn: Turn;
  onSaved: (row: Policy) => void;
  onBack: (turn: Turn) => void;
  onClose: () => void;
}) {
  const form = useRef<HTMLFormElement>(null);
  const [texts, setTexts] = useState<Texts>(() => textsOf(opened, first));
  const [tried, setTried] = useState(false);
  const [refusal, setRefusal] = useState<string | null>(null);

  const problems = remove ? {} : problemsOf(opened, texts);
  const isWhole = Object.keys(problems).length === 0;
  const next = remove || !isWhole ? null : toValue(opened, texts);
  const isAsked = (remove || isWhole) && differing(opened, next, opened.own as Value).length > 0;
  const wanted = isAsked ? JSON.stringify(next) : "";
  const [settled] = useDebouncedValue(wanted, remove ? 0 : TYPING_MS);
  const found = useQuery({
    queryKey: ["policy-preview", place.level, place.id, opened.name, settled],
    queryFn: () => previewPolicy(place, opened.name, JSON.parse(settled)),
    enabled: settled !== "",
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
    retry: false,
  });
  const isFresh = wanted !== "" && settled === wanted && !found.isFetching;
  const preview = isFresh && !found.error ? found.data : undefined;
  const shown = found.data?.row ?? opened;
  const title = localized(shown.title);
  const overtaken = differing(opened, shown.own as Value, opened.own as Value).length > 0;

  const save = useMutation({
    mutationFn: (token: string) => savePolicy(place, opened.name, token),
    onMutate: () => setRefusal(null),
    onSuccess: ({ row }) => onSaved(row),
    onError: (error) => {
      if (asApiError(error).status !== 409) return;
      setRefusal(asApiError(error).message);
      save.reset();
      found.refetch();
    },
  });

  const error = save.error ?? (isFresh ? found.error : null);
  const refused = refusedAt(shown, error);
  useEffect(() => {
    if (refused !== null) focusOn(form.current, refused);
  }, [refused]);
  const change = remove || isWhole ? changeOf(shown, next, place) : null;
  const marks =
    refused !== null && error ? { [refused]: localized(error.message) } : tried ? problems : ({} as Texts);
  const losses = [
    ...(preview?.effects ? lossesOf(preview.effects) : []),
    ...(preview?.flows ? endingsOf(preview.flows) : []),
  ];

  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    const [first] = Object.keys(problems);
    if (first !== undefined) focusOn(form.current, first);
    else if (preview?.token && change?.changes && !save.isPending) save.mutate(preview.token);
  };
  const where =
    place.level === "topic"
      ? ["Topic", nameOf(place.id)]
      : ["Namespace", `${place.id.tenant}/${place.id.namespace}`];
  return (
    <Dialog
      onClose={onClose}
      title={save.data ? "Done" : remove ? `Remove ${title} here` : title}
      closeOnClickOutside={!save.isPending}
    >
      {save.data ? (
        <div className={styles.dialog}>
          <div className={`${styles.preview} ${styles.done}`} role="status">
            <p>
              <CheckIcon /> {savedText(save.data.row, place)}
            </p>
            {save.data.effects && <p>{receiptOf(save.data.effects)}</p>}
            {save.data.flows && endingsOf(save.data.flows).map((text) => <p key={text}>{text}.</p>)}
          </div>
          <CommandLines of={commandsOf(place, save.data.row, save.data.row.own)} />
          <div className={styles.buttons}>
            <Button variant="default" onClick={() => onBack(wayBack(save.data.row, shown.own as Value))}>
              Restore the previous value…
            </Button>
            <Button onClick={onClose} data-autofocus>
              Close
            </Button>
          </div>
        </div>
      ) : (
        <form ref={form} onSubmit={submit} noValidate className={styles.dialog}>
          <p className={styles.dim}>
            <span lang="en">{shown.meaning}</span>. {where[0]} <b>{where[1]}</b>.
          </p>
          {(refusal !== null || overtaken) && (
            <div role="alert">
              <Notice tone="warning">
                <p>
                  {overtaken ? "Another user changed it meanwhile" : <span lang="en">{refusal}</span>}
                  {overtaken && refusal !== null && ", so nothing was saved"}.{" "}
                  {overtaken &&
                    (shown.own === null
                      ? "It is not set here any more. "
                      : `It is set here to ${describe(shown, shown.own as Value)} now. `)}
                  Check what saving would do now, then save.
                </p>
              </Notice>
            </div>
          )}
          {!remove && (
            <PolicyForm
              policy={shown}
              texts={texts}
              problems={marks}
              onChange={(name, text) => {
                setTexts((before) => ({ ...before, [name]: text }));
                if (save.error) save.reset();
              }}
            />
          )}
          <div
            className={styles.preview}
            aria-live="polite"
            data-preview
            data-lost={losses.length > 0 || undefined}
          >
            <p>{change ? change.text : "Complete the form to see what saving would do."}</p>
            {change?.changes && !preview && !error && <p>Computing its effect…</p>}
            {preview && (
              <PolicyEffects
                policy={shown}
                preview={preview}
                topic={place.level === "topic" ? nameOf(place.id) : null}
              />
            )}
            {preview && preview.token === null && <p>It affects too much to be confirmed here.</p>}
          </div>
          {error && refused === null && (
            <ErrorNotice
              error={error}
              title={save.error ? "The change may not have been made" : "Its effect could not be computed"}
              onRetry={save.error ? undefined : () => found.refetch()}
            />
          )}
          {change?.changes && <CommandLines of={commandsOf(place, shown, next)} />}
          <div className={styles.buttons}>
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button
              type="submit"
              color={remove || losses.length > 0 ? "red" : "pulse"}
              loading={save.isPending}
              disabled={change !== null && (!change.changes || !preview?.token)}
            >
              {saveLabel(remove ? "Remove" : "Save", preview?.effects)}
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

/** From the saved value to the one that was set here before, null for none. */
function wayBack(saved: Policy, before: Value): Turn {
  return before === null ? { policy: saved, remove: true } : { policy: saved, remove: false, value: before };
}

function commandsOf(place: PolicyPlace, policy: Policy, value: unknown): Commands {
  return place.level === "topic"
    ? COMMANDS.setTopicPolicy(place.id, { policy, value })
    : COMMANDS.setNamespacePolicy(place.id, { policy, value });
}

/** The field that a refusal of the value is about: the one it names, else the first; null for other failures. */
function refusedAt(policy: Policy, error: unknown): string | null {
  if (!(error instanceof ApiError) || !REFUSED_VALUE.includes(error.status ?? 0)) return null;
  const named = policy.parts.find(
    (part) => part.name !== "" && (error.field === part.name || error.message.includes(part.name)),
  );
  return (named ?? policy.parts[0])?.name ?? null;
}

function focusOn(form: HTMLFormElement | null, field: string | null): void {
  const inputs = form?.querySelectorAll<HTMLElement>("[name]") ?? [];
  [...inputs].find((input) => input.getAttribute("name") === field)?.focus();
}

function savedText(policy: Policy, place: PolicyPlace): string {
  const title = localized(policy.title);
  const value = describe(policy, policy.value as Value);
  const by = policy.level ? `, set by ${setterOf(policy.level, place.level)}` : "";
  return policy.own === null
    ? `${title} is not set here any more; the value in force is ${value}${by}.`
    : `${title} is ${value}${by}.`;
}
