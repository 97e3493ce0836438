import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { environmentQuery } from "../../api/environment";
import { failureOf } from "../../lib/errors";
import { count } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { useCluster } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { Page, PageHead, Panel } from "../../ui/panel";
import { ErrorNotice, Loading, Notice } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import styles from "./payloads.module.css";
import { type PayloadRule, rulesQuery } from "./queries";
import { decidedBy, OTHERWISE, ruleText } from "./rule-words";
import { RulesDialog } from "./rules-dialog";

/** The rules about who sees the payloads of messages. */
export function PayloadRulesPage() {
  useTitle("Payload rules");
  const environment = useQuery(environmentQuery).data;
  const stored = useQuery(rulesQuery());
  const [isEditing, setEditing] = useState(false);
  const failure = failureOf(stored);
  const whyNot = useWhyNot(useCluster(), {});
  const rules = stored.data;
  return (
    <Page>
      <PageHead
        title="Payload rules"
        badges={rules && <span className={styles.dim}>{count(rules.length)}</span>}
        actions={
          <ActionButton disabled={!rules} why={whyNot("setPayloadRules")} onClick={() => setEditing(true)}>
            Edit rules…
          </ActionButton>
        }
      />
      {environment?.authentication === false && (
        <Notice tone="info">
          <p>Sign-in is off: payloads are shown to everybody, whatever the rules are.</p>
        </Notice>
      )}
      <Panel title="Who sees the payloads of messages" note="The first rule that matches decides">
        {failure && (
          <ErrorNotice error={failure} title="The payload rules could not be read" onRetry={stored.refetch} />
        )}
        {rules ? <Rules of={rules} /> : !failure && <Loading label="Loading the payload rules" rows={4} />}
      </Panel>
      {isEditing && rules && <RulesDialog stored={rules} onClose={() => setEditing(false)} />}
    </Page>
  );
}

function Rules({ of }: { of: readonly PayloadRule[] }) {
  return (
    <div className={styles.stack}>
      <ol className={styles.rules} aria-label="Payload rules, in their order">
        {of.map((rule, index) => {
          const before = decidedBy(of, index);
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: a rule has no identity but its place
            <li key={index}>
              {ruleText(rule)}
              {before !== null && (
                <span className={styles.dim}> Without effect: rule {before} decides before it.</span>
              )}
            </li>
          );
        })}
      </ol>
      <p>{OTHERWISE}</p>
      <p className={styles.dim}>
        The rules are about people, and about tokens with a lower level than full. Each payload that is shown
        to them is in the audit log.
      </p>
    </div>
  );
}
