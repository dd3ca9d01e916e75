// A lane for each client: its local steps along the run, where it was silent, and what is known of it now.

const LANE = {width: 600, height: 22};  // of the drawing; it is stretched to its column

function laneFacts(given) {
  const has = (name) => given[name]?.some((v) => v !== null);
  const bytes = (v) => si(v, "B");
  const seconds = (v) => (v < 1 ? `${short(v * 1000)} ms` : `${short(v)} s`);
  const last = (name) => (i) => { const lane = given[name][i]; return lane[lane.length - 1]; };
  const facts = [];
  if (has("here")) facts.push(["", (i) => given.here[i], (v) => (v ? "● here" : "○ away")]);
  if (given.steps?.length) facts.push(["steps", last("steps"), short]);
  if (given.answered?.length) facts.push(["answers", (i) => share(given.answered[i]), (v) => `${short(100 * v)} %`]);
  if (has("drift")) facts.push(["drift", (i) => given.drift[i], short]);
  if (has("loss")) facts.push(["loss", (i) => given.loss[i], short]);
  if (has("seconds")) facts.push([given.measured ? "takes" : "a round takes", (i) => given.seconds[i], seconds]);
  if (has("received")) facts.push(["received", (i) => given.received[i], bytes]);
  if (has("heard")) facts.push(["heard", (i) => given.heard[i], (v) => `${seconds(v)} ago`]);
  return facts;
}

function share(lane) {
  const known = lane.filter((v) => v !== null);
  return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
}

// Bars as high as the steps taken; a mark below them where the client was asked and stayed silent.
function laneStrip(given, i, most) {
  const steps = given.steps?.[i] ?? [], answered = given.answered?.[i] ?? [], count = given.rounds.length;
  const step = LANE.width / Math.max(1, count), bars = [], silent = [];
  for (let k = 0; k < count; k++) {
    const high = steps[k] === null || steps[k] === undefined ? 0 : Math.max(2, (LANE.height - 5) * steps[k] / most);
    const x = round(k * step), wide = round(Math.max(1, step - 1.5));
    if (high) bars.push(`M${x} ${LANE.height - 4}v${round(-high)}h${wide}v${round(high)}z`);
    if (answered[k] !== null && answered[k] !== undefined && answered[k] < 1) silent.push(`M${x} ${LANE.height - 2.5}h${wide}v2.5h${-wide}z`);
  }
  const picture = svg("svg", {viewBox: `0 0 ${LANE.width} ${LANE.height}`, preserveAspectRatio: "none", "aria-hidden": "true"});
  svg("path", {d: bars.join(""), class: "bars"}, picture);
  svg("path", {d: silent.join(""), class: "silent"}, picture);
  return picture;
}

function lanesIn(place, given) {
  if (!place || !given) return;
  const most = Math.max(1, ...(given.steps ?? []).flat().filter((v) => v !== null));
  const facts = laneFacts(given), drawn = given.rounds.length > 1 && given.steps?.length;
  const known = (given.seconds ?? []).filter((v) => v !== null), slowest = Math.max(...known);
  const marked = known.length > 1 && slowest > 1.01 * Math.min(...known) ? given.seconds.indexOf(slowest) : -1;
  const rows = given.names.map((name, i) => html("tr", {},
    html("th", {scope: "row", ...(given.said?.[i] ? {title: given.said[i]} : {})}, name, ...(i === marked ? [html("span", {class: "source ours"}, "slowest")] : [])),
    ...(drawn ? [html("td", {class: "strip"}, laneStrip(given, i, most))] : []),
    ...facts.map(([, value, write]) => { const v = value(i); return html("td", {class: `number${v === false ? " away" : ""}`}, v === null || v === undefined ? "–" : write(v)); })));
  const head = html("tr", {}, html("th", {scope: "col"}, ""), ...(drawn ? [html("th", {scope: "col"}, `local steps, to round ${whole(given.round)}`)] : []),
    ...facts.map(([name]) => html("th", {scope: "col", class: "number"}, name)));
  const more = given.total > given.names.length ? [html("p", {class: "note"}, `The first ${given.names.length} of ${whole(given.total)} clients.`)] : [];
  const legend = drawn ? [html("p", {class: "note"}, "Bars: local steps taken. A mark below them: the client was asked and stayed silent.")] : [];
  place.replaceChildren(...legend, ...more, html("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Clients"},
    html("table", {class: "presence"}, html("thead", {}, head), html("tbody", {}, ...rows))));
}
