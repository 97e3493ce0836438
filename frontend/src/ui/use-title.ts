import { useEffect } from "react";
import { visible } from "../lib/visible";

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${visible(title)} · Magnetar`;
  }, [title]);
}
