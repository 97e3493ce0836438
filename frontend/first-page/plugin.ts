// Puts the first script into index.html: start.js, with the files of each page, which it has fetched while the shell's are.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

/** Patterns of the paths of pages, and the modules of these. */
const PAGES: readonly (readonly [pattern: string, module: string])[] = [
  ["^/$", "/features/overview/overview-page.tsx"],
  ["^/c/[^/]+/topics$", "/features/topics/topics-page.tsx"],
  ["^/c/[^/]+/subscriptions$", "/features/subscriptions/subscriptions-page.tsx"],
  ["^/c/[^/]+/clients$", "/features/clients/clients-page.tsx"],
  ["^/c/[^/]+/functions$", "/features/functions/functions-page.tsx"],
  ["^/c/[^/]+/tenants$", "/features/tenants/tenants-page.tsx"],
  ["^/c/[^/]+/tenants/[^/]+$", "/features/tenants/tenant-page.tsx"],
];
const SOURCE = join(import.meta.dirname, "start.js");

/** The part of a built chunk that is used here. */
export interface BuiltChunk {
  fileName: string;
  imports: string[];
  moduleIds?: string[];
}

/** The files of each page, without those that the entry needs too. Throws where a page is in no chunk. */
export function filesOfPages(chunks: readonly BuiltChunk[], entry: BuiltChunk): [string, string[]][] {
  const byName = new Map(chunks.map((chunk) => [chunk.fileName, chunk]));
  const needed = (chunk: BuiltChunk, files: Set<string>): Set<string> => {
    if (files.has(chunk.fileName)) return files;
    files.add(chunk.fileName);
    for (const name of chunk.imports) {
      const imported = byName.get(name);
      if (imported) needed(imported, files);
    }
    return files;
  };
  const ofEntry = needed(entry, new Set());
  return PAGES.map(([pattern, module]) => {
    const chunk = chunks.find(({ moduleIds }) =>
      moduleIds?.some((id) => id.replaceAll("\\", "/").endsWith(module)),
    );
    if (!chunk) throw new Error(`No chunk has ${module}: is it still the page of ${pattern}?`);
    return [pattern, [...needed(chunk, new Set())].filter((file) => !ofEntry.has(file))];
  });
}

/** The script with the patterns of paths and the files of their pages. */
export function startScript(pages: readonly (readonly [string, readonly string[]])[]): string {
  return readFileSync(SOURCE, "utf8").replace("PAGES", () => JSON.stringify(pages));
}

let script = "";
let fileName = "";

export const firstPage: Plugin = {
  name: "first-page",
  transformIndexHtml: {
    order: "post",
    handler(_html, { bundle, chunk }) {
      // The development server has no files of pages, and no policy against a script within the page.
      if (!bundle || !chunk) return [{ tag: "script", children: startScript([]), injectTo: "head-prepend" }];
      const chunks = Object.values(bundle).filter((file) => file.type === "chunk");
      script = startScript(
        filesOfPages(chunks, chunk).map(([pattern, files]) => [
          pattern,
          files.map((file) => `/static/${file}`),
        ]),
      );
      // Like the names of chunks, so that browsers keep it until it changes.
      const hash = createHash("sha256").update(script).digest("base64url").slice(0, 8);
      fileName = `assets/start-${hash}.js`;
      return [{ tag: "script", attrs: { src: `/static/${fileName}` }, injectTo: "head-prepend" }];
    },
  },
  writeBundle({ dir }) {
    writeFileSync(join(dir ?? "", fileName), script);
  },
};
