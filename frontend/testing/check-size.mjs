// Fails when the console's first load or any lazy chunk outgrows its budget (gzip, as a server sends it).
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";

const dist = new URL("../dist/", import.meta.url).pathname;
const BUDGET = { js: 250, css: 20, chunk: 110 }; // KiB gzipped

const manifest = JSON.parse(readFileSync(join(dist, ".vite/manifest.json"), "utf8"));

/** Every file a chunk needs before it runs: itself, its static imports, and their sheets. */
function filesOf(key, seen = new Set()) {
  if (seen.has(key)) return seen;
  seen.add(key);
  for (const each of manifest[key].imports ?? []) filesOf(each, seen);
  return seen;
}

function kib(file, compress) {
  return compress(readFileSync(join(dist, file))).length / 1024;
}

function sum(keys, compress) {
  const js = new Set();
  const css = new Set();
  for (const key of keys) {
    js.add(manifest[key].file);
    for (const sheet of manifest[key].css ?? []) css.add(sheet);
  }
  const total = (files) => [...files].reduce((size, file) => size + kib(file, compress), 0);
  return { js: total(js), css: total(css) };
}

const entry = Object.keys(manifest).find((key) => manifest[key].isEntry);
const landing = Object.keys(manifest).find((key) => key.endsWith("overview-page.tsx"));
const chart = Object.keys(manifest).find((key) => key.endsWith("ui/charts/chart.tsx"));
if (!entry || !landing) throw new Error("The manifest has no entry or no overview page; run the build first");

// The overview draws a chart at once, so the chart belongs to the first load although it is lazy.
const first = new Set([entry, landing, ...(chart ? [chart] : [])].flatMap((key) => [...filesOf(key)]));
const gzip = sum(first, gzipSync);
const brotli = sum(first, brotliCompressSync);
const show = (size) => `${size.toFixed(1)} KiB`.padStart(10);
let failed = false;
function report(name, size, budget, extra = "") {
  const over = size > budget;
  failed ||= over;
  console.log(`${over ? "OVER" : "ok  "} ${name.padEnd(34)} ${show(size)} of ${budget} KiB gzip${extra}`);
}

report("first load, JavaScript", gzip.js, BUDGET.js, `, ${brotli.js.toFixed(1)} KiB brotli`);
report("first load, CSS", gzip.css, BUDGET.css, `, ${brotli.css.toFixed(1)} KiB brotli`);
for (const [key, chunk] of Object.entries(manifest)) {
  if (first.has(key) || !chunk.file.endsWith(".js")) continue;
  report(`lazy ${chunk.name ?? key}`, kib(chunk.file, gzipSync), BUDGET.chunk);
}
statSync(join(dist, "index.html"));
process.exit(failed ? 1 : 0);
