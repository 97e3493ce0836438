import { MantineProvider } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { focusManager, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { type ComponentType, lazy, StrictMode, Suspense } from "react";
import { createRoot } from "react-dom/client";
import "./app/mantine";
import { forgetFirstAnswer } from "./api/first-answer";
import { health, whenPartReturns } from "./api/health";
import { startSession, whenServed, whenViewerChanges } from "./api/session/session";
import { liveSocket } from "./api/socket";
import { createAppRouter, fetchPagesLater } from "./app/router";
import { cssVariables, schemeManager, theme } from "./app/theme";
import { ApiError } from "./lib/errors";
import { LANGUAGE, refreshWords } from "./lib/words";
import { forgetHistory } from "./ui/charts/history";

const NOTES_AFTER_MS = 3_000;
/** A page that has not used its first answer by then shows something else. */
const FIRST_ANSWER_MS = 5_000;
/** Fetched once the page stands. The console works without them, while the gateway is away. */
const Notices = lazy<ComponentType>(async () => {
  await new Promise((done) => setTimeout(done, NOTES_AFTER_MS));
  return import("./app/notices").catch(() => ({ default: () => null }));
});

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // The gateway may be on this machine: whether there is a network says nothing about it.
      networkMode: "always",
      // Only what may heal by itself is tried again, and once: an error must show within seconds.
      retry: (failures, error) =>
        failures < 1 && !(error instanceof ApiError && error.status !== null && error.status < 500),
      retryDelay: 400,
    },
  },
});

const router = createAppRouter(queries);
liveSocket.start();
health.start();
startSession();
fetchPagesLater(router);
setTimeout(forgetFirstAnswer, FIRST_ANSWER_MS);
whenViewerChanges(() => {
  queries.clear();
  forgetFirstAnswer();
  forgetHistory();
  notifications.clean();
});
// While no user is signed in, the page behind the dialog sends no requests.
whenServed((isServed) => focusManager.setFocused(isServed ? undefined : false));
whenPartReturns(health, () => {
  queries.refetchQueries({ type: "active", predicate: (query) => query.state.status === "error" });
  router.invalidate({ filter: (match) => match.status === "error" });
});

document.documentElement.lang = LANGUAGE;
// While the gateway is away, the stored translation does.
void refreshWords().catch(() => {});

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariables}
      colorSchemeManager={schemeManager()}
      defaultColorScheme="auto"
    >
      <QueryClientProvider client={queries}>
        <Suspense>
          <Notices />
        </Suspense>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
