// Comments, names of tests and variables against the measurable part of docs/glossary.md.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

const src = new URL(".", import.meta.url).pathname;
const GENERATED = "api/schema.d.ts";
/** Words of people, used of components. */
const WORDS = /\b(anew|hears?|heard|nobody|somebody|tells?|told|whoever|whomever)\b/i;
/** First words of a relative clause or a fragment; a description begins with a verb, a noun or "Whether". */
const OPENERS =
  /^(As|At|Because|By|For|How|If|In|It|Its|Of|On|One|Since|So|Those|To|What|When|Where|Which|Who|Whose|Why|With)\b/;
const DESCRIPTION = new RegExp(`/\\*\\*[/*\\s]*${OPENERS.source.slice(1)}`);
/** Variables that do not state their content. */
const NAMES = /^(heard|said|told)$/;

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sources(path);
    return /\.tsx?$/.test(path) && !path.endsWith(GENERATED) ? [path] : [];
  });
}

/** Whether a text may have a finding; most sources need not be parsed. */
function isCandidate(code: string): boolean {
  return WORDS.test(code) || /\bsaid\b/.test(code) || DESCRIPTION.test(code);
}

function findings(code: string): string[] {
  if (!isCandidate(code)) return [];
  const file = ts.createSourceFile("source.tsx", code, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX);
  const comments = new Map<number, string>();
  const texts: string[] = [];
  const names: string[] = [];
  const visit = (node: ts.Node): void => {
    if (node.kind !== ts.SyntaxKind.JsxText)
      for (const ranges of [ts.getLeadingCommentRanges, ts.getTrailingCommentRanges])
        for (const { pos, end } of ranges(
          code,
          ranges === ts.getTrailingCommentRanges ? node.end : node.pos,
        ) ?? [])
          comments.set(pos, code.slice(pos, end));
    if (ts.isCallExpression(node) && /^(test|describe)\b/.test(node.expression.getText())) {
      const [title] = node.arguments;
      if (title && ts.isStringLiteralLike(title)) texts.push(title.text);
    }
    if (
      (ts.isVariableDeclaration(node) || ts.isParameter(node) || ts.isBindingElement(node)) &&
      ts.isIdentifier(node.name)
    )
      names.push(node.name.text);
    for (const child of node.getChildren()) if (child.kind !== ts.SyntaxKind.JSDoc) visit(child);
  };
  visit(file);
  const prose = [...comments.values()];
  return [
    ...[...prose, ...texts].filter((text) => WORDS.test(text.replace(/`[^`]*`/g, ""))),
    ...prose.filter((text) => text.startsWith("/**") && OPENERS.test(text.replace(/^[/*\s]+/, ""))),
    ...names.filter((name) => NAMES.test(name)),
  ];
}

test("comments and names are plain", () => {
  const wrong = sources(src).flatMap((path) =>
    path === join(src, "comments.test.ts")
      ? []
      : findings(readFileSync(path, "utf8")).map((text) => `${relative(src, path)}: ${text}`),
  );
  expect(wrong).toEqual([]);
});

test.each([
  "// what the socket tells\nf();",
  "f(); // nobody waits",
  "/** What is left. */\nconst a = 1;",
  "interface A {\n  /**\n   * Of a topic.\n   */\n  b: string;\n}",
  "const a = <p>{/* told */}</p>;",
  'test("a consumer is told", () => {});',
  "const { told } = f();",
])("a finding in %j", (code) => {
  expect(findings(code)).toHaveLength(1);
});

test.each([
  "/** Whether a topic is loaded; `told` is a name. */\nconst a = 1;",
  "const a = <p>Nobody // told</p>;",
  'const a = "// nobody";',
])("no finding in %j", (code) => {
  expect(findings(code)).toEqual([]);
});
