import type { components } from "../../api/schema";
import { bytes, count, duration } from "../../lib/format";

type QuotaUse = components["schemas"]["QuotaUse"];

const TEXTS: Record<string, (value: number) => string> = {
  "backlog size": bytes,
  "backlog age": duration,
  topics: count,
};

/** The limit of a namespace of which most is used; all of them in its title. */
export function Quota({ of }: { of: readonly QuotaUse[] }) {
  const [fullest] = of;
  if (!fullest)
    return <span title="No backlog quota and no number of topics is set on the namespace">—</span>;
  return (
    <span title={of.map(detailOf).join("; ")}>
      {shareOf(fullest)} <small>of {fullest.name}</small>
    </span>
  );
}

/** "42 %", "≤ 42 %" for an upper bound, a dash where it is not known. */
function shareOf({ share, at_most }: QuotaUse): string {
  if (share === null) return "—";
  const percent = share > 0 && share < 0.01 ? "<1 %" : `${count(Math.round(share * 100))} %`;
  return at_most ? `≤ ${percent}` : percent;
}

function detailOf({ name, used, limit, at_most }: QuotaUse): string {
  const text = TEXTS[name] ?? String;
  const amount = used === null ? "not known" : `${at_most ? "at most " : ""}${text(used)}`;
  return `${name}: ${amount} of ${text(limit)}`;
}
