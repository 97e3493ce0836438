import * as z from "zod/mini";
import { searchText } from "../../lib/url-state";

/** The topic whose groups are shown, by its full name, and words of the list. */
export const lettersSearch = z.object({ q: searchText, topic: searchText });

/** `from`: the topic of a copy that is to be started. */
export const copiesSearch = z.object({ from: searchText, topic: searchText });
