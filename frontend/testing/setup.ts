import { cleanup, configure } from "@testing-library/react";
import { afterEach } from "vitest";

// As the time of a whole test: a busy machine delays what is waited for.
configure({ asyncUtilTimeout: 30_000 });

// Files that need a DOM say so with `@vitest-environment jsdom`; the others run without one.
afterEach(() => {
  if (typeof document !== "undefined") cleanup();
});

if (typeof window !== "undefined") {
  window.matchMedia ??= (query: string) =>
    ({
      matches: false,
      media: query,
      onchange: null,
      addEventListener: () => {},
      removeEventListener: () => {},
      addListener: () => {},
      removeListener: () => {},
      dispatchEvent: () => false,
    }) as MediaQueryList;
  window.ResizeObserver ??= class {
    observe(): void {}
    unobserve(): void {}
    disconnect(): void {}
  };
}
