import { Badge } from "../../ui/badge";
import styles from "./access.module.css";
import type { ActionAllowed } from "./queries";

/** Actions that the same things give, with these things. */
export function byReason(actions: readonly ActionAllowed[]): { why: string; actions: string[] }[] {
  const groups = new Map<string, string[]>();
  for (const { action, why } of actions) groups.set(why, [...(groups.get(why) ?? []), action]);
  return [...groups].map(([why, names]) => ({ why, actions: names }));
}

/** Actions that have a name of the console's; the others have Pulsar's in every language. */
const WORDS: Record<string, string> = { "tenant admin": "tenant admin" };

/** The actions that a role may do at a place, with what gives them. */
export function Reasons({ of }: { of: readonly ActionAllowed[] }) {
  if (of.length === 0) return <span className={styles.dim}>nothing here</span>;
  return (
    <ul className={styles.reasons}>
      {byReason(of).map(({ why, actions }) => (
        <li key={why}>
          <span className={styles.words}>
            {actions.map((action) => (
              <Badge key={action}>{WORDS[action] ?? action}</Badge>
            ))}
          </span>
          <span className={styles.dim} lang="en">
            {why}
          </span>
        </li>
      ))}
    </ul>
  );
}
