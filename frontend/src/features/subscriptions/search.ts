import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";

/** Texts of the address; the page, which is loaded later, checks those that are choices. */
export const subscriptionsSearch = z.object({
  q: searchText,
  tenant: searchText,
  namespace: searchText,
  attention: searchText,
  older_s: searchText,
  late: searchText,
  sort: searchText,
  columns: searchText,
});
