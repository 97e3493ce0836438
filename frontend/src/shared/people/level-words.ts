import type { ActingRole, Level, Person } from "../../api/session/calls";

export const LEVELS: readonly Level[] = ["full", "operate", "read"];

/** The part of a role's rights that a level permits. */
export const LEVEL_WORDS: Record<Level, string> = {
  full: "everything that the role may do",
  operate: "reads, and daily operations such as unload, skip and expire",
  read: "reads, without the payloads of messages",
};

/** "billing-admin (read)" */
export function roleText({ role, level }: ActingRole): string {
  return `${role} (${level})`;
}

/** Whether the person may end the session: what a certificate identifies does not sign out. */
export function hasSession({ method }: Pick<Person, "method">): boolean {
  return method === "session";
}
