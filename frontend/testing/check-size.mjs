// Fails when a page's first load or a chunk of its own outgrows its budget: sizes as sent, of the files beside the built ones.
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const dist = new URL("../dist/", import.meta.url).pathname;
const BUDGET = { js: 250, css: 20, chunk: 110 }; // KiB in brotli, which every browser asks for

const manifest = JSON.parse(readFileSync(join(dist, ".vite/manifest.json"), "utf8"));

/** A chunk and every other that it needs before it runs. */
function chunksOf(key, seen = new Set()) {
  if (seen.has(key)) return seen;
  seen.add(key);
  for (const each of manifest[key].imports ?? []) chunksOf(each, seen);
  return seen;
}

/** KiB of the chunks' files under the ending of an encoding. */
function size(keys, ending) {
  const files = new Set([...keys].map((key) => manifest[key].file));
  return [...files].reduce((sum, file) => sum + statSync(join(dist, file + ending)).size / 1024, 0);
}

let failed = false;
function report(name, keys, budget) {
  const sent = size(keys, ".br");
  failed ||= sent > budget;
  const shown = `${sent.toFixed(1)} KiB`.padStart(10);
  const gzip = `${size(keys, ".gz").toFixed(1)} KiB gzip`;
  console.log(
    `${sent > budget ? "OVER" : "ok  "} ${name.padEnd(34)} ${shown} of ${budget} KiB brotli, ${gzip}`,
  );
}

const entry = Object.keys(manifest).find((key) => manifest[key].isEntry);
if (!entry) throw new Error("The manifest has no entry; run the build first");
const scripts = Object.keys(manifest).filter((key) => manifest[key].file.endsWith(".js"));
const sheets = Object.keys(manifest).filter((key) => manifest[key].file.endsWith(".css"));
for (const page of manifest[entry].dynamicImports)
  report(`first load, ${manifest[page].name}`, chunksOf(page, chunksOf(entry)), BUDGET.js);
report("first load, CSS", sheets, BUDGET.css);
for (const key of scripts) if (key !== entry) report(`chunk ${manifest[key].name}`, [key], BUDGET.chunk);
process.exit(failed ? 1 : 0);
