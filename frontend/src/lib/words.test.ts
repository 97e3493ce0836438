import { afterEach, beforeEach, expect, test, vi } from "vitest";

const held = new Map<string, string>();
const reload = vi.fn();

beforeEach(() => {
  held.clear();
  reload.mockClear();
  vi.resetModules();
  vi.stubGlobal("location", { reload });
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => held.get(key) ?? null,
    setItem: (key: string, value: string) => held.set(key, value),
    removeItem: (key: string) => held.delete(key),
  });
});
afterEach(() => vi.unstubAllGlobals());

test("texts are English until German is chosen, and are again after English is", async () => {
  const english = await import("./words");
  expect([english.LANGUAGE, english.w("Needs attention")]).toEqual(["en", "Needs attention"]);
  await english.chooseLanguage("de");
  expect(reload).toHaveBeenCalledOnce();
  vi.resetModules();
  const german = await import("./words");
  expect([german.LANGUAGE, german.w("Needs attention")]).toEqual(["de", "Braucht Aufmerksamkeit"]);
  await german.chooseLanguage("en");
  expect(held.size).toBe(0);
});

test("values are put in their places, and a text without translation stays", async () => {
  held.set("magnetar-words", JSON.stringify({ version: "1", words: { "{} of {}": "von {1} {0}, {}" } }));
  const { w } = await import("./words");
  expect(w("{} of {}", 1, 2)).toBe("von 2 1, 1");
  expect(w("{} in {}", "{}", 2)).toBe("{} in 2");
});

test("the translation of another build is fetched again, and a stored one that is damaged is none", async () => {
  held.set("magnetar-words", JSON.stringify({ version: "old", words: { Topics: "old" } }));
  const german = await import("./words");
  await german.refreshWords();
  expect(reload).toHaveBeenCalledOnce();
  expect(JSON.parse(held.get("magnetar-words") ?? "").words.Retry).toBe("Wiederholen");
  vi.resetModules();
  const again = await import("./words");
  await again.refreshWords();
  expect(reload).toHaveBeenCalledOnce();
  for (const damaged of ["{", "[]", '{"version":1}', "null"]) {
    held.set("magnetar-words", damaged);
    vi.resetModules();
    expect((await import("./words")).LANGUAGE).toBe("en");
  }
});
