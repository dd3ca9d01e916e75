// The list of all runs, and the choice of some to be compared.

const runs = new Map(), items = new Map(), picked = new Set();
const ORDER = {running: 0};  // what goes on comes first
const ROUNDING = 1e-15;  // of a relative gap

function spark(row) {
  const values = row.spark ?? [], least = row.measure === "relative gap" ? ROUNDING : -Infinity;
  const known = values.map((v, i) => [i, v]).filter(([, v]) => v !== null && Number.isFinite(v)).map(([i, v]) => [i, Math.max(v, least)]);
  const picture = svg("svg", {class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true"});
  if (known.length < 2) return picture;
  const log = known.every(([, v]) => v > 0) && Math.max(...known.map(([, v]) => v)) > 20 * Math.min(...known.map(([, v]) => v));
  const f = log ? Math.log : (v) => v, ys = known.map(([, v]) => f(v));
  const sx = scale(0, values.length - 1, false, 1, 99), sy = scale(Math.min(...ys), Math.max(...ys), false, 28, 2);
  svg("path", {d: known.map(([i, v], k) => `${k ? "L" : "M"}${round(sx.at(i))} ${round(sy.at(f(v)))}`).join("")}, picture);
  return picture;
}

function since(seconds) {
  const gone = Math.max(0, Date.now() / 1000 - seconds);
  if (gone < 90) return "just now";
  const [unit, name] = gone < 5400 ? [60, "min"] : gone < 129600 ? [3600, "h"] : [86400, "days"];
  return `${Math.round(gone / unit)} ${name} ago`;
}

function result(row) {
  const number = (v) => (row.measure === "relative gap" && v <= ROUNDING ? `≤ ${short(ROUNDING)}` : short(v));
  const value = row.value === null || row.value === undefined ? "" : row.measure === "accuracy" ? `${short(100 * row.value)} %` : number(row.value);
  const lines = [html("div", {class: "value"}, value || "–"), html("div", {class: "below"}, row.measure ?? "")];
  if (row.bound !== null && row.bound !== undefined) lines.push(html("div", {class: "below"}, `promised ≤ ${short(row.bound)}`));
  if (row.verdict === true || row.verdict === false) lines.push(html("div", {class: `promise ${row.verdict ? "holds" : "fails"}`}, row.verdict ? "✓ holds" : "✗ fails"));
  return html("div", {class: "result"}, ...lines);
}

function item(row) {
  const pick = html("input", {type: "checkbox", class: "pick", "aria-label": `choose ${row.name}`, onchange: () => choose(row.key, pick.checked)});
  pick.checked = picked.has(row.key);
  const rounds = row.total ? `${whole(row.played)} of ${whole(row.total)} rounds` : row.played ? `${whole(row.played)} rounds` : "";
  const more = [row.name, rounds, row.left, row.sites, row.damage, row.status === "running" ? "" : since(row.changed)].filter(Boolean).join(" · ");
  const who = html("div", {class: "who"}, html("a", {class: "title", href: `/run/${row.key}`}, row.title || row.name),
    html("span", {class: `state ${row.status.replace(" ", "-")}`}, row.status), " ", html("span", {class: "more"}, more));
  const made = html("li", {class: "run", "data-run": row.key}, pick, who, spark(row), result(row));
  if (row.status === "running" && row.total) made.append(bar(Math.min(1, row.played / row.total)));
  return made;
}

function choose(key, on) {
  if (on) picked.add(key); else picked.delete(key);
  offer();
}

function offer() {
  const place = document.getElementById("offer"), keys = [...picked].filter((key) => runs.has(key));
  if (keys.length < 2) place.replaceChildren(html("span", {class: "button"}, keys.length ? "choose one more to compare" : "choose runs to compare"));
  else place.replaceChildren(html("a", {class: "button", id: "compare", href: `/compare?${keys.map((key) => `run=${key}`).join("&")}`}, `compare ${keys.length} runs`));
}

function matches(row) {
  const words = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${row.title} ${row.name} ${row.status}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function arrange() {
  const place = document.getElementById("runs");
  const sorted = [...runs.values()].sort((a, b) => (ORDER[a.status] ?? 1) - (ORDER[b.status] ?? 1) || b.changed - a.changed || a.name.localeCompare(b.name));
  const wanted = sorted.filter(matches).map((row) => items.get(row.key));
  if (wanted.length !== place.children.length || wanted.some((one, i) => place.children[i] !== one)) place.replaceChildren(...wanted);
  place.hidden = !wanted.length;
  document.getElementById("nothing").hidden = wanted.length > 0;
  document.getElementById("nothing").textContent = runs.size ? "No run is called so." : "There is no run here yet. As soon as one begins it is listed.";
}

function takeRows(news) {
  for (const key of news.gone) { runs.delete(key); items.delete(key); picked.delete(key); }
  for (const row of news.rows) {
    const before = items.get(row.key), made = item(row);
    if (before?.isConnected) before.replaceWith(made);
    runs.set(row.key, row);
    items.set(row.key, made);
  }
  arrange();
  offer();
}

function showList() {
  document.getElementById("header").replaceChildren(html("h1", {}, "Runs"),
    html("div", {class: "chooser"}, html("input", {type: "search", id: "search", placeholder: "find runs", "aria-label": "find runs", oninput: arrange}), html("span", {id: "offer"})));
  document.getElementById("main").replaceChildren(html("ul", {class: "runs", id: "runs", hidden: ""}), html("p", {class: "nothing", id: "nothing", hidden: ""}));
  offer();
}
