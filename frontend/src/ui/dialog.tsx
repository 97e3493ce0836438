import { Modal, type ModalProps } from "@mantine/core";
import { useEffect, useRef } from "react";

/**
 * A dialog for as long as it is mounted. However it closes, the focus goes back to what opened it, unless the focus
 * is somewhere by then (a page that was opened instead).
 */
export function Dialog(props: Omit<ModalProps, "opened" | "returnFocus">) {
  useFocusReturn();
  return <Modal {...props} opened returnFocus={false} />;
}

/** Gives the focus back when the caller is unmounted, or `opened` ends: the kit does not do it for what it remounts. */
export function useFocusReturn(opened = true): void {
  const opener = useRef<Element | null>(null);
  const wasOpened = useRef(false);
  // Taken while what opens is first rendered: later it has the focus itself.
  if (opened && !wasOpened.current) opener.current = openerOf(document.activeElement);
  wasOpened.current = opened;
  useEffect(() => {
    if (opened) return () => giveBack(opener.current);
  }, [opened]);
}

/** What had the focus; for an item of a menu, which goes with its menu, the button of that menu. */
function openerOf(focused: Element | null): Element | null {
  const menu = focused?.closest("[role=menu]");
  const button = menu?.id ? document.querySelector(`[aria-controls="${CSS.escape(menu.id)}"]`) : null;
  return button ?? focused;
}

function giveBack(opener: Element | null): void {
  // A frame later what was behind the dialog can be focused again.
  requestAnimationFrame(() => {
    const now = document.activeElement;
    if (now && now !== document.body && now.isConnected) return;
    if (opener instanceof HTMLElement && opener.isConnected) opener.focus({ preventScroll: true });
    if (document.activeElement === document.body) document.getElementById("main")?.focus();
  });
}
