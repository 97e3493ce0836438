// What the compiler makes of JSX: React's elements, whose texts show what they hold. So no page can forget it.

import * as react from "react/jsx-runtime";
import { shown } from "./shown";

export type { JSX } from "react/jsx-runtime";
export const Fragment = react.Fragment;
export const jsx: typeof react.jsx = (type, props, key) => react.jsx(type, shown(props), key);
export const jsxs: typeof react.jsxs = (type, props, key) => react.jsxs(type, shown(props), key);
