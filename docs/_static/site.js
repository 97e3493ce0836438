// Runs before the page is drawn: the theme that the reader chose, else that of the system.
document.body.dataset.theme = localStorage.getItem("theme") || "auto";

// What scrolls sideways can be scrolled by keyboard only with a focus.
function focusWhatScrolls() {
  for (const frame of document.querySelectorAll('.table-wrapper, pre, p:has(> img[src$=".svg"])')) {
    if (frame.scrollWidth > frame.clientWidth) frame.tabIndex = 0;
    else frame.removeAttribute("tabindex");
  }
}

addEventListener("load", focusWhatScrolls);
addEventListener("resize", focusWhatScrolls);
addEventListener("DOMContentLoaded", () => {
  // Furo's captions name no level.
  for (const caption of document.querySelectorAll('[role="heading"]:not([aria-level])')) caption.ariaLevel = "2";
});
