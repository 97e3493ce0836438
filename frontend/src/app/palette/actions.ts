// The palette's actions on a topic, and the words that name them.

export type ActionKey =
  | "open"
  | "subscriptions"
  | "partitions"
  | "copy"
  | "analyse"
  | "skip-all"
  | "skip"
  | "reset";

export interface Action {
  key: ActionKey;
  label: string;
  words: string; // other names of it
  of: "topic" | "subscription";
}

export const ACTIONS: readonly Action[] = [
  { key: "open", label: "Open", words: "show go overview", of: "topic" },
  { key: "subscriptions", label: "Subscriptions", words: "consumers cursors", of: "topic" },
  { key: "partitions", label: "Partitions", words: "", of: "topic" },
  { key: "copy", label: "Copy the name", words: "clipboard", of: "topic" },
  { key: "analyse", label: "Launch an analysis", words: "analyze profile run", of: "topic" },
  { key: "skip-all", label: "Skip all…", words: "clear drain backlog discard", of: "subscription" },
  { key: "skip", label: "Skip…", words: "discard some", of: "subscription" },
  { key: "reset", label: "Reset…", words: "rewind replay seek cursor", of: "subscription" },
];

export function wordsOf(text: string): string[] {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

/** Whether every word is somewhere in the text, in any case and order. */
export function hasWords(text: string, words: readonly string[]): boolean {
  const lowered = text.toLowerCase();
  return words.every((word) => lowered.includes(word));
}

export interface Asked {
  actions: Action[];
  rest: string; // the words that name the topic
}

const NAMED_MIN = 3;

/** The actions that the words ask for: those that most of the words begin to name. Null when they name none. */
export function askedFor(words: readonly string[]): Asked | null {
  let best = 0;
  let asked: Asked | null = null;
  for (const action of ACTIONS) {
    if (action.key === "open") continue; // choosing a topic opens it
    const names = wordsOf(`${action.label} ${action.words}`.replaceAll("…", ""));
    const isName = (word: string) =>
      names.some((name) => name === word || (word.length >= NAMED_MIN && name.startsWith(word)));
    const named = words.filter(isName).length;
    if (named === 0 || named < best) continue;
    const rest = words.filter((word) => !isName(word)).join(" ");
    if (named > best || !asked || asked.rest !== rest) asked = { actions: [], rest };
    asked.actions.push(action);
    best = named;
  }
  return asked;
}
