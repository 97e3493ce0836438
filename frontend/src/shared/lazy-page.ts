import { lazyRouteComponent } from "@tanstack/react-router";

/** The gateway does not answer, so that a page's code cannot be fetched. */
export class PageNotFetched extends Error {
  constructor(cause: unknown) {
    super("The code of this page could not be fetched from the gateway", { cause });
    this.name = "PageNotFetched";
  }
}

const ASK_TIMEOUT_MS = 1_500;

/**
 * A page whose code is fetched when it is first needed. The router reloads the whole console when that fails, which
 * is right after an upgrade. While the gateway does not answer a reload would leave nothing, so the page reports it.
 */
export function lazyPage<Name extends string>(
  load: () => Promise<Record<Name, () => React.ReactNode>>,
  name: Name,
) {
  return lazyRouteComponent(async () => {
    try {
      return await load();
    } catch (error) {
      if (await answers()) throw error;
      throw new PageNotFetched(error);
    }
  }, name);
}

async function answers(): Promise<boolean> {
  try {
    await fetch("/api/v1/health", { signal: AbortSignal.timeout(ASK_TIMEOUT_MS) });
    return true;
  } catch {
    return false;
  }
}
