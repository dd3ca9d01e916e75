// Which page this is, and where its news come from.

function listen(address, take) {
  const source = new EventSource(address), lost = document.getElementById("lost");
  source.onopen = () => { lost.hidden = true; };
  source.onmessage = (event) => take(JSON.parse(event.data));
  source.onerror = () => { lost.hidden = false; };  // the browser tries again by itself
  addEventListener("pagehide", () => source.close());
}

switchTheme();
redraw();
const path = location.pathname;
if (path.startsWith("/run/")) listen(`/events${path}`, takeNews);
else if (path === "/compare") listen(`/events/compare${location.search}`, takeNews);
else { showList(); listen("/events", takeRows); }
