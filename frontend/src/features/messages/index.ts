import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../../shared/lazy-page";
import { topicPage } from "../../shared/topic/route";
import { messagesSearch, tailSearch } from "./search";

export const messageTabs = [
  createRoute({
    getParentRoute: () => topicPage,
    path: "/messages",
    validateSearch: messagesSearch,
    component: lazyPage(() => import("./messages-tab"), "MessagesTab"),
  }),
  createRoute({
    getParentRoute: () => topicPage,
    path: "/messages/$message",
    component: lazyPage(() => import("./message-page"), "MessagePage"),
  }),
  createRoute({
    getParentRoute: () => topicPage,
    path: "/tail",
    validateSearch: tailSearch,
    component: lazyPage(() => import("./tail-page"), "TailPage"),
  }),
];
