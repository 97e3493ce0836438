// Every text of the console against the word list, docs/words.md.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

const src = new URL(".", import.meta.url).pathname;

interface Rule {
  say: string;
  not: RegExp;
  butIn: string[];
}

/** The rows of the table under "Words". */
function rules(): Rule[] {
  const list = readFileSync(join(src, "../../docs/words.md"), "utf8");
  const table = list.slice(list.indexOf("## Words"), list.indexOf("## Numbers"));
  return [...table.matchAll(/^\| (.+?) \| (.*?) ?\| (.+?) \| (.*?) ?\|$/gm)]
    .slice(1)
    .map(([, say = "", , not = "", butIn = ""]) => ({
      say,
      not: new RegExp(
        not
          .split(", ")
          .map((word) => (/^\w.*\w$/.test(word) ? `\\b${word}\\b` : escaped(word)))
          .join("|"),
        "i",
      ),
      butIn: [...butIn.matchAll(/`(.+?)`/g)].map(([, place = ""]) => place),
    }));
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((found) => {
    const path = join(folder, found.name);
    if (found.isDirectory()) return sources(path);
    return /\.tsx?$/.test(found.name) && !/\.test\.|\.d\.ts$/.test(found.name) ? [path] : [];
  });
}

const SPOKEN = /^(aria-label|label|title|description|placeholder|header|caption|note|detail|what|unit)$/;

/** The visible texts of a source: text between tags, and strings that are sentences or labels. */
function textsOf(path: string): { line: number; text: string }[] {
  const code = readFileSync(path, "utf8");
  const file = ts.createSourceFile(path, code, ts.ScriptTarget.Latest, true);
  const found: { line: number; text: string }[] = [];
  const put = (node: ts.Node, text: string) => {
    if (/\p{L}/u.test(text))
      found.push({ line: file.getLineAndCharacterOfPosition(node.getStart()).line + 1, text });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || (ts.isJsxAttribute(node) && node.name.getText() === "className"))
      return;
    if (ts.isJsxText(node)) put(node, node.text.replace(/\s+/g, " "));
    else if (ts.isStringLiteralLike(node) && (isSentence(node.text) || isSpoken(node))) put(node, node.text);
    else if (ts.isTemplateExpression(node)) {
      const text = [node.head.text, ...node.templateSpans.map((span) => span.literal.text)].join("X");
      if (isSentence(text)) put(node, text);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

const isSentence = (text: string) => /\p{L}\s+\p{L}/u.test(text) && !/^[\d\s.,-]*(px|fr|minmax)/.test(text);

/** Whether it is in the position of a label, or a noun to count. */
function isSpoken({ parent }: ts.Node): boolean {
  if (ts.isConditionalExpression(parent) || ts.isJsxExpression(parent) || ts.isBinaryExpression(parent))
    return isSpoken(parent);
  if (ts.isCallExpression(parent)) return parent.expression.getText() === "plural";
  if (ts.isJsxAttribute(parent) || ts.isPropertyAssignment(parent))
    return SPOKEN.test(parent.name.getText().replace(/"/g, ""));
  return ts.isJsxElement(parent);
}

const texts = sources(src).flatMap((path) =>
  textsOf(path).map((text) => ({ ...text, file: relative(src, path) })),
);

test("the word list and the texts are read", () => {
  expect(rules().length).toBeGreaterThan(10);
  expect(texts.length).toBeGreaterThan(400);
});

test("one thing has one word", () => {
  const found = rules().flatMap(({ say, not, butIn }) =>
    texts
      .filter(({ file, text }) => not.test(text) && !butIn.some((place) => file.startsWith(place)))
      .map(({ file, line, text }) => `${file}:${line}: say “${say}”: ${text.trim()}`),
  );
  expect(found).toEqual([]);
});

test("numbers are formatted in one place", () => {
  const own = sources(src).filter((path) => !path.endsWith("lib/format.ts") && !path.includes("/charts/"));
  const found = own.filter((path) =>
    /toLocaleString\((?!"en"\))|Intl\.NumberFormat/.test(readFileSync(path, "utf8")),
  );
  expect(found.map((path) => relative(src, path))).toEqual([]);
});

test("unknown is not written as zero", () => {
  const figures =
    /\.(backlog|unacked|storage_bytes|bytes|msg_rate\w*|bytes_rate\w*|producers|consumers|subscriptions|topics|free_bytes|total_bytes|affected|total)\)? *(\?\?|\|\|) *0\b/;
  const found = sources(src).filter((path) => figures.test(readFileSync(path, "utf8")));
  expect(found.map((path) => relative(src, path))).toEqual([]);
});
