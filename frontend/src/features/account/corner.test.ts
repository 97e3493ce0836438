// @vitest-environment jsdom
import { expect, test } from "vitest";
import { browserText } from "../../shared/people/session-rows";
import { initialsOf } from "./corner";

test("initials are two letters of a name", () => {
  expect(initialsOf("Ada Lovelace")).toBe("AL");
  expect(initialsOf("ops")).toBe("OP");
  expect(initialsOf("ada.lovelace@example.com")).toBe("AL");
  expect(initialsOf("é")).toBe("É");
  expect(initialsOf("...")).toBe("?");
});

test("browsers are named by their User-Agent header, other programs by what they say", () => {
  const chrome =
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0 Safari/537.36";
  expect(browserText(chrome)).toBe("Chrome on Linux");
  expect(browserText(`${chrome} Edg/128.0`)).toBe("Edge on Linux");
  expect(
    browserText("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Version/17.0 Safari/604.1"),
  ).toBe("Safari on iOS");
  expect(browserText("curl/8.1")).toBe("curl/8.1");
  expect(browserText("")).toBe("Not known");
});
