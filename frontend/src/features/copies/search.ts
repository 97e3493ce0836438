import * as z from "zod/mini";
import { listSearch, searchText } from "../../lib/url-state";

/** The topic whose groups are shown, by its full name, and words of the list. With `shape` a group to be redriven. */
export const lettersSearch = z.object({
  q: searchText,
  ...listSearch,
  topic: searchText,
  shape: searchText,
  reason: searchText,
  origin: searchText,
  subscription: searchText,
});

/** `from`: the topic of a copy that is to be started. */
export const copiesSearch = z.object({
  from: searchText,
  topic: searchText,
  state: searchText,
  ...listSearch,
});
