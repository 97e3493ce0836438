import type { components, operations } from "../../api/schema";
import { type Commands, curl, path } from "./shell";

type Schemas = components["schemas"];
type NewPerson = Schemas["PersonBodyRequest"];
type PersonChange = Schemas["PersonChangeRequest"];

const ONLY_HERE = { why: "Only the console has people: Pulsar has no equivalent." };
const only = (line: string): Commands => ({ curl: line, pulsarctl: ONLY_HERE, pulsarAdmin: ONLY_HERE });
const at = (name: string, ...below: string[]) => `/api/v1/people/${path(name, ...below)}`;

export const PEOPLE_COMMANDS = {
  createPerson: (body: NewPerson) => only(curl("POST", "/api/v1/people", body)),
  changePerson: (name: string, body: PersonChange) => only(curl("PUT", at(name), body)),
  deletePerson: (name: string) => only(curl("DELETE", at(name))),
  resetPassword: (name: string) => only(curl("POST", at(name, "reset-password"))),
  endSession: (name: string, id: string) => only(curl("DELETE", at(name, "sessions", id))),
  endSessions: (name: string) => only(curl("DELETE", at(name, "sessions"))),
} satisfies Partial<Record<keyof operations, unknown>>;

/** Calls of a browser's own session, for which a command line has none. */
export const OF_A_SESSION: (keyof operations)[] = [
  "signIn",
  "setUp",
  "signOut",
  "setActingRole",
  "viewAs",
  "changePassword",
  "endOwnSession",
  "issueOwnToken",
  "revokeOwnToken",
];
