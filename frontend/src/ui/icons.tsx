import {
  ArchiveBoxIcon as ArchiveBox,
  ArrowDownTrayIcon as ArrowDownTray,
  ArrowUturnLeftIcon as ArrowUturnLeft,
  Bars3BottomLeftIcon as Bars3BottomLeft,
  BeakerIcon as Beaker,
  BookmarkIcon as Bookmark,
  BookOpenIcon as BookOpen,
  BuildingOfficeIcon as BuildingOffice,
  ChartBarIcon as ChartBar,
  CheckIcon as Check,
  ChevronRightIcon as ChevronRight,
  ClipboardDocumentListIcon as ClipboardDocumentList,
  ClockIcon as Clock,
  CodeBracketIcon as CodeBracket,
  CommandLineIcon as CommandLine,
  ExclamationCircleIcon as ExclamationCircle,
  ExclamationTriangleIcon as ExclamationTriangle,
  EyeSlashIcon as EyeSlash,
  ForwardIcon as Forward,
  GlobeAltIcon as GlobeAlt,
  KeyIcon as Key,
  MagnifyingGlassIcon as MagnifyingGlass,
  MoonIcon as Moon,
  ServerStackIcon as ServerStack,
  Square2StackIcon as Square2Stack,
  SunIcon as Sun,
  TableCellsIcon as TableCells,
  UserGroupIcon as UserGroup,
  ViewColumnsIcon as ViewColumns,
} from "@heroicons/react/24/outline";
import type { ComponentType, SVGProps } from "react";

type Size = { size?: number };

// 16 px from drawings of 24: strokes of 2 are as strong as the text. Decorative always, the text beside or the button's
// label says what they mean.
export const icon =
  (Drawing: ComponentType<SVGProps<SVGSVGElement>>) =>
  ({ size = 16 }: Size) => (
    <Drawing width={size} height={size} strokeWidth={2} aria-hidden="true" focusable="false" />
  );

export const AnalysesIcon = icon(Beaker);
export const AtRestIcon = icon(ArchiveBox);
export const AuditIcon = icon(ClipboardDocumentList);
export const BookmarkIcon = icon(Bookmark);
export const CheckIcon = icon(Check);
export const ChevronIcon = icon(ChevronRight);
export const ClockIcon = icon(Clock);
export const ConnectIcon = icon(CommandLine);
export const ClusterIcon = icon(ServerStack);
export const ColumnsIcon = icon(ViewColumns);
export const CopyIcon = icon(Square2Stack);
export const DocumentationIcon = icon(BookOpen);
export const DownloadIcon = icon(ArrowDownTray);
export const ErrorIcon = icon(ExclamationCircle);
export const FunctionsIcon = icon(CodeBracket);
export const GeoIcon = icon(GlobeAlt);
export const HiddenIcon = icon(EyeSlash);
export const MoonIcon = icon(Moon);
export const OverviewIcon = icon(ChartBar);
export const PeopleIcon = icon(UserGroup);
export const ResetIcon = icon(ArrowUturnLeft);
export const RolesIcon = icon(Key);
export const SearchIcon = icon(MagnifyingGlass);
export const SkipIcon = icon(Forward);
export const SunIcon = icon(Sun);
export const TableIcon = icon(TableCells);
export const TenantsIcon = icon(BuildingOffice);
export const TopicsIcon = icon(Bars3BottomLeft);
export const WarningIcon = icon(ExclamationTriangle);

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
