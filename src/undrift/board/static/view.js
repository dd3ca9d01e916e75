// A page that changes: the parts of a static page, brought up to date where they are.

const shown = {figures: [], presence: null};  // what the drawing code was given last
const HELD = 40000;  // points of a curve that are kept at most, should a server tell more

function stateLine(state) {
  const done = state.total ? Math.min(1, state.played / state.total) : null;
  const words = [];
  if (state.played !== null && state.total) words.push(html("span", {}, `round ${whole(state.played)} of ${whole(state.total)}`));
  for (const text of [state.left, state.sites, state.damage]) if (text) words.push(html("span", {}, text));
  const line = html("div", {class: "going"}, html("span", {class: `state ${state.status.replace(" ", "-")}`}, state.status),
    html("span", {class: "path"}, state.name), ...words);
  if (state.status === "running" && done !== null) line.append(bar(done));
  return line;
}

function bar(done) {
  const inner = html("div");
  inner.style.transform = `scaleX(${done})`;
  return html("div", {class: "bar", role: "progressbar", "aria-valuenow": Math.round(100 * done), "aria-valuemin": "0", "aria-valuemax": "100", "aria-label": "rounds played"}, inner);
}

function fragment(text) {
  const made = document.createElement("template");
  made.innerHTML = text;  // made by the server, which has escaped everything that is not its own
  return made.content;
}

// New sections take the place of the old ones; that of the figures stays as long as its frames are the same.
function takeSections(texts) {
  const main = document.getElementById("main"), opened = new Set([...main.querySelectorAll("details[open]")].map(nameOf));
  const fresh = texts.map((text) => fragment(text).firstElementChild);
  const captions = (place) => (place ? framesIn(place).map((f) => f.querySelector("h3").textContent + f.className).join("\n") : null);
  const placed = fresh.map((section) => {
    const old = main.querySelector(`#${section.id}`);
    if (!old || old.outerHTML === section.outerHTML) return old || section;
    if (section.id !== "figures" || captions(old) !== captions(section)) return section;
    framesIn(section).forEach((frame, i) => {
      const note = frame.querySelector(".note"), place = framesIn(old)[i].querySelector("figcaption > div");
      place.querySelector(".note")?.remove();
      if (note) place.append(note);
    });
    return old;
  });
  const before = main.querySelector("#figures");
  main.replaceChildren(...placed);
  for (const folded of main.querySelectorAll("details")) if (opened.has(nameOf(folded))) folded.open = true;
  copyCommand();
  filterClaims();
  if (main.querySelector("#figures") !== before) figures = [];
}

function nameOf(folded) { return folded.querySelector("summary")?.textContent; }

function takePoints(news) {
  for (const {figure, series, from, x, y, low, high} of news) {
    const s = shown.figures[figure].series[series];
    const joined = (old, more) => (more === null || more === undefined ? null : from && Array.isArray(old) ? old.slice(0, from).concat(more).slice(-HELD) : more);
    s.y = joined(s.y, y);
    s.low = joined(s.low, low);
    s.high = joined(s.high, high);
    s.x = Object.fromEntries(Object.entries(x).map(([axis, values]) => [axis, joined(s.x[axis], values)]));
  }
  for (const number of new Set(news.map((one) => one.figure))) figures.find((f) => f.number === number)?.update(shown.figures[number]);
}

function takeNews(news) {
  const main = document.getElementById("main");
  if (news.gone) { main.replaceChildren(html("p", {class: "nothing"}, "This run is no longer there. "), html("a", {href: "/"}, "All runs")); return; }
  if (news.state) document.getElementById("state").replaceChildren(...[news.state].flat().map(stateLine));
  if (news.header) {
    document.getElementById("header").replaceChildren(fragment(news.header));
    document.title = `${document.querySelector("h1").textContent} – undrift board`;
  }
  if (news.sections) takeSections(news.sections);
  if (news.figures) {
    shown.figures = news.figures;
    const place = main.querySelector("#figures");
    if (!place) figures = [];
    else if (figures.length === news.figures.length && figures.every((f) => main.contains(f.frame))) figures.forEach((f) => f.update(news.figures[f.number]));
    else figures = figuresIn(place, news.figures);
  } else if (news.sections && !figures.length && main.querySelector("#figures")) figures = figuresIn(main, shown.figures);
  if (news.points) takePoints(news.points);
  if ("presence" in news) shown.presence = news.presence;
  if ("presence" in news || news.sections) lanesIn(main.querySelector("[data-lanes]"), shown.presence);
}
