// Names the files of pages in index.html: public/first-page.js has them fetched while the shell's are, not after those ran.

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
/** The id of the element that has them, as JSON: a list of [pattern, files]. */
export const ELEMENT_ID = "page-files";

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

export const firstPage: Plugin = {
  name: "first-page",
  apply: "build",
  transformIndexHtml: {
    order: "post",
    handler(html, { bundle, chunk }) {
      if (!bundle || !chunk) return html;
      const chunks = Object.values(bundle).filter((file) => file.type === "chunk");
      const pages = filesOfPages(chunks, chunk).map(([pattern, files]) => [
        pattern,
        files.map((file) => `/static/${file}`),
      ]);
      return [
        {
          tag: "script",
          attrs: { type: "application/json", id: ELEMENT_ID },
          // A "<" could end the element.
          children: JSON.stringify(pages).replaceAll("<", "\\u003c"),
          injectTo: "head-prepend",
        },
      ];
    },
  },
};
