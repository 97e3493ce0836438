/** Reads and writes which of a list's columns `all` are chosen. */
export function columnChoice<Column extends string>(all: readonly Column[]) {
  return {
    /** "consumers,type" → columns, in the list's order. "none": none of them; null: no such text. */
    parseChoice(text: string | null | undefined): Column[] | null {
      if (!text) return null;
      const named = new Set(text.split(","));
      const chosen = all.filter((each) => named.has(each));
      return chosen.length > 0 || text === "none" ? chosen : null;
    },

    choiceText(choice: readonly Column[]): string {
      return choice.length === 0 ? "none" : all.filter((each) => choice.includes(each)).join(",");
    },

    /** The visible columns in order: the chosen ones and the sorted one. */
    withSorted(choice: readonly Column[], sort: string): Column[] {
      const sorted = sort.replace(/^-/, "");
      return all.filter((each) => choice.includes(each) || each === sorted);
    },
  };
}
