// Sentences of the gateway in the chosen language. The gateway answers in English, a contract for scripts too;
// `translation/sentences.json` has the German of each, with named holes for its values. Pure.

import { LANGUAGE, SENTENCES } from "../words";

/** The length above which a text is content, which no template is tried on. */
const LONGEST = 2_000;
const KEPT = 2_000;

/** The values of a hole by its name, without digits at its end. A hole of another name is a text that needs German. */
const HOLES: Record<string, string> = {
  n: /-?\d[\d,]*(?:\.\d+)?/.source,
  name: /\S*[^\s,;:.]/.source,
  any: /.+/.source,
  time: /\d{4}-\d\d-\d\dT[\d:]+Z|(?:\d\d?\. \S+ \d{4}, )?\d\d:\d\d:\d\d(?: [A-Z+:\d]+)?/.source,
};
/** The joints of sentences in one text, the outermost first: no entry has these. */
const JOINTS = [/(\n)/, /( · )/, /((?<=[.!?]) (?=[A-Z])|(?<=\)\.) (?=\d))/];
/** The joint of parts of a sentence that is no entry as a whole. */
const INNER_JOINT = /(; )/;

interface Template {
  /** The longest words of it, which a text that matches has. */
  words: string;
  expression: RegExp;
  holes: string[];
  german: string;
  /** Whether it has no words of its own, such as a name before what is said of it. */
  isBare: boolean;
}

let templates: Template[] | undefined;
let fixed: Map<string, string> | undefined;
const known = new Map<string, string | null>();

/** The German of a sentence; null where the console is English, or where a part of the sentence has none. */
export function translated(text: string): string | null {
  if (LANGUAGE === "en") return null;
  const stored = known.get(text);
  if (stored !== undefined) return stored;
  const german = text.length > LONGEST ? null : inGerman(text);
  if (known.size >= KEPT) known.clear();
  known.set(text, german);
  return german;
}

/** A sentence of the gateway in the console's language, where it has that. */
export const localized = (text: string): string => translated(text) ?? text;

/** `isPart`: the text is in a hole of another, where bare templates would take anything. */
function inGerman(text: string, isPart = false): string | null {
  const [, before = "", sentence = "", after = ""] = /^(\s*)(.*?)(\s*)$/s.exec(text) ?? [];
  if (!/\p{L}/u.test(sentence)) return before + localNumbers(sentence) + after;
  const fixedOne = fixedGerman(sentence);
  const joint = JOINTS.find((each) => each.test(sentence));
  const found =
    fixedOne ??
    (joint
      ? eachPart(sentence, joint, isPart)
      : (byTemplate(sentence, isPart) ?? eachPart(sentence, INNER_JOINT, isPart)));
  return found === null ? null : before + found + after;
}

const withoutStop = (text: string) => text.replace(/(?<![.…])\.$/, "");
const lowered = (text: string) => text.charAt(0).toLowerCase() + text.slice(1);

/** A sentence without values. Its first letter may be a capital, and its stop be missing. */
function fixedGerman(sentence: string): string | null {
  if (!fixed) {
    const entries = Object.entries(SENTENCES).filter(([key]) => !key.includes("{"));
    fixed = new Map(entries.map(([key, german]) => [lowered(withoutStop(key)), withoutStop(german)]));
    // A text may have braces of its own.
    for (const [key, german] of Object.entries(SENTENCES)) fixed.set(key, german);
  }
  const exact = fixed.get(sentence);
  if (exact !== undefined) return exact;
  const german = fixed.get(lowered(withoutStop(sentence)));
  return german === undefined ? null : asIn(sentence, german);
}

/** German with a capital and a stop where the English text has them. */
function asIn(sentence: string, german: string): string {
  const stop = withoutStop(sentence) === sentence || german.endsWith(".") ? "" : ".";
  const first = sentence.charAt(0);
  const isCapital = first !== first.toLowerCase();
  return (isCapital ? german.charAt(0).toUpperCase() + german.slice(1) : german) + stop;
}

function byTemplate(sentence: string, isPart: boolean): string | null {
  templates ??= Object.entries(SENTENCES)
    .filter(([key]) => key.includes("{"))
    .map(([key, german]) => compiled(key, german))
    .sort((left, right) => right.words.length - left.words.length);
  for (const { words, expression, holes, german, isBare } of templates) {
    if ((isBare && isPart) || !sentence.includes(words)) continue;
    const found = expression.exec(sentence);
    if (!found) continue;
    const values = new Map<string, string>();
    for (const [index, hole] of holes.entries()) {
      const text = found[index + 1] ?? "";
      const value = isBare && !HOLES[kindOf(hole)] && !text.includes(" ") ? null : inHole(hole, text);
      if (value === null) break;
      values.set(hole, value);
    }
    if (values.size === holes.length)
      return asIn(
        sentence,
        german.replace(/\{(\w+)\}/g, (_, hole: string) => values.get(hole) ?? ""),
      );
  }
  return null;
}

function compiled(key: string, german: string): Template {
  const parts = withoutStop(key).split(/\{(\w+)\}/);
  const literals = parts.filter((_, index) => index % 2 === 0);
  // The first letter is compared by the expression, which takes a capital too.
  const words = literals.map((part, index) => (index === 0 ? part.slice(1) : part));
  const pattern = parts.map((part, index) =>
    index % 2 === 1 ? `(${HOLES[kindOf(part)] ?? ".+?"})` : index === 0 ? either(part) : escaped(part),
  );
  return {
    words: words.reduce((longest, part) => (part.length > longest.length ? part : longest), ""),
    expression: new RegExp(`^${pattern.join("")}\\.?$`),
    holes: parts.filter((_, index) => index % 2 === 1),
    german: withoutStop(german),
    isBare: literals.every((part) => part.trim() === ""),
  };
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The words with their first letter as a capital or not. */
function either(words: string): string {
  const first = words.charAt(0);
  if (first.toLowerCase() === first.toUpperCase()) return escaped(words);
  return `[${first.toLowerCase()}${first.toUpperCase()}]${escaped(words.slice(1))}`;
}

const kindOf = (hole: string) => hole.replace(/\d+$/, "");

function inHole(hole: string, value: string): string | null {
  const kind = kindOf(hole);
  if (kind === "n") return localNumbers(value);
  if (kind === "name") return Object.hasOwn(SENTENCES, value) ? (SENTENCES[value] ?? value) : value;
  return kind in HOLES ? value : inGerman(value, true);
}

/** "1,500.5" → "1.500,5" */
function localNumbers(text: string): string {
  return text.replace(/\d[\d,]*(?:\.\d+)?/g, (number) =>
    number.replace(/[.,]/g, (sign) => (sign === "." ? "," : ".")),
  );
}

/** A path, such as a topic's name, which is a part of its own in some texts. */
const PATH = /^\S*\/\S*$/;

/** The text with German for each of its parts; null as soon as one has none, or where there is one alone. */
function eachPart(text: string, joint: RegExp, isPart: boolean): string | null {
  const parts = text.split(joint);
  if (parts.length === 1) return null;
  const german = parts.map((part, index) =>
    index % 2 === 1 ? part : (inGerman(part, isPart) ?? (PATH.test(part) ? part : null)),
  );
  return german.includes(null) ? null : german.join("");
}
