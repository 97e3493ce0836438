// Alerts as command lines.

import type { components, operations } from "../../api/schema";
import { type Commands, curl, path } from "./shell";

type Schemas = components["schemas"];

/** The owner of the rows: a tenant, or without one the cluster. */
export interface AlertPlace {
  cluster: string;
  tenant: string;
}

const ONLY_HERE = { why: "Only the console has alerts: Pulsar has no equivalent." };
const only = (text: string): Commands => ({ curl: text, pulsarctl: ONLY_HERE, pulsarAdmin: ONLY_HERE });

function at({ cluster, tenant }: AlertPlace, ...below: string[]): string {
  const owner = tenant ? `?tenant=${encodeURIComponent(tenant)}` : "";
  return `/api/v1/clusters/${path(cluster)}/alerts/${path(...below)}${owner}`;
}

/** A URL is a secret: a command has a variable in its place. */
const withoutSecret = (body: Schemas["ChannelBodyRequest"]) => ({
  ...body,
  secret_url: body.secret_url ? "$WEBHOOK_URL" : "",
});

export const ALERT_COMMANDS = {
  createAlertRule: (place: AlertPlace, body: Schemas["RuleBodyRequest"]) =>
    only(curl("POST", at(place, "rules"), body)),
  changeAlertRule: (place: AlertPlace, id: number, body: Schemas["RuleBodyRequest"]) =>
    only(curl("PUT", at(place, "rules", `${id}`), body)),
  deleteAlertRule: (place: AlertPlace, id: number) => only(curl("DELETE", at(place, "rules", `${id}`))),
  createAlertChannel: (place: AlertPlace, body: Schemas["ChannelBodyRequest"]) =>
    only(curl("POST", at(place, "channels"), withoutSecret(body))),
  changeAlertChannel: (place: AlertPlace, id: number, body: Schemas["ChannelBodyRequest"]) =>
    only(curl("PUT", at(place, "channels", `${id}`), withoutSecret(body))),
  deleteAlertChannel: (place: AlertPlace, id: number) => only(curl("DELETE", at(place, "channels", `${id}`))),
  testAlertChannel: (place: AlertPlace, id: number) =>
    only(curl("POST", at(place, "channels", `${id}`, "test"))),
  acknowledgeAlert: (place: AlertPlace, id: number, body: Schemas["AcknowledgeBodyRequest"]) =>
    only(curl("POST", at(place, "firings", `${id}`, "acknowledge"), body)),
  silenceAlerts: (place: AlertPlace, body: Schemas["SilenceBodyRequest"]) =>
    only(curl("POST", at(place, "silences"), body)),
  endAlertSilence: (place: AlertPlace, id: number) => only(curl("DELETE", at(place, "silences", `${id}`))),
} satisfies Partial<Record<keyof operations, unknown>>;
