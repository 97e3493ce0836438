// Before the page is drawn: the theme that the reader chose, else that of the system.
document.body.dataset.theme = localStorage.getItem("theme") || "auto";
