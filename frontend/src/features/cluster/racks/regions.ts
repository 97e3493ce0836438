import type { components } from "../../../api/schema";
import { count, plural } from "../../../lib/format";

export type Bookie = components["schemas"]["BookieWithRack"];
export type Placement = components["schemas"]["BookieNeeds"];

/** Region of bookies whose rack is not set. */
const DEFAULT_REGION = "default-region";

export interface Region {
  name: string;
  racks: string[];
  bookies: number;
  writable: number;
}

export interface Loss {
  tone: "ok" | "warn" | "bad" | "neutral";
  text: string;
}

/** The region of a rack: the first part of `/region/rack`. */
export function regionOf({ rack }: Pick<Bookie, "rack">): string {
  return rack.split("/").find((part) => part !== "") ?? DEFAULT_REGION;
}

/** Whether copies are placed by regions, or an operator has named some. */
export function hasRegions(bookies: readonly Bookie[], placement: Placement | null): boolean {
  const isNamed = ({ rack }: Bookie) => rack.split("/").filter((part) => part !== "").length > 1;
  return (placement?.regions_min ?? 0) > 0 || bookies.some(isNamed);
}

export function regionsOf(bookies: readonly Bookie[]): Region[] {
  const names = [...new Set(bookies.map(regionOf))].sort();
  return names.map((name) => {
    const members = bookies.filter((bookie) => regionOf(bookie) === name);
    return {
      name,
      racks: [...new Set(members.map(({ rack }) => rack || "not set"))].sort(),
      bookies: members.length,
      writable: members.filter(({ state }) => state === "writable").length,
    };
  });
}

/** The needs of the brokers, in words. */
export function needsOf(placement: Placement | null): string {
  if (placement === null) return "What brokers need of the regions is not known: none has reported it.";
  const { regions_min: least, regions } = placement;
  if (least === 0)
    return "Brokers do not place copies by regions: bookkeeperClientRegionawarePolicyEnabled is off.";
  const named = regions.length > 0 ? ` Ledgers are written to ${regions.join(", ")} alone.` : "";
  return `A message is confirmed once ${plural(least, "region")} ${least === 1 ? "has" : "have"} it.${named}`;
}

/** The effect of the loss of a region, with the abilities of the others. */
export function lossOf(region: Region, all: readonly Region[], placement: Placement | null): Loss {
  if (placement === null) return { tone: "neutral", text: "not known" };
  const { regions_min: least, regions: named, ensemble } = placement;
  const isWritten = ({ name }: Region) => named.length === 0 || named.includes(name);
  if (least > 0 && !isWritten(region)) return { tone: "ok", text: "No ledger is written to it." };
  const left = all.filter((other) => other.name !== region.name && (least === 0 || isWritten(other)));
  const writable = left.reduce((sum, other) => sum + other.writable, 0);
  const places = left.filter((other) => other.writable > 0).length;
  const remains = `${plural(writable, "writable bookie")} in ${plural(places, "region")} ${writable === 1 ? "is" : "are"} left`;
  const kept =
    least > 1 ? "No confirmed message is lost" : "Messages whose copies are all in it cannot be read";
  if (writable === 0) return { tone: "bad", text: `${kept}. Publishing stops: no writable bookie is left.` };
  if (places < least)
    return { tone: "bad", text: `${kept}. Publishing stops: ${remains}, of ${count(least)} regions needed.` };
  if (writable < ensemble)
    return {
      tone: "bad",
      text: `${kept}. Publishing stops: ${remains}, and new ledgers need ${plural(ensemble, "bookie")}.`,
    };
  return { tone: least > 1 ? "ok" : "warn", text: `${kept}. Publishing continues: ${remains}.` };
}
