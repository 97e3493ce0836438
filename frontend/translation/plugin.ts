// Texts of the console that have a translation are looked up where they are shown. Tests of components are English.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Plugin } from "vite";
import { lookedUp } from "./texts.ts";

const [german, sentences] = ["german", "sentences"].map((name) =>
  readFileSync(new URL(`./${name}.json`, import.meta.url), "utf8"),
) as [string, string];
const keys = new Set(Object.keys(JSON.parse(german)));
const SOURCE = /[\\/]src[\\/](?!.*\.test\.).*\.tsx?$/;
const WORDS = /[\\/]lib[\\/]words\.ts$/;

export const WORDS_VERSION = createHash("sha256")
  .update(german + sentences)
  .digest("hex")
  .slice(0, 12);

export const translation: Plugin = {
  name: "translation",
  enforce: "pre",
  transform(code, id) {
    const [path = ""] = id.split("?");
    if (!SOURCE.test(path) || WORDS.test(path)) return null;
    const from = `${path.slice(0, path.search(/[\\/]src[\\/]/))}/src/lib/words.ts`;
    const changed = lookedUp(path, code, (key) => keys.has(key), from);
    return changed === null ? null : { code: changed, map: null };
  },
};
