// Names may contain any characters. Invisible ones, and those that change the order of others, are shown as signs,
// so that a name is not mistaken for another.

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
