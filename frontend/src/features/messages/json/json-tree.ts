/** A value of JSON as it was written: numbers keep all of their digits, which JSON.parse would round. */
export type JsonNode =
  | { kind: "object"; members: [name: string, value: JsonNode][] }
  | { kind: "array"; items: JsonNode[] }
  | { kind: "text" | "number" | "word"; source: string };

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;
const DEPTH_MAX = 100;

/** The tree of a JSON text; null for a text that is not one, or is nested deeper than DEPTH_MAX. */
export function jsonTree(text: string): JsonNode | null {
  const tokens = text.match(TOKEN) ?? [];
  let at = 0;

  function value(depth: number): JsonNode | null {
    const token = tokens[at++];
    if (token === undefined || depth > DEPTH_MAX) return null;
    if (token === "{") return object(depth);
    if (token === "[") return array(depth);
    if (token.startsWith('"')) return { kind: "text", source: token };
    if (/^-?\d/.test(token)) return { kind: "number", source: token };
    return ["true", "false", "null"].includes(token) ? { kind: "word", source: token } : null;
  }

  function object(depth: number): JsonNode | null {
    const members: [string, JsonNode][] = [];
    while (tokens[at] !== "}") {
      const name = tokens[at++];
      if (!name?.startsWith('"') || tokens[at++] !== ":") return null;
      const inner = value(depth + 1);
      if (inner === null || !separated("}")) return null;
      members.push([textOf(name), inner]);
    }
    at++;
    return { kind: "object", members };
  }

  function array(depth: number): JsonNode | null {
    const items: JsonNode[] = [];
    while (tokens[at] !== "]") {
      const item = value(depth + 1);
      if (item === null || !separated("]")) return null;
      items.push(item);
    }
    at++;
    return { kind: "array", items };
  }

  /** Whether a comma or the end follows; a comma is passed. */
  function separated(end: string): boolean {
    if (tokens[at] === ",") at++;
    else if (tokens[at] !== end) return false;
    return true;
  }

  const tree = value(0);
  return at === tokens.length ? tree : null;
}

/** The text of a quoted token; the token itself where its escapes are none. */
export function textOf(token: string): string {
  try {
    return JSON.parse(token) as string;
  } catch {
    return token;
  }
}
