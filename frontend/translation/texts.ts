// The texts of a source file, and the file with those that have a translation looked up when it runs.

import { parseSync } from "vite";

export interface Text {
  /** As the translation names it: words of a template with {} for each value. */
  key: string;
  start: number;
  end: number;
  /** `plural`: the words of a number, which `plural` itself looks up. `word`: one that a template has as a value. */
  kind: "jsx" | "attribute" | "literal" | "template" | "plural" | "word";
  /** Of a word: the key of its template, and the number of the value. */
  within?: { key: string; value: number };
  /** The values of a template: where their source begins and ends. */
  values: { start: number; end: number }[];
}

interface Node {
  type: string;
  start: number;
  end: number;
  // biome-ignore lint/suspicious/noExplicitAny: nodes have many forms
  [name: string]: any;
}

/** Attributes and properties whose values are not shown. */
const HIDDEN = new Set(
  "className class to key id type href role name size variant tone path kind sort value target rel fill stroke d viewBox as format method slot place xmlns component queryKey align side color style autoComplete htmlFor mode order layout position cause code field domain unitKey".split(
    " ",
  ),
);
/** Properties whose values are shown, even a single small word. */
const SHOWN = new Set(
  "label header title unit text note detail placeholder what noun description children caption empty".split(
    " ",
  ),
);
const WORDY = /[A-Za-zÀ-ž]{2}/;
const NOT_TEXT =
  /^(https?:\S*$|[a-z][\w-]*\/[\w/.$-]+$|[#./@$]|--|[A-Z_]+$|\w+[.:]\w+$|[a-z-]+\(|[\d.]+(px|em|vw)|[\d.]+ [\d.]+|system-ui|ui-mono|\{\}px|curl |-H ")/;
/** Calls whose arguments are no texts, by the name of what is called. */
const PLAIN_CALLS = new Set(
  "lazyPage getRouteApi createRoute lazy import GET POST PUT DELETE getItem setItem removeItem querySelector getPropertyValue addEventListener removeEventListener matchMedia useMayRead whyNot lines split join startsWith endsWith includes indexOf replace replaceAll localeCompare padStart Error TypeError URL DateTimeFormat NumberFormat getElementById closest createElement setAttribute has get literal enum field".split(
    " ",
  ),
);
/** Methods of lists that look for what is given to them. */
const SEARCHES = new Set(["includes", "indexOf", "has"]);
/** Attributes of elements whose values are shown, besides those of `SHOWN`. */
const SHOWN_ATTRIBUTES = new Set(["aria-label", "alt", "noun"]);

/** The texts of a module that are shown, in their order. */
export function textsOf(path: string, code: string): Text[] {
  const { program } = parseSync(path, code) as unknown as { program: Node };
  const texts: Text[] = [];
  walk(program, []);
  return texts;

  function walk(node: Node, above: Node[]): void {
    if (
      node.type.startsWith("TS") &&
      !["TSAsExpression", "TSNonNullExpression", "TSSatisfiesExpression"].includes(node.type)
    )
      return;
    if (node.type === "ImportDeclaration" || node.type === "ExportAllDeclaration") return;
    if (node.type === "JSXText") addJsx(node);
    else if (node.type === "Literal" && typeof node.value === "string") addLiteral(node, above);
    else if (node.type === "TemplateLiteral") addTemplate(node, above);
    if (node.type === "CallExpression" && node.callee.name === "plural") {
      addPlural(node, above);
      return;
    }
    const around = [...above, node];
    for (const value of Object.values(node)) {
      if (Array.isArray(value)) {
        for (const each of value) if (each && typeof each.type === "string") walk(each, around);
      } else if (value && typeof value === "object" && typeof value.type === "string") walk(value, around);
    }
  }

  function addJsx(node: Node): void {
    const raw = code.slice(node.start, node.end);
    const trimmed = raw.trim();
    const key = trimmed.replace(/\s*\n\s*/g, " ");
    if (!WORDY.test(key) || key.includes("&")) return;
    const start = node.start + raw.indexOf(trimmed);
    texts.push({ key, start, end: start + trimmed.length, kind: "jsx", values: [] });
  }

  function addLiteral(node: Node, above: Node[]): void {
    const isAttribute = above.at(-1)?.type === "JSXAttribute";
    if (!isShown(node, above, node.value)) {
      addWord(node, above);
      return;
    }
    const { start, end } = node;
    texts.push({ key: node.value, start, end, kind: isAttribute ? "attribute" : "literal", values: [] });
  }

  /** A single word that a template chooses, such as "is" or "are". */
  function addWord(node: Node, above: Node[]): void {
    let index = above.length - 1;
    for (let child = node; above[index]?.type === "ConditionalExpression"; index--) {
      if (above[index]?.test === child) return;
      child = above[index] as Node;
    }
    const template = above[index];
    if (index === above.length - 1 || template?.type !== "TemplateLiteral" || !WORDY.test(node.value)) return;
    const { start, end } = node;
    const text = texts.find((each) => each.kind === "template" && each.start === template.start);
    const value = text?.values.findIndex((each) => each.start <= start && end <= each.end);
    if (text && value !== undefined)
      texts.push({ key: node.value, start, end, kind: "word", values: [], within: { key: text.key, value } });
  }

  function addPlural(node: Node, above: Node[]): void {
    const [amount, one, many] = node.arguments as Node[];
    if (amount) walk(amount, [...above, node]);
    if (one?.type !== "Literal") return;
    const { start, end } = one;
    const words = [one.value, many?.type === "Literal" ? many.value : `${one.value}s`];
    for (const key of words) texts.push({ key, start, end, kind: "plural", values: [] });
  }

  function addTemplate(node: Node, above: Node[]): void {
    const key = node.quasis.map((part: Node) => part.value.cooked).join("{}");
    if (above.at(-1)?.type === "TaggedTemplateExpression" || !isShown(node, above, key)) return;
    if (!/[A-Za-z]{2}/.test(key.replaceAll("{}", ""))) return;
    const values = node.expressions.map(({ start, end }: Node) => ({ start, end }));
    texts.push({ key, start: node.start, end: node.end, kind: "template", values });
  }
}

function nameOf(node: Node): string {
  return String(node.key?.name?.name ?? node.key?.name ?? node.key?.value ?? node.name?.name ?? "");
}

/** Whether a literal at this place is shown to people. */
function isShown(node: Node, above: Node[], text: string): boolean {
  if (!WORDY.test(text) || NOT_TEXT.test(text)) return false;
  const isSentence = /[A-Za-z]+[ ,:].*[A-Za-z{]|^[A-Z][a-z]+…?$|[a-z]…$/.test(text.trim());
  let inText = false;
  for (let index = above.length - 1, child = node; index >= 0; index--) {
    const parent = above[index] as Node;
    switch (parent.type) {
      case "BinaryExpression":
        if (parent.operator !== "+") return false;
        break;
      case "SwitchCase":
        if (parent.test === child) return false;
        break;
      case "MemberExpression":
        // A list that is only searched has names of the program, not texts.
        if (parent.property === child || SEARCHES.has(nameOf({ ...parent, key: parent.property })))
          return false;
        break;
      case "Property":
        if (parent.key === child || HIDDEN.has(nameOf(parent))) return false;
        if (SHOWN.has(nameOf(parent))) inText = true;
        return isSentence || inText;
      case "JSXAttribute": {
        const name = nameOf(parent);
        return SHOWN.has(name) || SHOWN_ATTRIBUTES.has(name) || (isSentence && !HIDDEN.has(name));
      }
      case "JSXExpressionContainer":
        if (above[index - 1]?.type !== "JSXAttribute") return true;
        break;
      case "NewExpression":
      case "CallExpression": {
        const called = String(parent.callee.property?.name ?? parent.callee.name ?? "");
        if (parent.callee !== child && PLAIN_CALLS.has(called)) return false;
        break;
      }
      case "ArrowFunctionExpression":
      case "FunctionDeclaration":
      case "FunctionExpression":
      case "Program":
        return isSentence;
    }
    child = parent;
  }
  return isSentence;
}

/** The module with each text that `has` a translation looked up by `w`, which `from` exports. */
export function lookedUp(
  path: string,
  code: string,
  has: (key: string) => boolean,
  from: string,
): string | null {
  const texts = textsOf(path, code).filter(({ key, kind }) => kind !== "plural" && has(key));
  if (texts.length === 0) return null;
  return `import { w as w_ } from ${JSON.stringify(from)};${changed(0, code.length)}`;

  /** A part of the module. The values of a template may have texts themselves. */
  function changed(from: number, to: number): string {
    const out: string[] = [];
    let at = from;
    for (const { key, start, end, kind, values } of texts) {
      if (start < at || end > to) continue;
      const given = values.map((value) => changed(value.start, value.end));
      const call = `w_(${[JSON.stringify(key), ...given].join(", ")})`;
      out.push(code.slice(at, start), kind === "jsx" || kind === "attribute" ? `{${call}}` : call);
      at = end;
    }
    out.push(code.slice(at, to));
    return out.join("");
  }
}
