import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";

/** The exact filters. */
export const EXACT = ["library", "version", "role", "application", "broker", "host"] as const;
const names = [...EXACT, "q", "proxy", "kind", "group", "sort"] as const;
type Name = (typeof names)[number];

/** Texts of the address; the page, which is loaded later, checks those that are choices. */
export const clientsSearch = z.object(
  Object.fromEntries(names.map((name) => [name, searchText])) as Record<Name, typeof searchText>,
);
