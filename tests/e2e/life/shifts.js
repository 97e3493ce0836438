// Layout shifts of a page, as https://web.dev/articles/cls: `shifted` is the worst window of at most 5 s without a pause
// of 1 s, `shifts` the single ones with the elements that moved. `updates`: the texts that the status line had.
(() => {
  const MOVED_MAX = 5;
  let [began, last, sum] = [0, 0, 0];
  window.shifted = 0;
  window.shifts = [];
  window.updates = new Set();
  const nameOf = (node) => {
    const element = node instanceof Element ? node : node?.parentElement;
    return `${element?.tagName} ${element?.className} "${node?.textContent?.slice(0, 40)}"`;
  };
  const placeOf = ({ x, y, width, height }) => [x, y, width, height].map(Math.round).join(",");
  new PerformanceObserver((list) => {
    for (const { startTime, value, hadRecentInput, sources } of list.getEntries()) {
      if (hadRecentInput) continue;
      if (startTime - last > 1000 || startTime - began > 5000) [began, sum] = [startTime, 0];
      last = startTime;
      sum += value;
      window.shifted = Math.max(window.shifted, sum);
      const moved = sources
        .slice(0, MOVED_MAX)
        .map((s) => `${nameOf(s.node)} ${placeOf(s.previousRect)} -> ${placeOf(s.currentRect)}`);
      window.shifts.push([Math.round(startTime), value, moved]);
    }
  }).observe({ type: "layout-shift", buffered: true });
  setInterval(() => {
    const line = document.querySelector("[data-status-line]");
    if (line) window.updates.add(line.textContent);
  }, 200);
})();
