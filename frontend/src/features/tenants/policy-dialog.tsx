import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useRef, useState } from "react";
import { ApiError } from "../../lib/errors";
import { Dialog } from "../../ui/dialog";
import { CheckIcon } from "../../ui/icons";
import { ErrorNotice, Notice } from "../../ui/states";
import { PolicyForm } from "./policy-form";
import { previewOf } from "./preview";
import { type NamespaceId, namespaceQuery, type Policy, setPolicy } from "./queries";
import styles from "./tenants.module.css";
import { describe, problemsOf, type Texts, textsOf, toValue, type Value } from "./values";

const REFUSED_VALUE = [400, 412, 422, 501];

/** Sets or removes one policy: form, what saving would do, save as long as it is what was shown, receipt. */
export function PolicyDialog({
  id,
  policy,
  topics,
  remove = false,
  onClose,
}: {
  id: NamespaceId;
  policy: Policy;
  topics: number;
  remove?: boolean;
  onClose: () => void;
}) {
  const client = useQueryClient();
  const form = useRef<HTMLFormElement>(null);
  // The row stays as it was when the dialog opened, whatever the page behind hears: it is what the user saw.
  const [shown, setShown] = useState(policy);
  const [texts, setTexts] = useState<Texts>(() => textsOf(policy));
  const [tried, setTried] = useState(false);
  const [overtaken, setOvertaken] = useState(false);
  const query = namespaceQuery(id);

  const save = useMutation({
    mutationFn: (value: Value) => setPolicy(id, shown.name, { value, expected: shown.own }),
    onSuccess: (row) => {
      client.setQueryData(
        query.queryKey,
        (before) =>
          before && {
            ...before,
            policies: before.policies.map((one) => (one.name === row.name ? row : one)),
          },
      );
    },
    onError: async (error) => {
      if (!isConflict(error)) return focusOn(form.current, refusedAt(shown, error));
      // Failed, it is told by the page behind, and the conflict by this dialog.
      const fresh = await client.fetchQuery({ ...query, staleTime: 0 }).catch(() => null);
      if (!fresh) return;
      setShown((before) => fresh.policies.find((one) => one.name === before.name) ?? before);
      setOvertaken(true);
      save.reset();
    },
    onSettled: () => client.invalidateQueries({ queryKey: ["tenants", id.cluster] }),
  });

  const problems = remove ? {} : problemsOf(shown, texts);
  const isWhole = Object.keys(problems).length === 0;
  const next = remove || !isWhole ? null : toValue(shown, texts);
  const preview = remove || isWhole ? previewOf(shown, next, topics) : null;
  const refused = refusedAt(shown, save.error);
  const marks =
    refused !== null && save.error ? { [refused]: save.error.message } : tried ? problems : ({} as Texts);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    const [first] = Object.keys(problems);
    if (first !== undefined) focusOn(form.current, first);
    else if (preview?.changes && !save.isPending) save.mutate(next);
  };
  const verb = remove ? "Remove" : "Save";
  return (
    <Dialog
      onClose={onClose}
      title={save.data ? "Done" : remove ? `Remove ${shown.title} here` : shown.title}
      closeOnClickOutside={!save.isPending}
    >
      {save.data ? (
        <div className={styles.dialog}>
          <p className={styles.preview} role="status">
            <CheckIcon /> {receiptOf(save.data)}
          </p>
          <div className={styles.buttons}>
            <Button onClick={onClose} data-autofocus>
              Close
            </Button>
          </div>
        </div>
      ) : (
        <form ref={form} onSubmit={submit} noValidate className={styles.dialog}>
          <p className={styles.dim}>
            {shown.meaning}. Namespace{" "}
            <b>
              {id.tenant}/{id.namespace}
            </b>
            .
          </p>
          {overtaken && (
            <div role="alert">
              <Notice tone="warning">
                <p>
                  Somebody changed it meanwhile, so nothing was saved.{" "}
                  {shown.own === null
                    ? "It is not set here any more."
                    : `It is set here to ${describe(shown, shown.own as Value)} now.`}{" "}
                  Look at what saving would do now, then save again.
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
          <p className={styles.preview} aria-live="polite" data-preview>
            {preview ? preview.text : "Complete the form to see what saving would do."}
          </p>
          {save.error && refused === null && (
            <ErrorNotice error={save.error} title="The change may not have been made" />
          )}
          <div className={styles.buttons}>
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button
              type="submit"
              color={remove ? "red" : "pulse"}
              loading={save.isPending}
              disabled={preview !== null && !preview.changes}
            >
              {verb}
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

function isConflict(error: unknown): boolean {
  return error instanceof ApiError && error.status === 409;
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

function receiptOf(policy: Policy): string {
  const value = describe(policy, policy.value as Value);
  return policy.own === null
    ? `${policy.title} is not set here any more; in force is ${value}, set by the brokers.`
    : `${policy.title} is ${value}, set by this namespace.`;
}
