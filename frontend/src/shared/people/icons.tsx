import { EyeIcon as Eye, XMarkIcon as XMark } from "@heroicons/react/24/outline";
import { icon } from "../../ui/icons";

// Only those who sign in need them, so they are no part of the first load.
export const CloseIcon = icon(XMark);
export const EyeIcon = icon(Eye);
