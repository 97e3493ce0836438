import { localized } from "../../lib/language/sentences";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { Panel } from "../../ui/panel";
import styles from "./policies.module.css";
import type { Policy } from "./policy-queries";
import { describe, type Value } from "./policy-values";

/** Every policy of one place: its effective value, the level that sets it, and its dialog. */
export function PolicyList({
  policies,
  editable,
  why = null,
  onChange,
}: {
  policies: Policy[];
  editable: boolean;
  /** The reason why the user may not change them. */
  why?: string | null;
  onChange: (policy: Policy, remove: boolean) => void;
}) {
  const set = policies.filter((policy) => policy.own !== null).length;
  return (
    <Panel title="Policies" note={`${set} of ${policies.length} set here`} flush>
      <ul className={styles.policies}>
        {policies.map((policy) => (
          <PolicyItem
            key={policy.name}
            policy={policy}
            editable={editable}
            why={why}
            onChange={(remove) => onChange(policy, remove)}
          />
        ))}
      </ul>
    </Panel>
  );
}

function PolicyItem({
  policy,
  editable,
  why,
  onChange,
}: {
  policy: Policy;
  editable: boolean;
  why: string | null;
  onChange: (remove: boolean) => void;
}) {
  const isOwn = policy.own !== null;
  const title = localized(policy.title);
  return (
    <li className={styles.policy} aria-label={title}>
      <div>
        <h3 lang="en">{policy.title}</h3>
        <p className={styles.dim} lang="en">
          {policy.meaning}
        </p>
      </div>
      <dl className={styles.force}>
        <dt className="visually-hidden">In force</dt>
        <dd>{describe(policy, policy.value as Value)}</dd>
        {isOwn && (
          <>
            <dt className={styles.dim}>without it</dt>
            <dd className={styles.dim}>
              {describe(policy, policy.inherited as Value)}
              {policy.inherited !== null && ` (${policy.inherited_level})`}
            </dd>
          </>
        )}
      </dl>
      <div className={styles.source}>
        <Badge tone={isOwn ? "accent" : "neutral"}>{policy.level ?? "unknown"}</Badge>
      </div>
      <div className={styles.actions}>
        {isOwn && (
          <ActionButton
            variant="default"
            size="compact-xs"
            disabled={!editable}
            why={why}
            aria-label={`Remove… ${title}`}
            onClick={() => onChange(true)}
          >
            Remove…
          </ActionButton>
        )}
        <ActionButton
          variant="default"
          size="compact-xs"
          disabled={!editable}
          why={why}
          aria-label={`${isOwn ? "Change" : "Set"}… ${title}`}
          onClick={() => onChange(false)}
        >
          {isOwn ? "Change…" : "Set…"}
        </ActionButton>
      </div>
    </li>
  );
}
