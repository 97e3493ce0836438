import { Modal, type ModalProps } from "@mantine/core";
import { useEffect, useState } from "react";

/**
 * A dialog for as long as it is mounted. However it closes, the focus goes back to what opened it, unless the focus
 * is somewhere by then (a page that was opened instead).
 */
export function Dialog(props: Omit<ModalProps, "opened" | "returnFocus">) {
  useFocusReturn();
  return <Modal {...props} opened returnFocus={false} />;
}

/** The kit gives the focus back only when a dialog stays mounted after it closed; ours don't. */
export function useFocusReturn(): void {
  // Taken while the first render runs: later the dialog has the focus.
  const [opener] = useState(() => openerOf(document.activeElement));
  useEffect(() => () => giveBack(opener), [opener]);
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
