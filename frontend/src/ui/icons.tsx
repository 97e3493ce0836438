import type { ReactNode } from "react";

// Hand-drawn 16 px strokes; decorative always, the text beside or the button's label says what they mean.
export function Icon({ children, size = 16 }: { children: ReactNode; size?: number | undefined }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      {children}
    </svg>
  );
}

type Size = { size?: number };

export const OverviewIcon = ({ size }: Size) => (
  <Icon size={size}>
    <path d="M2.5 13.5v-5M6.2 13.5v-9M9.8 13.5v-6M13.5 13.5v-11" />
  </Icon>
);
export const TopicsIcon = ({ size }: Size) => (
  <Icon size={size}>
    <path d="M2.5 3.5h11M2.5 8h11M2.5 12.5h7" />
  </Icon>
);
export const AnalysesIcon = ({ size }: Size) => (
  <Icon size={size}>
    <path d="M6 2h4M6.8 2v4.2L2.9 12.6a1 1 0 0 0 .9 1.4h8.4a1 1 0 0 0 .9-1.4L9.2 6.2V2M4.8 10h6.4" />
  </Icon>
);
export const SearchIcon = ({ size }: Size) => (
  <Icon size={size}>
    <circle cx="7" cy="7" r="4.5" />
    <path d="m10.5 10.5 3 3" />
  </Icon>
);
export const CopyIcon = ({ size }: Size) => (
  <Icon size={size}>
    <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
    <path d="M10.5 3.5v-.5a1 1 0 0 0-1-1H3.5a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1H4" />
  </Icon>
);
export const CheckIcon = ({ size }: Size) => (
  <Icon size={size}>
    <path d="m3 8.5 3.2 3.2L13 4.8" />
  </Icon>
);
export const WarningIcon = ({ size }: Size) => (
  <Icon size={size}>
    <path d="M8 2.2 14.4 13.4H1.6ZM8 6.4v3.2M8 11.6v.1" />
  </Icon>
);
export const ErrorIcon = ({ size }: Size) => (
  <Icon size={size}>
    <circle cx="8" cy="8" r="6" />
    <path d="M8 4.8v3.8M8 11v.1" />
  </Icon>
);
export const SunIcon = ({ size }: Size) => (
  <Icon size={size}>
    <circle cx="8" cy="8" r="2.8" />
    <path d="M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9" />
  </Icon>
);
export const MoonIcon = ({ size }: Size) => (
  <Icon size={size}>
    <path d="M13 9.6A5.6 5.6 0 0 1 6.4 3a5.6 5.6 0 1 0 6.6 6.6Z" />
  </Icon>
);
export const DownloadIcon = ({ size }: Size) => (
  <Icon size={size}>
    <path d="M8 2.5v7.2M4.9 6.9 8 10l3.1-3.1M2.8 13.3h10.4" />
  </Icon>
);
export const TableIcon = ({ size }: Size) => (
  <Icon size={size}>
    <rect x="2" y="2.8" width="12" height="10.4" rx="1.4" />
    <path d="M2 6.4h12M2 9.8h12M6.6 6.4v6.8" />
  </Icon>
);
export const ChevronIcon = ({ size }: Size) => (
  <Icon size={size}>
    <path d="m6 3.5 4.5 4.5L6 12.5" />
  </Icon>
);
export const Mark = ({ size = 24 }: Size) => (
  <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <rect width="32" height="32" rx="7" fill="#3b3fb6" />
    <g fill="none" stroke="#fff" strokeWidth="2.2" strokeLinecap="round">
      <ellipse cx="16" cy="16" rx="11" ry="4.6" transform="rotate(-38 16 16)" />
      <path d="M16 4.5v5M16 22.5v5" />
    </g>
    <circle cx="16" cy="16" r="3.4" fill="#fff" />
  </svg>
);
