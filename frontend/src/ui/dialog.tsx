import { Modal, type ModalProps } from "@mantine/core";
import { useEffect, useRef } from "react";

/**
 * A dialog that is open while it is mounted. When it closes, the focus returns to the element that opened it, unless
 * another element has it by then (a page that was opened instead).
 */
export function Dialog(props: Omit<ModalProps, "opened" | "returnFocus">) {
  useFocusReturn();
  return <Modal {...props} opened returnFocus={false} />;
}

/** Restores the focus when the caller is unmounted, or `opened` ends: the kit does not do it for remounted elements. */
export function useFocusReturn(opened = true): void {
  const opener = useRef<Element | null>(null);
  const wasOpened = useRef(false);
  // Read while the dialog is first rendered: later the dialog itself has the focus.
  if (opened && !wasOpened.current) opener.current = openerOf(document.activeElement);
  wasOpened.current = opened;
  useEffect(() => {
    if (opened) return () => giveBack(opener.current);
  }, [opened]);
}

/** The focused element; for an item of a menu, which closes, the button of that menu. */
function openerOf(focused: Element | null): Element | null {
  const menu = focused?.closest("[role=menu]");
  const button = menu?.id ? document.querySelector(`[aria-controls="${CSS.escape(menu.id)}"]`) : null;
  return button ?? focused;
}

function giveBack(opener: Element | null): void {
  // Elements behind the dialog can be focused one frame later.
  requestAnimationFrame(() => {
    const now = document.activeElement;
    if (now && now !== document.body && now.isConnected) return;
    if (opener instanceof HTMLElement && opener.isConnected) opener.focus({ preventScroll: true });
    if (document.activeElement === document.body) document.getElementById("main")?.focus();
  });
}
