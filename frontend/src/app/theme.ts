import {
  ActionIcon,
  Button,
  type CSSVariablesResolver,
  createTheme,
  type MantineColorSchemeManager,
  type MantineColorsTuple,
  Modal,
  TextInput,
  Tooltip,
} from "@mantine/core";

const pulse: MantineColorsTuple = [
  "#eeeffc",
  "#dcdef6",
  "#b9bdf0",
  "#949aea",
  "#8f96f2",
  "#6067d8",
  "#4f55cb",
  "#4046bd",
  "#353aa4",
  "#2a2e85",
];
const dark: MantineColorsTuple = [
  "#e6e9f0",
  "#c9cfdb",
  "#a7afbf",
  "#7d8698",
  "#454e60",
  "#2b323f",
  "#1c212b",
  "#151922",
  "#0f1218",
  "#0a0c10",
];

export const theme = createTheme({
  primaryColor: "pulse",
  primaryShade: { light: 7, dark: 6 },
  colors: { pulse, dark },
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
  fontFamilyMonospace: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace",
  defaultRadius: 6,
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Button: Button.extend({ defaultProps: { size: "xs" } }),
    ActionIcon: ActionIcon.extend({ defaultProps: { variant: "subtle", color: "gray", size: 30 } }),
    TextInput: TextInput.extend({ defaultProps: { size: "sm" } }),
    // By name: few pages have these fields, and every page would load them.
    NumberInput: { defaultProps: { size: "sm" } },
    Textarea: { defaultProps: { size: "sm" } },
    NativeSelect: { defaultProps: { size: "sm" } },
    // A closed list of choices is not in the page: each would be placed as the page opens, which lays it out again.
    Combobox: { defaultProps: { keepMounted: false } },
    Tooltip: Tooltip.extend({
      defaultProps: { openDelay: 300, withArrow: true, events: { hover: true, focus: true, touch: false } },
    }),
    Modal: Modal.extend({
      defaultProps: {
        centered: true,
        size: "lg",
        closeButtonProps: { "aria-label": "Close" },
        // A header element would be announced as a banner of the page, which a dialog's head is not.
        attributes: { header: { role: "none" } },
      },
    }),
  },
});

// The kit's greys and reds miss AA contrast at small sizes; ours come from tokens.css and don't.
export const cssVariables: CSSVariablesResolver = () => {
  const shared = {
    "--mantine-color-body": "var(--surface)",
    "--mantine-color-text": "var(--text)",
    "--mantine-color-dimmed": "var(--dim)",
    "--mantine-color-placeholder": "var(--dim)",
    "--mantine-color-error": "var(--bad)",
    "--mantine-color-anchor": "var(--accent)",
    "--mantine-color-default-border": "var(--line-strong)",
    "--mantine-color-gray-text": "var(--dim)",
    "--mantine-color-gray-light-color": "var(--dim)",
    "--mantine-color-red-filled": "#b4232c",
    "--mantine-color-red-filled-hover": "#9a1c25",
    "--mantine-color-red-light-color": "var(--bad)",
    "--mantine-color-pulse-light-color": "var(--accent)",
    "--mantine-color-pulse-text": "var(--accent)",
  };
  return { variables: {}, light: shared, dark: shared };
};

const KEY = "magnetar-scheme";

/** Remembers the choice under the key that first-page/start.js reads before the first paint. */
export function schemeManager(): MantineColorSchemeManager {
  return {
    get: (fallback) => {
      const saved = read();
      return saved === "light" || saved === "dark" ? saved : fallback;
    },
    set: (value) => {
      try {
        localStorage.setItem(KEY, value);
      } catch {
        // Storage may be blocked; the choice then lasts as long as the page.
      }
    },
    subscribe: () => {},
    unsubscribe: () => {},
    clear: () => localStorage.removeItem(KEY),
  };
}

function read(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
