import { queryOptions } from "@tanstack/react-query";
import * as z from "zod/mini";
import { answerOf, api } from "../../api/client";
import type { Analysis } from "../../api/types";
import { searchText } from "../../lib/url-state";

export const analysesQuery = queryOptions({
  queryKey: ["analyses"],
  queryFn: ({ signal }) => answerOf(api.GET("/api/v1/analyses", { signal })) as Promise<Analysis[]>,
  staleTime: 60_000,
});

export type Kind = "topic" | "namespace" | "tenant" | "cluster";

/** The parameters that are known where a question arises. */
const PLACE = {
  topic: searchText,
  namespace: searchText,
  tenant: searchText,
  subscription: searchText,
  other_cluster: searchText,
};
export const placeSearch = z.object(PLACE);
export type Place = z.infer<typeof placeSearch>;

/** The kind of object that a place is about, the smallest that it names. */
export function kindOf({ topic, namespace, tenant }: Place): Kind {
  return topic ? "topic" : namespace ? "namespace" : tenant ? "tenant" : "cluster";
}

const KIND_NOUNS: Record<Kind, { text: string }> = {
  topic: { text: "topic" },
  namespace: { text: "namespace" },
  tenant: { text: "tenant" },
  cluster: { text: "cluster" },
};

export function nounOf(kind: Kind): string {
  return KIND_NOUNS[kind].text;
}

export function nameOf(place: Place): string {
  return place.topic ?? place.namespace ?? place.tenant ?? "";
}

/** The parameters of an analysis that are known at a place. */
export function givenAt(place: Place, { parameters }: Analysis): Place {
  const kind = kindOf(place);
  return Object.fromEntries(
    Object.entries(place).filter(
      ([name, value]) =>
        value && name in (parameters.properties ?? {}) && (name === kind || !isTarget(name as Kind)),
    ),
  );
}

export function isTarget(name: string): name is Kind {
  return ["topic", "namespace", "tenant", "cluster"].includes(name);
}

const GROUPS: readonly (readonly [title: string, names: readonly string[]])[] = [
  [
    "Find and explain",
    ["find", "who-is-behind", "dead-letters", "lost-doubled-reordered", "replication-audit"],
  ],
  ["Know what is in it", ["topic-profile", "hot-keys", "field-drift", "personal-data", "sql"]],
  ["Storage and cost", ["disk-not-freed", "usage", "what-if", "export"]],
];

/** The analyses that can read a kind of object, in groups; those of no group are the last one. */
export function grouped(analyses: readonly Analysis[], kind: Kind | null): [title: string, Analysis[]][] {
  const fitting = analyses.filter(({ targets }) => kind === null || targets.includes(kind));
  const named = new Set(GROUPS.flatMap(([, names]) => names));
  const groups: [string, Analysis[]][] = GROUPS.map(([title, names]) => [
    title,
    names.flatMap((name) => fitting.filter((analysis) => analysis.name === name)),
  ]);
  groups.push(["More", fitting.filter(({ name }) => !named.has(name))]);
  return groups.filter(([, members]) => members.length > 0);
}

/** Titles of the analyses that items of attention offer: those pages do not read the catalogue, which starts Spark. */
export const OFFERED: Record<string, string> = {
  "disk-not-freed": "Disk not freed",
  "hot-keys": "Hot keys",
  "who-is-behind": "Who is behind",
};

const BY_CAUSE: Record<string, string> = {
  "hot-key": "hot-keys",
  "key-blocked": "hot-keys",
  "bookie-read-only": "disk-not-freed",
};

/** The name of the analysis that answers why a problem of this cause is there. */
export function analysisOf({ cause, subscription }: { cause: string; subscription: string }): string {
  return BY_CAUSE[cause] ?? (subscription ? "who-is-behind" : "");
}
