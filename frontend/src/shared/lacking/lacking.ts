import { useQuery } from "@tanstack/react-query";
import { environmentQuery } from "../../api/environment";

/** A feature that a cluster may not have: the gateway's `lacks` has the reason. */
export type Ability =
  | "messages"
  | "publish"
  | "cursor-preview"
  | "policy-preview"
  | "topic-policies"
  | "schemas"
  | "traces"
  | "analyses"
  | "grants"
  | "broker-settings"
  | "load-balance"
  | "bookie-states"
  | "racks"
  | "repair"
  | "foreign-changes";

type Lacks = Readonly<Record<string, string>>;

const PAGES: readonly [RegExp, Ability][] = [
  [/^\/c\/[^/]+\/t\/.*\/(messages|tail)(\/[^/]*)?$/, "messages"],
  [/^\/c\/[^/]+\/t\/.*\/publish$/, "publish"],
  [/^\/c\/[^/]+\/t\/.*\/schema$/, "schemas"],
  [/^\/c\/[^/]+\/t\/.*\/policies$/, "topic-policies"],
  [/^\/c\/[^/]+\/t\/.*\/traces$/, "traces"],
  [/^\/c\/[^/]+\/t\/.*\/access$/, "grants"],
  [/^\/c\/[^/]+\/settings$/, "broker-settings"],
  [/^\/analyses(\/|$)/, "analyses"],
];

/** The reason why a page has nothing to show for the cluster; undefined where it has. */
export function lackOfPage(pathname: string, lacks: Lacks): string | undefined {
  const ability = PAGES.find(([pattern]) => pattern.test(pathname))?.[1];
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
