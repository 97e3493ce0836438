// The compiler's target for JSX: React's elements, in whose texts hidden characters are shown, on every page.

import * as react from "react/jsx-runtime";
import { shown } from "./shown";

export type { JSX } from "react/jsx-runtime";
export const Fragment = react.Fragment;
export const jsx: typeof react.jsx = (type, props, key) => react.jsx(type, shown(props), key);
export const jsxs: typeof react.jsxs = (type, props, key) => react.jsxs(type, shown(props), key);
