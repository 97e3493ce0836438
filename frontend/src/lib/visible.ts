// Names may hold anything. Characters that are not seen, or change in which order others are shown, are shown as signs:
// a name must read as what it is.

const UNSEEN = /(?![\t\n])[\p{Cc}\p{Bidi_Control}\u200b\u2028\u2029\u2060-\u206f\ufeff]/u;
const EACH_UNSEEN = new RegExp(UNSEEN, "gu");
const PICTURES = 0x2400;
const DELETE = 0x7f;

function sign(character: string): string {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(PICTURES + code);
  if (code === DELETE) return "\u2421";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** The text with a sign for each character that is not seen by itself; tabs and line feeds stay. */
export function visible(text: string): string {
  return UNSEEN.test(text) ? text.replace(EACH_UNSEEN, sign) : text;
}
