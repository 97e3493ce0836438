import type { ActingRole } from "../../api/session/calls";
import { roleText } from "../../shared/people/level-words";
import { Badge } from "../../ui/badge";
import styles from "./people.module.css";
import type { PersonRow } from "./queries";

/** Acting roles in their order. */
export function Roles({ of }: { of: readonly ActingRole[] }) {
  const text = of.map(roleText).join(", ");
  return (
    <span className={styles.roles} title={text}>
      {text || "none"}
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
