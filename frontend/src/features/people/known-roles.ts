import type { PersonRow } from "./queries";

/** Roles that people have, as proposals for others. */
export function rolesOf(rows: readonly PersonRow[]): string[] {
  return [...new Set(rows.flatMap(({ roles }) => roles.map(({ role }) => role)))].sort();
}
