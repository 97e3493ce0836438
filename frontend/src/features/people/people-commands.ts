import { type Commands, curl, path } from "../../shared/commands/shell";
import type { NewPerson, PersonChange } from "./queries";

const ONLY_HERE = { why: "Only the console has people: Pulsar has no equivalent." };
const only = (line: string): Commands => ({ curl: line, pulsarctl: ONLY_HERE, pulsarAdmin: ONLY_HERE });
const at = (name: string) => `/api/v1/people/${path(name)}`;

export const PEOPLE_COMMANDS = {
  create: (body: NewPerson) => only(curl("POST", "/api/v1/people", body)),
  change: (name: string, body: PersonChange) => only(curl("PUT", at(name), body)),
  remove: (name: string) => only(curl("DELETE", at(name))),
  resetPassword: (name: string) => only(curl("POST", `${at(name)}/reset-password`)),
  endSessions: (name: string) => only(curl("DELETE", `${at(name)}/sessions`)),
};
