import { bytes, count, plural } from "../../lib/format";
import { localized } from "../../lib/language/sentences";
import { WarningIcon } from "../../ui/icons";
import { lossesOf, remarksOf, unreadOf } from "./effect-words";
import { endingsOf, flowRemarksOf } from "./flow-words";
import styles from "./policies.module.css";
import type { Policy, PolicyPreview } from "./policy-queries";
import { describe, type Value } from "./policy-values";

const NAMED_MAX = 5;

/** The data that saving would delete, and the topics that are not affected. */
export function PolicyEffects({
  policy,
  preview,
  topic,
}: {
  policy: Policy;
  preview: PolicyPreview;
  /** Full name of the one that it is about, if it is one. */
  topic: string | null;
}) {
  const { effects, flows, overriding, overriding_total: own, unknown } = preview;
  const losses = [...(effects ? lossesOf(effects) : []), ...(flows ? endingsOf(flows) : [])];
  return (
    <>
      {losses.map((loss) => (
        <p key={loss} className={styles.lost}>
          <WarningIcon />
          <strong>{loss}</strong>
        </p>
      ))}
      {effects && effects.subscriptions_total > 0 && (
        <ul className={styles.losers} aria-label="Subscriptions that lose messages">
          {effects.subscriptions.slice(0, NAMED_MAX).map((one) => (
            <li key={`${one.topic} ${one.name}`}>
              <b>{one.name}</b>
              {one.topic !== topic && ` of ${one.topic}`}: {one.deleted ? "deleted, with " : ""}
              {unreadOf(one)} unread
            </li>
          ))}
          {effects.subscriptions_total > NAMED_MAX && (
            <li>and {plural(effects.subscriptions_total - NAMED_MAX, "more subscription")}</li>
          )}
        </ul>
      )}
      {effects && effects.deleted_total > 0 && (
        <ul className={styles.losers} aria-label="Topics that are deleted">
          {effects.deleted.slice(0, NAMED_MAX).map((one) => (
            <li key={one.name}>
              <b>{one.name}</b>, {bytes(one.bytes)}
            </li>
          ))}
          {effects.deleted_total > NAMED_MAX && (
            <li>and {plural(effects.deleted_total - NAMED_MAX, "more topic")}</li>
          )}
        </ul>
      )}
      {effects && remarksOf(effects).map((remark) => <p key={remark}>{remark}</p>)}
      {flows && flowRemarksOf(flows).map((remark) => <p key={remark}>{remark}</p>)}
      {unknown && <p className={styles.unknown}>Its effect is not known: {localized(unknown)}.</p>}
      {own !== null && own > 0 && (
        <div>
          <p>
            {own === 1
              ? "1 topic has its own value and keeps it:"
              : `${count(own)} topics have their own value and keep it:`}
          </p>
          <ul className={styles.losers} aria-label="Topics that keep their own value">
            {overriding.slice(0, NAMED_MAX).map(({ name, value }) => (
              <li key={name}>
                <b>{name}</b>: {describe(policy, value as Value)}
              </li>
            ))}
            {own > NAMED_MAX && <li>and {plural(own - NAMED_MAX, "more topic")}</li>}
          </ul>
        </div>
      )}
    </>
  );
}
