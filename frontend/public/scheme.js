// Before the first paint: the colour scheme chosen last time, so that a dark page never flashes white.
// A file of its own, because the content security policy allows no inline script.
(() => {
  let chosen = "auto";
  try {
    chosen = localStorage.getItem("magnetar-scheme") ?? "auto";
  } catch {
    // Storage may be blocked; the system's scheme is then the right one.
  }
  const dark =
    chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.mantineColorScheme = dark ? "dark" : "light";
})();
