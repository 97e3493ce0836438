import { Button, Popover } from "@mantine/core";
import { type ReactNode, useState } from "react";
import styles from "./lists.module.css";

/** A button that opens the menu of its name. */
export function Menu({
  label,
  icon,
  children,
}: {
  label: string;
  icon: ReactNode;
  children: ReactNode | ((close: () => void) => ReactNode);
}) {
  const [opened, setOpened] = useState(false);
  return (
    <Popover
      opened={opened}
      onChange={setOpened}
      position="bottom-end"
      trapFocus
      returnFocus
      transitionProps={{ duration: 0 }}
      withinPortal
    >
      <Popover.Target>
        <Button variant="default" leftSection={icon} onClick={() => setOpened(!opened)}>
          {label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label={label} className={styles.menu}>
        {typeof children === "function" ? children(() => setOpened(false)) : children}
      </Popover.Dropdown>
    </Popover>
  );
}
