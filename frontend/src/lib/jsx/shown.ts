import { translated } from "../language/sentences";
import { visible } from "../visible";
import { LANGUAGE } from "../words";

const TEXTS = ["title", "label", "aria-label", "alt"];

type Props = { children?: unknown; lang?: unknown; [name: string]: unknown };

function shownChild(child: unknown): unknown {
  return typeof child === "string" ? visible(child) : child;
}

/** The properties of an element with every text that they show made visible, and with sentences of the gateway, which
 * `lang="en"` marks, in the console's language; the same object when nothing is changed. */
export function shown<P>(props: P): P {
  const marked = props as Props;
  const given = LANGUAGE !== "en" && marked.lang === "en" ? inLanguage(marked) : marked;
  const changed: Props = {};
  const { children } = given;
  if (Array.isArray(children)) {
    if (children.some((child) => shownChild(child) !== child)) changed.children = children.map(shownChild);
  } else if (shownChild(children) !== children) changed.children = shownChild(children);
  for (const name of TEXTS)
    if (shownChild(given[name]) !== given[name]) changed[name] = shownChild(given[name]);
  return Object.keys(changed).length > 0 ? ({ ...given, ...changed } as P) : (given as P);
}

/** Without the mark and with German texts, if each of them has German: no element is in two languages. */
function inLanguage(props: Props): Props {
  const { lang: _, ...german } = props;
  const { children } = props;
  const list: unknown[] = Array.isArray(children) ? children : [children];
  // An element among them has words of its own, which the mark is for, too.
  if (!list.some((child) => typeof child === "string") || list.some(isElement)) return props;
  const words = list.map((child) => (typeof child === "string" ? translated(child) : child));
  if (words.some((word, index) => word === null && list[index] !== null)) return props;
  german.children = Array.isArray(children) ? words : words[0];
  for (const name of TEXTS) {
    const text = props[name];
    const own = typeof text === "string" ? translated(text) : text;
    if (own === null && text !== null) return props;
    if (own !== text) german[name] = own;
  }
  return german;
}

function isElement(child: unknown): boolean {
  return typeof child === "object" && child !== null;
}
