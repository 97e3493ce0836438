import type { PayloadRule } from "./queries";

export const NEW_RULE: PayloadRule = { role: "", level: "", namespace: "", shown: false };
/** The rule behind all others. */
export const OTHERWISE = "Where no rule matches, payloads are shown at the level full alone.";

const PART = "[-=:.\\w]+";
/** "*", "tenant/*", or the full name of a namespace; older ones have the cluster in it. */
const PATTERN = new RegExp(`^(\\*|${PART}/\\*|${PART}/${PART}(/${PART})?)$`);

/** "Payloads of acme/billing are hidden from role app at the level read." */
export function ruleText({ role, level, namespace, shown }: PayloadRule): string {
  const who = `${role ? `the role ${role}` : "everybody"}${level ? ` at the level ${level}` : ""}`;
  return `Payloads of ${whereText(namespace)} are ${shown ? "shown to" : "hidden from"} ${who}.`;
}

function whereText(pattern: string): string {
  if (pattern === "*") return "all namespaces";
  return pattern.endsWith("/*") ? `all namespaces of ${pattern.slice(0, -2)}` : pattern;
}

/** The number of the rule that decides before this one in every case; null when there is none. */
export function decidedBy(rules: readonly PayloadRule[], index: number): number | null {
  const rule = rules[index];
  if (!rule) return null;
  const before = rules.slice(0, index).findIndex((other) => {
    const isOfRole = other.role === "" || other.role === rule.role;
    const isOfLevel = other.level === "" || other.level === rule.level;
    return isOfRole && isOfLevel && covers(other.namespace, rule.namespace);
  });
  return before < 0 ? null : before + 1;
}

function covers(pattern: string, other: string): boolean {
  if (pattern === "*" || pattern === other) return true;
  return pattern.endsWith("/*") && other.startsWith(pattern.slice(0, -1));
}

export function isPattern(namespace: string): boolean {
  return PATTERN.test(namespace);
}

/** The reason why rules are not complete; null when they are. */
export function rulesProblem(rules: readonly PayloadRule[]): string | null {
  const wrong = trimmed(rules).findIndex(({ namespace }) => !isPattern(namespace));
  return wrong < 0 ? null : `Rule ${wrong + 1} needs a namespace: tenant/namespace, tenant/* or *`;
}

export function trimmed(rules: readonly PayloadRule[]): PayloadRule[] {
  return rules.map(({ role, level, namespace, shown }) => ({
    role: role.trim(),
    level,
    namespace: namespace.trim(),
    shown,
  }));
}
