import { visible } from "../visible";

const TEXTS = ["title", "label", "aria-label", "alt"];

function shownChild(child: unknown): unknown {
  return typeof child === "string" ? visible(child) : child;
}

/** The properties of an element with every text that they show made visible; the same object when nothing is hidden. */
export function shown<P>(props: P): P {
  const given = props as Record<string, unknown>;
  const changed: { children?: unknown; [name: string]: unknown } = {};
  const { children } = given;
  if (Array.isArray(children)) {
    if (children.some((child) => shownChild(child) !== child)) changed.children = children.map(shownChild);
  } else if (shownChild(children) !== children) changed.children = shownChild(children);
  for (const name of TEXTS)
    if (shownChild(given[name]) !== given[name]) changed[name] = shownChild(given[name]);
  return Object.keys(changed).length > 0 ? ({ ...given, ...changed } as P) : props;
}
