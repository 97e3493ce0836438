import { count, plural } from "../../../lib/format";
import type { RackPreview, RackReceipt, RackSetting } from "./rack-queries";

/** "rack /r1 in group default". */
export function rackText(setting: RackSetting | null): string {
  if (setting === null) return "no rack";
  return `${setting.rack ? `rack ${setting.rack}` : "no rack"} in group ${setting.group}`;
}

export function changeOf({ token, before, after }: RackPreview): string {
  if (token === null)
    return after === null ? "No rack is set." : `Nothing changes: it is ${rackText(after)} already.`;
  return `From ${rackText(before)} to ${rackText(after)}.`;
}

export function remarksOf({ token, bookies, without_rack: without, racks }: RackPreview): string[] {
  const spread = racks + (without > 0 ? 1 : 0);
  return [
    ...(token === null
      ? []
      : [
          "It applies to new ledgers, and to bookies that replace failed ones; stored copies stay where they are. Brokers whose ensemblePlacementPolicy is not rack-aware ignore it.",
        ]),
    bookies === 1
      ? "It is the only bookie: there is nothing to spread copies over."
      : without > 0
        ? `${count(without)} of ${plural(bookies, "bookie")} ${without === 1 ? "has" : "have"} no rack after the change: placement treats ${without === 1 ? "it as a rack of its own" : "them as one rack, and cannot spread copies among them by rack"}.`
        : `All ${count(bookies)} bookies have a rack after the change.`,
    ...(bookies > 1 && spread === 1
      ? ["All are in one rack after the change: copies cannot be spread over racks."]
      : without === 0 && spread > 1
        ? [`Copies are spread over ${count(spread)} racks, if there are enough bookies.`]
        : []),
  ];
}

export function doneOf(bookie: string, { after }: RackReceipt): string {
  return after === null
    ? `No rack is set for ${bookie} any more.`
    : `${bookie} is set to ${rackText(after)}: new ledgers are placed by it.`;
}
