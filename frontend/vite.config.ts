import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { firstPage } from "./first-page/plugin.ts";
import { translation, WORDS_VERSION } from "./translation/plugin.ts";

/** A dialog that is fetched when it is opened; if its page imports it, it is in the page's chunk nevertheless. Sign-in must
 * not need another file after an upgrade. */
const DIALOG = /[\\/]features[\\/](?!sign-in).*-dialog\.tsx$/;
const featureOf = (id: string) => /[\\/]features[\\/]([^\\/]+)[\\/]/.exec(id)?.[1] ?? null;

const gateway = process.env.MAGNETAR_GATEWAY ?? "http://127.0.0.1:8080";

/** Has browsers that know the line compile the code of every page while it is loaded, not function by function later. */
const compiledEarly: Plugin = {
  name: "compiled-early",
  apply: "build",
  generateBundle: {
    order: "post",
    handler(_options, bundle) {
      for (const file of Object.values(bundle))
        if (file.type === "chunk" && (file.isEntry || file.name === "shared"))
          file.code = `//# allFunctionsCalledOnLoad\n${file.code}`;
    },
  },
};

/** Puts `name.br` and `name.gz` beside what gets smaller by it: the gateway sends them as they are. */
const precompressed: Plugin = {
  name: "precompressed",
  apply: "build",
  writeBundle({ dir }) {
    for (const entry of readdirSync(dir ?? "", { recursive: true, withFileTypes: true })) {
      if (!/\.(js|css|svg)$/.test(entry.name)) continue;
      const path = join(entry.parentPath, entry.name);
      const plain = readFileSync(path);
      const params = { [constants.BROTLI_PARAM_SIZE_HINT]: plain.length };
      writeFileSync(`${path}.br`, brotliCompressSync(plain, { params }));
      writeFileSync(`${path}.gz`, gzipSync(plain, { level: 9 }));
    }
  },
};

// The gateway serves dist/ below /static/ and answers every console route with dist/index.html.
export default defineConfig({
  base: "/static/",
  plugins: [translation, react({ jsxImportSource: "#jsx" }), firstPage, compiledEarly, precompressed],
  define: { __WORDS_VERSION__: JSON.stringify(WORDS_VERSION) },
  build: {
    target: "es2022",
    sourcemap: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        // A page is few files: the shell's, what pages share besides, and those of its feature.
        codeSplitting: {
          groups: [
            { name: "console", tags: ["$initial"], priority: 3 },
            {
              name: "shared",
              // Without the parts that only people who sign in need, or few pages: of rights, all pages ask `may.ts`.
              test: /[\\/](node_modules[\\/](?!uplot|react-number-format|.*[\\/]NumberInput[\\/])|(api|lib|shared(?![\\/](people|lists|properties|policies|cursor|commands[\\/](subscription|copy)|access(?![\\/]may\.ts)))|ui(?![\\/](code|charts[\\/]chart\.)))[\\/])/,
              minShareCount: 2,
              priority: 2,
            },
            // What few pages have, and is large.
            { name: "charts", test: /[\\/]charts[\\/]chart\.tsx/, priority: 1.5 },
            { name: "numbers", test: /[\\/]NumberInput[\\/]/, priority: 1.5 },
            { name: "persons", test: /[\\/]shared[\\/]people[\\/]/, priority: 1.5 },
            { name: "lists", test: /[\\/]shared[\\/]lists[\\/]/, priority: 1.5 },
            { name: (id) => (DIALOG.test(id) ? null : featureOf(id)), debugName: "features", priority: 1 },
            {
              name: (id) => (DIALOG.test(id) ? `${featureOf(id)}-dialogs` : null),
              debugName: "dialogs",
              priority: 0.5,
            },
          ],
        },
      },
    },
  },
  server: {
    proxy: { "/api": { target: gateway, ws: true }, "/admin": gateway },
  },
  test: {
    environment: "node",
    include: ["{src,translation,first-page}/**/*.test.{ts,tsx}"],
    setupFiles: ["testing/setup.ts"],
    restoreMocks: true,
    // A busy machine delays what a page shows in the end; it must not fail a test.
    testTimeout: 60_000,
  },
});
