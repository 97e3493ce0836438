// The answer that first-page/start.js requested before this code was here.

declare global {
  interface Window {
    firstAnswer?: { url: string; answer: Promise<Response> } | undefined;
  }
}

/**
 * The answer to a request that was sent while the page was loaded: null for another request, for a later one, and for an
 * answer that is an error, which is then reported by a request of its own.
 */
export async function takeFirstAnswer(request: Request): Promise<Response | null> {
  const first = window.firstAnswer;
  if (first === undefined || request.method !== "GET" || request.url !== first.url) return null;
  forgetFirstAnswer();
  const response = await first.answer.catch(() => null);
  return response?.ok ? response : null;
}

/** Hands the answer to no request: it was made for another viewer, or is an old one. */
export function forgetFirstAnswer(): void {
  window.firstAnswer = undefined;
}
