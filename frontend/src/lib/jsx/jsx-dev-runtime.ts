// As jsx-runtime, for development and tests.

import * as react from "react/jsx-dev-runtime";
import { shown } from "./shown";

export type { JSX } from "react/jsx-dev-runtime";
export const Fragment = react.Fragment;
export const jsxDEV: typeof react.jsxDEV = (type, props, ...rest) =>
  react.jsxDEV(type, shown(props), ...rest);
