// The language of the console. German is fetched when it is chosen and stored in the browser, so that every module finds
// it at once; English is in the modules themselves. `translation/` puts the calls of `w` into them when they are built.

const KEY = "magnetar-words";

type Words = Record<string, string>;
interface Stored {
  version: string;
  words: Words;
  /** German of the gateway's sentences, which `sentences.ts` finds. */
  sentences: Words;
}

export type Language = "en" | "de";

const stored = storedWords();
export const LANGUAGE: Language = stored ? "de" : "en";
export const SENTENCES: Words = stored?.sentences ?? {};

/** The text in the chosen language; {} in it, or {1} for the second, stands for a value. */
export function w(text: string, ...values: unknown[]): string {
  let next = 0;
  const chosen = stored?.words[text] ?? text;
  return values.length === 0
    ? chosen
    : chosen.replace(/\{(\d?)\}/g, (_, index: string) => String(values[index ? Number(index) : next++]));
}

/** Stores the choice, and shows the page again in it. */
export async function chooseLanguage(language: Language): Promise<void> {
  if (language === "en") localStorage.removeItem(KEY);
  else await storeGerman();
  location.reload();
}

/** Fetches German again where this build has another translation than the stored one. */
export async function refreshWords(): Promise<void> {
  if (!stored || stored.version === __WORDS_VERSION__) return;
  await storeGerman();
  location.reload();
}

async function storeGerman(): Promise<void> {
  const [{ default: words }, { default: sentences }] = await Promise.all([
    import("../../translation/german.json"),
    import("../../translation/sentences.json"),
  ]);
  localStorage.setItem(
    KEY,
    JSON.stringify({ version: __WORDS_VERSION__, words, sentences } satisfies Stored),
  );
}

function storedWords(): Stored | null {
  try {
    const found: Partial<Stored> | null = JSON.parse(localStorage.getItem(KEY) ?? "null");
    return typeof found?.version === "string" && found.words instanceof Object ? (found as Stored) : null;
  } catch {
    return null; // storage is closed, or holds something else
  }
}
