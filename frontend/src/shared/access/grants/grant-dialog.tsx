import { Button, Checkbox, TextInput } from "@mantine/core";
import { useState } from "react";
import { count, listed, plural } from "../../../lib/format";
import { parseTopicName } from "../../../lib/url-state";
import { Notice } from "../../../ui/states";
import { ChangeDialog } from "../../changes/change-dialog";
import { ACCESS_COMMANDS, type GrantPlace } from "../../commands/access-commands";
import styles from "../access.module.css";
import type { Place } from "../may";
import {
  applyGrant,
  type GrantBody,
  type GrantPreview,
  type GrantReceipt,
  type GrantWord,
  previewGrant,
} from "../queries";

/** The change that a dialog makes: of a new grant, of the words of one, or of exactly these words. */
export type GrantAsked =
  | { act: "grant" }
  | { act: "change" | "remove" | "undo"; role: string; words: GrantWord[]; subscription: string };

const WORDS: readonly GrantWord[] = ["produce", "consume", "functions", "sources", "sinks", "packages"];
const TITLES = {
  grant: "Grant to a role",
  change: "Change the grant",
  remove: "Remove the grant",
  undo: "Undo the change",
};

export function placeText({ topic, namespace, tenant }: Place): string {
  if (topic) return topic.replace(/^persistent:\/\//, "");
  return namespace ? `${tenant}/${namespace}` : (tenant ?? "");
}

/** The place for command lines; undefined for a topic whose name has no parts. */
function namedPlace({ tenant = "", namespace, topic }: Place): GrantPlace | undefined {
  if (topic === undefined) return { tenant, ...(namespace ? { namespace } : {}) };
  const name = parseTopicName(topic);
  return name ? { tenant: name.tenant, namespace: name.namespace, topic: name } : undefined;
}

/** Changes what a role has at a place; the receipt leads to the way back. */
export function GrantDialog({
  cluster,
  place,
  asked,
  onChanged,
  onUndo,
  onClose,
}: {
  cluster: string;
  place: Place;
  asked: GrantAsked;
  onChanged: () => void;
  onUndo: (asked: GrantAsked) => void;
  onClose: () => void;
}) {
  const { act } = asked;
  const start = act === "grant" ? { role: "", words: [], subscription: "" } : asked;
  const [role, setRole] = useState(start.role);
  const [chosen, setWords] = useState<GrantWord[]>(start.words);
  const [subscription, setSubscription] = useState(start.subscription);
  const isTenant = !place.namespace && !place.topic;
  const isNew = act === "grant";
  const words: GrantWord[] = !isNew ? chosen : isTenant ? ["admin"] : subscription.trim() ? ["use"] : chosen;
  const hasForm = isNew || act === "change";
  const isComplete = role.trim() !== "" && (!hasForm || words.length > 0);
  const wanted: GrantBody | null = isComplete
    ? {
        role: role.trim(),
        words,
        ...(subscription.trim() ? { subscription: subscription.trim() } : {}),
      }
    : null;
  const hasWords = !isTenant && !subscription.trim();
  return (
    <ChangeDialog
      title={TITLES[act]}
      target={
        <>
          <b>{placeText(place)}</b>
          {!isNew && <span>{subscription ? `${role} on the subscription ${subscription}` : role}</span>}
        </>
      }
      what="grant"
      id={["grant", cluster, place, act]}
      wanted={wanted}
      form={
        hasForm
          ? (isDisabled, problem) => (
              <>
                {isNew && (
                  <TextInput
                    label="Role"
                    value={role}
                    error={problem}
                    autoComplete="off"
                    autoCapitalize="none"
                    spellCheck={false}
                    data-autofocus
                    disabled={isDisabled}
                    onChange={(event) => setRole(event.currentTarget.value)}
                  />
                )}
                {isNew && !isTenant && !place.topic && (
                  <TextInput
                    label="Subscription"
                    description="Closes the subscription of this name, on all topics of the namespace, to other roles. Empty for a grant on the namespace"
                    value={subscription}
                    autoComplete="off"
                    spellCheck={false}
                    disabled={isDisabled}
                    onChange={(event) => setSubscription(event.currentTarget.value)}
                  />
                )}
                {hasWords && (
                  <fieldset className={styles.choices} disabled={isDisabled}>
                    <legend>Granted</legend>
                    {WORDS.map((word) => (
                      <Checkbox
                        key={word}
                        label={word}
                        checked={chosen.includes(word)}
                        onChange={(event) => {
                          const isOn = event.currentTarget.checked;
                          setWords(WORDS.filter((other) => (other === word ? isOn : chosen.includes(other))));
                        }}
                      />
                    ))}
                  </fieldset>
                )}
              </>
            )
          : undefined
      }
      ask={(body) => previewGrant(cluster, place, body)}
      apply={(token) => applyGrant(cluster, place, token)}
      preview={(body, preview) => <Effects body={body} preview={preview} />}
      receipt={(body, receipt) => (
        <>
          <p>
            {receipt.after.length > 0
              ? `${body.role} is granted ${receipt.after.join(", ")} now.`
              : `Nothing is granted to ${body.role} here now.`}{" "}
            {closedText(receipt.closed)}
          </p>
          <p>
            <Button
              variant="default"
              size="compact-sm"
              onClick={() =>
                onUndo({
                  act: "undo",
                  role: receipt.role,
                  words: receipt.before as GrantWord[],
                  subscription: receipt.subscription,
                })
              }
            >
              Undo…
            </Button>
          </p>
        </>
      )}
      label={() => (act === "remove" ? "Remove" : act === "undo" ? "Undo" : isNew ? "Grant" : "Change")}
      red={act === "remove"}
      commands={(body) => {
        const named = namedPlace(place);
        return named && ACCESS_COMMANDS.changeGrant(named, body);
      }}
      nothing="The grant is another one now than in the preview; nothing was changed."
      onChanged={onChanged}
      onClose={onClose}
    />
  );
}

const clients = (counts: { producers: number; consumers: number }) =>
  listed(
    [
      counts.producers > 0 && plural(counts.producers, "producer"),
      counts.consumers > 0 && plural(counts.consumers, "consumer"),
    ].filter((part) => part !== false),
  );

/** The clients that a change would close, or that it is not known. */
function losesText(connections: GrantPreview["connections"]): string {
  if (connections === null)
    return "It is not known how many clients would be closed: a broker does not answer.";
  const text = clients(connections);
  if (!text) return "No open client would be closed.";
  const proxies = connections.by_proxy;
  return `${text} would be closed${proxies > 0 ? `, ${count(proxies)} of them of WebSockets and proxies` : ""}.`;
}

function closedText(closed: GrantReceipt["closed"]): string {
  if (closed === null) return "It is not known how many clients were closed.";
  const text = clients(closed);
  return text ? `${text} closed.` : "";
}

function Effects({ body, preview }: { body: GrantBody; preview: GrantPreview }) {
  const { before, after, effects, own_loss, connections, within_s } = preview;
  if (preview.token === null)
    return (
      <p>
        {body.role} has {before.length > 0 ? `${before.join(", ")} already` : "nothing here"}: nothing to
        change.
      </p>
    );
  return (
    <>
      <p>
        Granted to <b>{body.role}</b>: {before.join(", ") || "nothing"} → {after.join(", ") || "nothing"}
      </p>
      {effects.length === 0 ? (
        <p>No role gains or loses a right: another grant or list gives the same.</p>
      ) : (
        <ul>
          {effects.map(({ role, gained, lost }) => (
            <li key={role}>
              <b>{role}</b> {gained.length > 0 && `gains ${gained.join(", ")}`}
              {gained.length > 0 && lost.length > 0 && "; "}
              {lost.length > 0 && `loses ${lost.join(", ")}`}
            </li>
          ))}
        </ul>
      )}
      {own_loss && <Notice tone="warning">Your own role loses a right by it.</Notice>}
      <p>{losesText(connections)}</p>
      <p className={styles.dim}>Brokers apply it within {plural(within_s, "second")}.</p>
    </>
  );
}
