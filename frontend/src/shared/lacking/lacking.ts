import { useQuery } from "@tanstack/react-query";
import { environmentQuery } from "../../api/environment";

/** A feature that a cluster may not have: the gateway's `lacks` has the reason. */
export type Ability =
  | "sockets"
  | "copies"
  | "cursor-preview"
  | "policy-preview"
  | "traces"
  | "analyses"
  | "grants"
  | "broker-settings"
  | "load-balance"
  | "bookie-states"
  | "racks"
  | "repair"
  | "transactions"
  | "functions"
  | "connections"
  | "foreign-changes";

type Lacks = Readonly<Record<string, string>>;

const TABS: Readonly<Record<string, Ability>> = {
  traces: "traces",
  access: "grants",
};

/** Pages of a cluster, by the first part of their paths. */
const PAGES: Readonly<Record<string, Ability>> = {
  settings: "broker-settings",
  transactions: "transactions",
  functions: "functions",
  clients: "connections",
};

/** The reason why a page has nothing to show for the cluster; undefined where it has. */
export function lackOfPage(pathname: string, lacks: Lacks): string | undefined {
  const [, first, , page = "", , , , tab = ""] = pathname.split("/");
  if (first === "analyses") return lacks.analyses;
  const ability = PAGES[page] ?? TABS[tab];
  return ability && lacks[ability];
}

const NONE: Lacks = {};

/** The features that the page's cluster does not have, with the reasons. */
export function useLacks(): Lacks {
  return useQuery(environmentQuery).data?.lacks ?? NONE;
}

/** Whether the page's cluster is an Apache Pulsar behind its REST interface. */
export function useIsApache(): boolean {
  return useQuery(environmentQuery).data?.kind === "apache";
}
