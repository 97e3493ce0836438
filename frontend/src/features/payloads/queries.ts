import { queryOptions } from "@tanstack/react-query";
import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";

export type PayloadRule = components["schemas"]["PayloadRuleShape"];

const REFRESH_MS = 10_000;
const PATH = "/api/v1/payload-rules";

async function readRules(signal?: AbortSignal): Promise<PayloadRule[]> {
  return (await answerOf(api.GET(PATH, signal ? { signal } : {}))).rows;
}

export function rulesQuery() {
  return queryOptions({
    queryKey: ["payload-rules"],
    queryFn: ({ signal }) => readRules(signal),
    refetchInterval: REFRESH_MS,
  });
}

export interface RulesPreview {
  /** The stored rules, which the change replaces. */
  before: PayloadRule[];
  /** The change to be sent; null when it would change nothing. */
  token: string | null;
}

export async function previewRules(rules: PayloadRule[]): Promise<RulesPreview> {
  const before = await readRules();
  const isSame = JSON.stringify(before.map(valuesOf)) === JSON.stringify(rules.map(valuesOf));
  return { before, token: isSame ? null : JSON.stringify({ rules, expected: before }) };
}

const valuesOf = ({ role, level, namespace, shown }: PayloadRule) => [role, level, namespace, shown];

export async function applyRules(token: string): Promise<PayloadRule[]> {
  return (await answerOf(api.PUT(PATH, { body: JSON.parse(token) }))).rows;
}
