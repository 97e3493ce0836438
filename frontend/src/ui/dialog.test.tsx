// @vitest-environment jsdom
import { Button, MantineProvider } from "@mantine/core";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, test } from "vitest";
import { Dialog, useFocusReturn } from "./dialog";

function Page({ gone = false }: { gone?: boolean }) {
  const [opened, setOpened] = useState(false);
  return (
    <MantineProvider>
      <main id="main" tabIndex={-1}>
        {!(gone && opened) && <Button onClick={() => setOpened(true)}>Open…</Button>}
        {opened && (
          <Dialog title="A dialog" onClose={() => setOpened(false)} transitionProps={{ duration: 0 }}>
            <input aria-label="Field" data-autofocus />
            <Button onClick={() => setOpened(false)}>Cancel</Button>
          </Dialog>
        )}
      </main>
    </MantineProvider>
  );
}

async function open() {
  const user = userEvent.setup();
  await user.click(screen.getByRole("button", { name: "Open…" }));
  await waitFor(() => expect(document.activeElement).toBe(screen.getByLabelText("Field")));
  return user;
}

test("the focus returns to the element that opened a dialog, by Esc and by its button", async () => {
  render(<Page />);
  for (const close of ["{Escape}", null]) {
    const user = await open();
    if (close) await user.keyboard(close);
    else await user.click(screen.getByRole("button", { name: "Cancel" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    await waitFor(() => expect(document.activeElement).toBe(screen.getByRole("button", { name: "Open…" })));
  }
});

test("when the opening element no longer exists, the focus moves to the page's content", async () => {
  render(<Page gone />);
  const user = await open();
  // the button is mounted again, as another element
  await user.keyboard("{Escape}");
  await waitFor(() => expect(document.activeElement?.id).toBe("main"));
});

function Overlay() {
  const [opened, setOpened] = useState(false);
  useFocusReturn(opened);
  return (
    <>
      <button type="button" onClick={() => setOpened(true)}>
        Open…
      </button>
      {opened && (
        // biome-ignore lint/a11y/noAutofocus: what opens takes the focus, as the palette does
        <input aria-label="Field" autoFocus onKeyDown={() => setOpened(false)} />
      )}
    </>
  );
}

test("a dialog that stays mounted restores the focus each time it closes", async () => {
  render(<Overlay />);
  for (let time = 0; time < 2; time++) {
    const user = await open();
    await user.keyboard("{Escape}");
    await waitFor(() => expect(document.activeElement).toBe(screen.getByRole("button", { name: "Open…" })));
  }
});
