import type { ActingRole } from "../../api/session/calls";
import { roleText } from "../../shared/people/level-words";
import { Badge } from "../../ui/badge";
import styles from "./people.module.css";
import type { PersonRow } from "./queries";

const SHOWN_MAX = 2;

/** Acting roles in their order. */
export function Roles({ of }: { of: readonly ActingRole[] }) {
  const rest = of.length - SHOWN_MAX;
  return (
    <span className={styles.roles} title={of.map(roleText).join(", ")}>
      {of.slice(0, SHOWN_MAX).map((acting) => (
        <Badge key={acting.role}>{roleText(acting)}</Badge>
      ))}
      {rest > 0 && <span className={styles.dim}>+{rest}</span>}
    </span>
  );
}

export function StateOf({ person }: { person: PersonRow }) {
  if (!person.active) return <Badge tone="warn">deactivated</Badge>;
  if (person.must_change_password) return <Badge tone="accent">new password due</Badge>;
  return person.superuser ? <Badge tone="accent">superuser</Badge> : <Badge tone="ok">active</Badge>;
}

/** "1. billing-admin (full), 2. billing-admin (read)" */
export function orderText(roles: readonly ActingRole[]): string {
  return roles.map((acting, index) => `${index + 1}. ${roleText(acting)}`).join(", ") || "none";
}
