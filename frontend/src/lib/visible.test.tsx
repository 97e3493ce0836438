// @vitest-environment jsdom
import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { visible } from "./visible";

test("characters that hide or reverse a name are shown as signs", () => {
  expect(visible("\u202egnp.exe")).toBe("⟨U+202E⟩gnp.exe");
  expect(visible("a\rb\u0000c\u007fd")).toBe("a␍b␀c␡d");
  expect(visible("a\u200bb\u2066c\ufeff")).toBe("a⟨U+200B⟩b⟨U+2066⟩c⟨U+FEFF⟩");
  expect(visible("ünï عربي 👩‍💻\tx\ny")).toBe("ünï عربي 👩‍💻\tx\ny");
});

function Named({ name }: { name: string }) {
  return <b title={name}>{name}</b>;
}

test("every element shows hidden characters of its texts, and components receive names unchanged", () => {
  const name = "\u202egnp.exe";
  const given: string[] = [];
  function Link({ topic }: { topic: string }) {
    given.push(topic);
    return (
      <a href={`/${encodeURIComponent(topic)}`}>
        public/{topic} of <Named name={topic} />
      </a>
    );
  }
  render(<Link topic={name} />);
  expect(screen.getByRole("link").textContent).toBe("public/⟨U+202E⟩gnp.exe of ⟨U+202E⟩gnp.exe");
  expect(screen.getByRole("link").getAttribute("href")).toBe("/%E2%80%AEgnp.exe");
  expect(screen.getByTitle("⟨U+202E⟩gnp.exe")).toBeDefined();
  expect(given[0]).toBe(name);
});
