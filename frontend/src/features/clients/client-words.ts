import { plural } from "../../lib/format";
import type { Sort as Order } from "../../ui/grid/sorting";
import type { Client, ClientGroup, ClientsPageAnswer, DisconnectReceipt, Grouping } from "./client-queries";

export const SORTS = [
  "address",
  "version",
  "application",
  "role",
  "broker",
  "since",
  "producers",
  "consumers",
  "msg_rate_in",
  "msg_rate_out",
] as const;
export type Sort = (typeof SORTS)[number];
export type SortOrder = Order<Sort>;

export const GROUPINGS: readonly { value: Grouping; label: string }[] = [
  { value: "version", label: "Version" },
  { value: "library", label: "Library" },
  { value: "language", label: "Language" },
  { value: "application", label: "Application" },
  { value: "role", label: "Role" },
  { value: "host", label: "Host" },
  { value: "broker", label: "Broker" },
];

export const PROXIES = ["yes", "no"] as const;
export const KINDS = ["producer", "consumer", "neither"] as const;

/** The value of an address that is one of the choices. */
export function choiceOf<T extends string>(choices: readonly T[], text: string | undefined): T | undefined {
  return choices.find((choice) => choice === text);
}

export function clientName({ library, version, sent }: Pick<Client, "library" | "version" | "sent">): string {
  return [library, version].filter(Boolean).join(" ") || sent || "not stated";
}

export function groupName({ library, value }: ClientGroup): string {
  return [library, value].filter(Boolean).join(" ") || "not stated";
}

/** The filter that selects a group; undefined where its clients state nothing, which no filter selects. */
export function filterOfGroup(
  by: Grouping,
  { library, value }: ClientGroup,
): Partial<Record<Grouping, string>> | undefined {
  if (by === "version" && library) return { library, version: value };
  return value === "" || by === "language" ? undefined : { [by]: value };
}

/** The brokers whose clients the list lacks; empty when it is whole. */
export function silentText({ brokers, silent }: Pick<ClientsPageAnswer, "brokers" | "silent">): string {
  if (silent.length === 0) return "";
  const named = silent.map(({ broker, reason }) => `${broker} (${reason})`).join(", ");
  return `${silent.length} of ${plural(brokers, "broker")} did not answer, and their clients are not known: ${named}`;
}

export function closedText({ producers, consumers, unacked }: DisconnectReceipt): string {
  const again = unacked === 0 ? "" : ` ${plural(unacked, "message")} are delivered again.`;
  return `The connection was closed with ${plural(producers, "producer")} and ${plural(consumers, "consumer")}.${again}`;
}
