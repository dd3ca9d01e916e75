// Draws the figures of the page and lets the reader turn them. No library, no network.
(() => {
"use strict";

const SVG = "http:" + "//www.w3.org/2000/svg";  // a name, not an address; in two parts so that the page contains none
const AXES = {
  round: {button: "per round", label: "communication rounds", where: (v) => `round ${whole(v)}`, write: whole},
  bytes: {button: "per byte", label: "bytes sent, on all links", where: (v) => `${si(v, "B")} sent`, write: (v) => si(v, "B")},
  gradients: {button: "per gradient", label: "gradient evaluations", where: (v) => `${whole(v)} gradients`, write: (v) => si(v, "")},
  seconds: {button: "per second", label: "seconds", where: (v) => `after ${short(v)} s`, write: (v) => short(v) + " s"},
};
const LIGHT = {ink: "#1c1f23", muted: "#626972", grid: "#e9e9e5", ground: "#ffffff", zone: "#f3f3f0", dark: 0};
const DARK = {ink: "#e6e7e9", muted: "#9aa2ab", grid: "#2c3037", ground: "#1a1d21", zone: "#212429", dark: 1};
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const PAPER = 680;  // width of a printed figure
const MOST_ROWS = 16;  // of the box that follows the pointer

// ---------------------------------------------------------------- numbers in words

function trimmed(text) { return text.includes(".") ? text.replace(/\.?0+$/, "") : text; }

function short(v) {
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size >= 1e5 || size < 1e-3) {
    const [digits, power] = v.toExponential(3).split("e");
    return trimmed(digits) + "e" + Number(power);
  }
  return trimmed(v.toPrecision(4));
}

function whole(v) { return Number.isInteger(v) ? v.toLocaleString("en") : short(v); }

function si(v, unit) {
  const size = Math.abs(v);
  const [factor, prefix] = size >= 1e12 ? [1e12, "T"] : size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] :
    size >= 1e3 ? [1e3, "k"] : [1, ""];
  const space = prefix || unit ? "\u202f" : "";
  return trimmed((v / factor).toPrecision(4)) + space + prefix + unit;
}

function power(exponent) {
  if (exponent >= 0 && exponent <= 3) return String(10 ** exponent);
  return "10" + (exponent < 0 ? "⁻" : "") + [...String(Math.abs(exponent))].map((d) => SUPERSCRIPTS[d]).join("");
}

// ---------------------------------------------------------------- scales and ticks

function scale(low, high, log, from, to) {
  const f = log ? Math.log10 : (v) => v;
  const a = f(low), b = f(high), slope = (to - from) / (b - a || 1);
  return {
    low, high, log,
    at: (v) => from + (f(v) - a) * slope,
    back: (p) => { const u = a + (p - from) / slope; return log ? 10 ** u : u; },
  };
}

function linearTicks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted), unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(k * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return ticks.map((v) => ({v: Number(v.toFixed(Math.min(20, digits))), major: true}));
}

function ticksOf(s, wanted) {
  if (!s.log) return linearTicks(s.low, s.high, wanted);
  const a = Math.log10(s.low), b = Math.log10(s.high), decades = b - a;
  if (decades < 0.7) return linearTicks(s.low, s.high, wanted * 1.6).filter((t) => t.v > 0);
  const ticks = [], stride = Math.max(1, Math.ceil(decades / wanted));
  for (let k = Math.floor(a); k <= Math.ceil(b); k++) {
    const phase = ((k % stride) + stride) % stride;
    if (phase === 0) ticks.push({v: 10 ** k, major: true, exponent: k});
    if (decades <= 3) for (let m = 2; m < 10; m++) ticks.push({v: m * 10 ** k, major: decades < 1.6 && (m === 2 || m === 5)});
  }
  return ticks.filter((t) => t.v >= s.low * 0.9999 && t.v <= s.high * 1.0001);
}

// ---------------------------------------------------------------- data

function column(given) {
  if (given === null || given === undefined) return null;
  if (Array.isArray(given)) return Float64Array.from(given, (v) => (v === null ? NaN : v));
  return Float64Array.from({length: given.count}, (_, i) => given.from + i * given.step);
}

function firstFrom(xs, value) {  // the first index with xs[index] >= value
  let low = 0, high = xs.length;
  while (low < high) { const mid = (low + high) >> 1; if (xs[mid] >= value) high = mid; else low = mid + 1; }
  return low;
}

function firstAfter(xs, value) {  // the first index with xs[index] > value; xs never decreases
  let low = 0, high = xs.length;
  while (low < high) { const mid = (low + high) >> 1; if (xs[mid] > value) high = mid; else low = mid + 1; }
  return low;
}

// A series on one axis: points without a place on it are left out.
function onAxis(series, axis) {
  const x = series.x[axis];
  if (!x) return null;
  if (!series.cache[axis]) {
    const keep = [];
    for (let i = 0; i < x.length; i++) if (Number.isFinite(x[i])) keep.push(i);
    const pick = (values) => (values === null ? null : keep.length === x.length ? values : Float64Array.from(keep, (i) => values[i]));
    series.cache[axis] = {x: pick(x), y: pick(series.y), low: pick(series.low), high: pick(series.high)};
  }
  return series.cache[axis];
}

// At most four points per column of pixels: the first, the lowest, the highest, the last. What is seen stays the same.
function thinned(xs, ys, start, stop, sx) {
  if (stop - start < 3 * Math.abs(sx.at(sx.high) - sx.at(sx.low))) return null;
  const kept = [];
  let i = start;
  while (i < stop) {
    const first = i, place = Math.floor(sx.at(xs[i]));
    let low = i, high = i, broken = i;
    do {
      if (Number.isNaN(ys[i])) broken = i;
      if (!(ys[low] <= ys[i])) low = i;
      if (!(ys[high] >= ys[i])) high = i;
      i++;
    } while (i < stop && Math.floor(sx.at(xs[i])) === place);
    kept.push(...[...new Set([first, low, high, broken, i - 1])].sort((p, q) => p - q));
  }
  return kept;
}

// ---------------------------------------------------------------- elements

function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function svg(name, attributes, parent, content) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, typeof value === "number" ? round(value) : value);
  if (content !== undefined) made.textContent = content;
  if (parent) parent.append(made);
  return made;
}

function round(v) { return Math.round(v * 100) / 100; }

const ruler = document.createElement("canvas").getContext("2d");
function widthOf(text, size) { ruler.font = `${size}px ${FONT}`; return ruler.measureText(text).width; }

function button(label, act, attributes = {}) { return html("button", {type: "button", onclick: act, ...attributes}, label); }

function swatchOf(s) { return "swatch" + (s.kind === "bound" ? " bound" : s.dash ? ` dash-${s.variant}` : "") + (s.thin ? " thin" : ""); }

function dashesOf(s) { return s.kind === "bound" ? {"stroke-dasharray": s.thin ? "2 4" : "4 3.5"} : s.dash ? {"stroke-dasharray": s.dash} : {}; }

function toggle(label, act, pressed, attributes = {}) {
  return button(label, act, {"aria-pressed": String(pressed), ...attributes});
}

// ---------------------------------------------------------------- a figure

class Figure {
  constructor(frame, given, number) {
    this.frame = frame;
    this.given = given;
    this.number = number;
    this.floor = given.floor;
    this.series = given.series.map((s) => ({
      ...s, y: column(s.y), low: column(s.low), high: column(s.high), cache: {},
      x: Object.fromEntries(Object.entries(s.x).map(([axis, values]) => [axis, column(values)])),
    }));
    const found = new Set(this.series.flatMap((s) => Object.keys(s.x)));
    this.axes = [...Object.keys(AXES).filter((a) => found.has(a)), ...[...found].filter((a) => !AXES[a])];
    this.axis = this.axes[0];
    this.logX = {};  // per axis, decided when it is first shown
    this.logY = given.y_scale === "log";
    this.hidden = new Set();
    this.zoom = null;
    this.marked = null;  // the series whose name is under the pointer
    this.reading = null;  // the place that is read off, in data
    this.build();
  }

  named(axis) { return AXES[axis] || {button: axis, label: axis, where: (v) => `${axis} = ${short(v)}`, write: short}; }

  visible() { return this.series.filter((s, i) => !this.hidden.has(i) && onAxis(s, this.axis)); }

  isLogX() {
    if (!(this.axis in this.logX)) {
      const ends = this.series.map((s) => onAxis(s, this.axis)).filter(Boolean).map((s) => s.x[s.x.length - 1]).filter((v) => v > 0);
      const far = this.axis !== "round" && ends.length > 1 && Math.max(...ends) > 20 * Math.min(...ends);
      this.logX[this.axis] = this.given.x_scale ? this.given.x_scale === "log" : far;
    }
    return this.logX[this.axis];
  }

  // ---- controls

  build() {
    const tools = html("div", {class: "tools"});
    if (this.axes.length > 1) {
      this.axisButtons = this.axes.map((axis) => toggle(this.named(axis).button, () => this.setAxis(axis), axis === this.axis, {"data-axis": axis}));
      tools.append(html("div", {class: "segments", role: "group", "aria-label": "horizontal axis"}, ...this.axisButtons));
    }
    this.logYButton = toggle("log y", () => { this.logY = !this.logY; this.zoom = null; this.refresh(); }, this.logY, {"data-act": "log-y"});
    this.logXButton = toggle("log x", () => { this.logX[this.axis] = !this.isLogX(); this.zoom = null; this.refresh(); }, false, {"data-act": "log-x"});
    tools.append(html("div", {class: "segments", role: "group", "aria-label": "scales"}, this.logYButton, this.logXButton));
    this.resetButton = button("show all", () => this.resetZoom(), {"data-act": "reset", hidden: ""});
    tools.append(this.resetButton);
    const save = (kind, act) => button(kind, act, {"data-save": kind.toLowerCase(), "aria-label": `download as ${kind}`, title: `download as ${kind}`});
    this.frame.querySelector("figcaption").append(html("div", {class: "segments save", role: "group", "aria-label": "download"},
      save("CSV", () => this.saveCsv()), save("SVG", () => this.saveSvg()), save("PNG", () => this.savePng())));

    this.legend = this.series.map((s, i) => html("button", {
      type: "button", class: "name", "aria-pressed": "true", "data-series": i,
      title: "click: hide or show; double click, or shift and click: only this one",
      onclick: (e) => (e.shiftKey ? this.only(i) : this.flip(i)), ondblclick: () => this.only(i),
      onpointerenter: () => this.mark(i), onpointerleave: () => this.mark(null),
      onfocus: (e) => { if (e.target.matches(":focus-visible")) this.mark(i); }, onblur: () => this.mark(null),
    }, html("span", {class: swatchOf(s), "aria-hidden": "true"}), s.label));

    this.plot = html("div", {
      class: "plot", tabindex: "0", role: "group",
      "aria-label": `${this.given.title}. Left and right arrows read off values, plus and minus zoom, 0 shows all.`,
      onkeydown: (e) => this.key(e), onblur: () => this.read(null),
    });
    this.canvas = html("div", {class: "canvas"});
    this.tip = html("div", {class: "tip", role: "status", hidden: ""});
    this.plot.append(this.canvas, this.tip);
    this.frame.append(tools, html("div", {class: "legend", role: "group", "aria-label": "series"}, ...this.legend), this.plot);
    this.pointer();
    new ResizeObserver(() => { if (!printing && this.canvas.clientWidth !== this.width) this.draw(); }).observe(this.canvas);
    this.refresh();
  }

  setAxis(axis) { this.axis = axis; this.zoom = null; this.reading = null; this.refresh(); }

  flip(i) { if (this.hidden.has(i)) this.hidden.delete(i); else this.hidden.add(i); this.refresh(); }

  // This series and what belongs to it; once more: all of them.
  only(i) {
    const keep = (s, j) => j === i || (this.series[i].kind === "measured" && s.of === i);
    const others = this.series.map((s, j) => j).filter((j) => !keep(this.series[j], j));
    const alone = others.every((j) => this.hidden.has(j)) && !this.hidden.has(i);
    this.hidden = new Set(alone ? [] : others);
    this.refresh();
  }

  // A series stands out with what belongs to it; null: all are equal.
  mark(marked) {
    this.marked = marked;
    for (const group of this.canvas.querySelectorAll("g[data-series]")) {
      const i = Number(group.dataset.series);
      const near = marked === null || marked === i || this.series[i].of === marked || this.series[marked].of === i;
      group.setAttribute("opacity", near ? 1 : 0.18);
    }
  }

  resetZoom() { this.zoom = null; this.refresh(); }

  refresh() {
    for (const b of this.axisButtons || []) b.setAttribute("aria-pressed", String(b.dataset.axis === this.axis));
    this.logYButton.setAttribute("aria-pressed", String(this.logY));
    this.logXButton.setAttribute("aria-pressed", String(this.isLogX()));
    this.resetButton.hidden = !this.zoom;
    this.legend.forEach((b, i) => {
      const there = onAxis(this.series[i], this.axis) !== null;
      b.setAttribute("aria-pressed", String(!this.hidden.has(i)));
      b.classList.toggle("absent", !there);
    });
    this.draw();
  }

  // ---- drawing

  // What a value is on this scale: NaN where it has no place, the floor where it is rounding.
  shown(v) {
    if (!this.logY) return v;
    if (this.floor && v <= this.floor) return this.floor;
    return v > 0 ? v : NaN;
  }

  // The smallest rectangle around what is visible (between two places on the axis): [x0, x1, y0, y1].
  extent(from, to) {
    const all = [Infinity, -Infinity, Infinity, -Infinity];
    for (const s of this.visible()) {
      const d = onAxis(s, this.axis), start = firstFrom(d.x, from), stop = firstAfter(d.x, to);
      if (start >= stop) continue;
      all[0] = Math.min(all[0], d.x[start]);
      all[1] = Math.max(all[1], d.x[stop - 1]);
      for (const values of [d.y, d.low, d.high]) {
        for (let i = start; values && i < stop; i++) {
          const y = this.shown(values[i]);
          if (y < all[2]) all[2] = y;
          if (y > all[3]) all[3] = y;
        }
      }
    }
    return all;
  }

  domain() {
    const logX = this.isLogX(), least = logX ? Number.MIN_VALUE : -Infinity;
    let [x0, x1, y0, y1] = this.zoom ? this.extent(...this.zoom.x) : this.extent(least, Infinity);
    if (this.zoom && !(y1 >= y0)) [x0, x1, y0, y1] = this.extent(least, Infinity);  // between two points
    const sunk = this.logY && this.floor && y0 <= this.floor;
    if (!(y1 >= y0)) return null;
    if (!logX && x0 > 0 && x0 < 0.3 * x1) x0 = 0;
    if (x0 === x1) { x0 = logX ? x0 / 2 : x0 - 0.5; x1 = logX ? x1 * 2 : x1 + 0.5; }
    if (this.logY) {
      const pad = Math.max(1.15, (y1 / y0) ** 0.04);
      y0 = sunk ? y0 / Math.max(3, pad) : y0 / pad; y1 *= pad;
    } else {
      const pad = (y1 - y0 || Math.abs(y1) || 1) * 0.05;
      const nearZero = y0 >= 0 && y0 < 0.3 * y1;
      y0 = nearZero ? 0 : y0 - pad; y1 += pad;
    }
    if (this.zoom) { [x0, x1] = this.zoom.x; if (this.zoom.y) [y0, y1] = this.zoom.y; }
    return {x: [x0, x1], y: [y0, y1], sunk};
  }

  draw() {
    this.width = printing ? PAPER : this.canvas.clientWidth;
    if (!this.width) return;
    const height = Math.round(Math.min(440, Math.max(270, this.width * 0.56)));
    const {picture, geometry} = this.render(this.width, height, theme());
    this.geometry = geometry;
    this.canvas.replaceChildren(picture);
    this.mark(this.marked);
    this.legend.forEach((b, i) => b.style.setProperty("--colour", this.series[i].colour[theme().dark]));
    this.read(this.reading);
  }

  render(width, height, look, top = 0) {
    const picture = svg("svg", {viewBox: `0 0 ${width} ${height + top}`, width, height: height + top, "font-family": FONT, "font-size": "12", "aria-hidden": "true"});
    const domain = this.domain(), axis = this.named(this.axis);
    if (!domain) {
      svg("text", {x: width / 2, y: top + height / 2, "text-anchor": "middle", fill: look.muted}, picture, this.visible().length ? "nothing to show on these scales" : "all series are hidden");
      return {picture, geometry: null};
    }
    const bottom = top + height - 44, upper = top + (this.given.y_label ? 30 : 10);
    const sy = scale(...domain.y, this.logY, bottom, upper);
    const yTicks = ticksOf(sy, Math.max(3, Math.floor((bottom - upper) / (this.logY ? 50 : 36))));
    const nameY = (t) => ("exponent" in t ? power(t.exponent) : short(t.v));
    const left = 14 + Math.max(20, ...yTicks.filter((t) => t.major).map((t) => widthOf(nameY(t), 12)));
    const right = width - 14;
    const sx = scale(...domain.x, this.isLogX(), left, right);
    const xTicks = ticksOf(sx, Math.max(2, Math.floor((right - left) / (this.isLogX() ? 95 : 75))));
    const nameX = (t) => ("exponent" in t && !AXES[this.axis] ? power(t.exponent) : axis.write(t.v));

    if (this.floor && this.logY && domain.sunk && sy.low < this.floor) {
      const y = sy.at(this.floor);
      svg("rect", {x: left, y, width: right - left, height: Math.max(0, bottom - y), fill: look.zone}, picture);
    }
    for (const t of yTicks) {
      const y = sy.at(t.v);
      if (t.major) {
        svg("line", {x1: left, x2: right, y1: y, y2: y, stroke: look.grid, "stroke-width": "1"}, picture);
        svg("text", {x: left - 8, y: y + 4, "text-anchor": "end", fill: look.muted}, picture, nameY(t));
      } else svg("line", {x1: left - 4, x2: left, y1: y, y2: y, stroke: look.grid}, picture);
    }
    let free = -Infinity;
    for (const t of xTicks) {
      const x = sx.at(t.v);
      svg("line", {x1: x, x2: x, y1: bottom, y2: bottom + (t.major ? 5 : 3), stroke: look.muted, "stroke-opacity": "0.6"}, picture);
      if (!t.major) continue;
      const text = nameX(t), half = widthOf(text, 12) / 2, middle = Math.min(x, width - half - 1);
      if (middle - half < free + 6) continue;  // would run into the one before
      svg("text", {x: middle, y: bottom + 18, "text-anchor": "middle", fill: look.muted}, picture, text);
      free = middle + half;
    }
    svg("line", {x1: left, x2: right, y1: bottom, y2: bottom, stroke: look.muted, "stroke-opacity": "0.6"}, picture);
    svg("text", {x: 0, y: top + 13, fill: look.ink, class: "y-label"}, picture, this.given.y_label);
    svg("text", {x: right, y: bottom + 38, "text-anchor": "end", fill: look.ink, class: "x-label"}, picture, axis.label);

    const clip = `clip-${this.number}-${top}`;
    svg("rect", {x: left - 1, y: upper - 3, width: right - left + 4, height: bottom - upper + 4}, svg("clipPath", {id: clip}, svg("defs", {}, picture)));
    const layer = svg("g", {"clip-path": `url(#${clip})`}, picture);
    const order = this.visible().slice().sort((a, b) => (a.kind === "bound" ? 0 : 1) - (b.kind === "bound" ? 0 : 1));
    for (const s of order) this.curve(layer, s, sx, sy, look);
    return {picture, geometry: {sx, sy, left, right, upper, bottom}};
  }

  curve(layer, s, sx, sy, look) {
    const d = onAxis(s, this.axis), i = this.series.indexOf(s), colour = s.colour[look.dark];
    const group = svg("g", {"data-series": i}, layer);
    const start = Math.max(0, firstAfter(d.x, sx.low) - 2);
    let stop = Math.min(d.x.length, firstAfter(d.x, sx.high) + 1);
    const arrived = this.floor && this.logY ? d.y.findIndex((v) => v <= this.floor) : -1;
    if (arrived >= 0) stop = Math.min(stop, arrived + 1);
    if (d.low) this.band(group, d, start, stop, sx, sy, colour);
    const indices = thinned(d.x, d.y, start, stop, sx);
    const count = indices ? indices.length : Math.max(0, stop - start);
    const words = [], dots = [];
    let run = 0, x = 0, y = 0;
    const close = () => { if (run === 1) dots.push([x, y]); run = 0; };
    for (let k = 0; k < count; k++) {
      const j = indices ? indices[k] : start + k;
      const v = this.shown(d.y[j]);
      if (Number.isNaN(v) || (sx.log && !(d.x[j] > 0))) { close(); continue; }
      x = sx.at(d.x[j]); y = Math.max(-1e5, Math.min(1e5, sy.at(v)));
      words.push(`${run++ ? "L" : "M"}${round(x)} ${round(y)}`);
      if (s.kind === "measured" && d.x.length <= 15) dots.push([x, y]);
    }
    close();
    if (arrived >= 0 && stop === arrived + 1 && s.kind === "measured" && words.length) dots.push([x, y]);
    const bound = s.kind === "bound";
    svg("path", {
      d: words.join(""), fill: "none", stroke: colour, "stroke-width": s.thin ? 1 : bound ? 1.3 : 2,
      "stroke-linejoin": "round", "stroke-linecap": bound || s.dash ? "butt" : "round", ...dashesOf(s),
    }, group);
    for (const [cx, cy] of dots) svg("circle", {cx, cy, r: 3.2, fill: colour}, group);
  }

  band(group, d, start, stop, sx, sy, colour) {
    const bottom = (v) => { const y = this.shown(v); return sy.at(Number.isNaN(y) ? sy.low : y); };
    const upper = [], lower = [], many = stop - start > 3 * Math.abs(sx.at(sx.high) - sx.at(sx.low));
    let place = null;
    for (let j = start; j < stop; j++) {
      if (Number.isNaN(d.low[j]) || Number.isNaN(this.shown(d.high[j])) || (sx.log && !(d.x[j] > 0))) continue;
      const x = sx.at(d.x[j]), a = sy.at(this.shown(d.high[j])), b = bottom(d.low[j]);
      if (many && place === Math.floor(x)) {  // one pair per column of pixels
        upper[upper.length - 1][1] = Math.min(upper[upper.length - 1][1], a);
        lower[lower.length - 1][1] = Math.max(lower[lower.length - 1][1], b);
      } else { upper.push([x, a]); lower.push([x, b]); }
      place = Math.floor(x);
    }
    if (upper.length < 2) return;
    const words = [...upper, ...lower.reverse()].map(([x, y], k) => `${k ? "L" : "M"}${round(x)} ${round(Math.max(-1e5, Math.min(1e5, y)))}`);
    svg("path", {d: words.join("") + "Z", fill: colour, "fill-opacity": "0.16", class: "band"}, group);
  }

  // ---- reading values off

  // The values of all visible series at x: each the last one that was reached by then.
  read(x) {
    this.reading = x;
    this.canvas.querySelector(".hover")?.remove();
    const g = this.geometry;
    const far = g && x !== null ? g.sx.at(x) : NaN;
    if (!(far >= g?.left - 1 && far <= g?.right + 1)) { this.tip.hidden = true; return; }
    const place = this.snapped(x), rows = [];
    const layer = svg("g", {class: "hover", "pointer-events": "none"}, this.canvas.querySelector("svg"));
    const px = g.sx.at(place), look = theme();
    svg("line", {x1: px, x2: px, y1: g.upper, y2: g.bottom, stroke: look.ink, "stroke-opacity": "0.45", "stroke-width": "1"}, layer);
    for (const s of this.visible()) {
      const d = onAxis(s, this.axis), j = firstAfter(d.x, place) - 1;
      if (j < 0 || (place > d.x[d.x.length - 1] * (1 + 1e-12))) continue;
      let k = j;
      while (k >= 0 && Number.isNaN(d.y[k]) && d.x[k] === d.x[j]) k--;  // several points at one place
      const v = k >= 0 ? d.y[k] : NaN;
      rows.push({s, v, low: d.low ? d.low[j] : NaN, high: d.high ? d.high[j] : NaN});
      const y = g.sy.at(this.shown(v));
      if (y >= g.upper - 3 && y <= g.bottom + 3) svg("circle", {cx: px, cy: y, r: 4, fill: s.colour[look.dark], stroke: look.ground, "stroke-width": "1.5"}, layer);
    }
    rows.sort((a, b) => (Number.isNaN(a.v) ? 1 : Number.isNaN(b.v) ? -1 : b.v - a.v));
    this.showTip(place, rows, px, look);
  }

  snapped(x) {
    const g = this.geometry;
    let best = x, distance = Infinity;
    for (const s of this.visible()) {
      const xs = onAxis(s, this.axis).x, j = firstAfter(xs, x);
      for (const k of [j - 1, j]) {
        if (k < 0 || k >= xs.length || xs[k] < g.sx.low || xs[k] > g.sx.high || (g.sx.log && !(xs[k] > 0))) continue;
        const far = Math.abs(g.sx.at(xs[k]) - g.sx.at(x));
        if (far < distance) { distance = far; best = xs[k]; }
      }
    }
    return best;
  }

  showTip(place, rows, px, look) {
    const axis = this.named(this.axis);
    const value = (v) => (Number.isNaN(v) ? "–" : this.floor && v <= this.floor ? "≤ " + short(this.floor) : short(v));
    const head = html("div", {class: "where"}, axis.where(place));
    const lines = rows.slice(0, MOST_ROWS).map(({s, v, low, high}) => {
      const swatch = html("span", {class: swatchOf(s), style: `--colour:${s.colour[look.dark]}`});
      const range = Number.isNaN(low) || Number.isNaN(high) || low === high ? [] : [html("span", {class: "range"}, `${value(low)} … ${value(high)}`)];
      return html("div", {class: "row"}, swatch, html("span", {class: "label"}, s.label), html("span", {class: "figure"}, value(v)), ...range);
    });
    const rest = rows.length > MOST_ROWS ? [html("div", {class: "where"}, `and ${rows.length - MOST_ROWS} more`)] : [];
    this.tip.replaceChildren(head, ...lines, ...rest);
    this.tip.hidden = false;
    const room = this.plot.clientWidth, own = this.tip.offsetWidth;
    if (room < 460) {  // beside the line it would hide the curves
      this.tip.style.transform = `translate(0px, ${Math.round(this.geometry.bottom + 24)}px)`;
      return;
    }
    const beside = px + 16 + own <= room ? px + 16 : px - 16 - own >= 0 ? px - 16 - own : Math.max(0, room - own);
    this.tip.style.transform = `translate(${Math.round(beside)}px, ${Math.round(this.geometry.upper + 6)}px)`;
  }

  // ---- pointer and keys

  pointer() {
    let from = null, box = null;
    const at = (e) => { const r = this.canvas.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
    const inside = ([x, y]) => this.geometry && x >= this.geometry.left - 6 && x <= this.geometry.right + 10 && y >= this.geometry.upper - 10 && y <= this.geometry.bottom + 10;
    const clamp = ([x, y]) => [Math.min(this.geometry.right, Math.max(this.geometry.left, x)), Math.min(this.geometry.bottom, Math.max(this.geometry.upper, y))];
    const corner = (p) => { const [a, b] = clamp(p); return [a, b]; };
    this.canvas.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || !inside(at(e))) return;
      if (e.pointerType === "touch") { this.read(this.geometry.sx.back(corner(at(e))[0])); return; }
      from = corner(at(e));
      this.canvas.setPointerCapture(e.pointerId);
    });
    this.canvas.addEventListener("pointermove", (e) => {
      if (!this.geometry) return;
      if (from) {
        const to = corner(at(e)), span = this.span(from, to);
        box?.remove();
        box = null;
        if (span) {
          this.read(null);
          box = svg("rect", {x: span.x[0], y: span.y[0], width: span.x[1] - span.x[0], height: span.y[1] - span.y[0], fill: theme().ink, "fill-opacity": "0.08", stroke: theme().ink, "stroke-opacity": "0.4"}, this.canvas.querySelector("svg"));
        }
      } else this.read(inside(at(e)) ? this.geometry.sx.back(corner(at(e))[0]) : null);
    });
    this.canvas.addEventListener("pointerup", (e) => {
      if (!from) return;
      const span = this.span(from, corner(at(e)));
      from = null;
      box?.remove();
      box = null;
      if (span) this.zoomTo(span);
    });
    this.canvas.addEventListener("pointercancel", () => { from = null; box?.remove(); box = null; });
    this.canvas.addEventListener("pointerleave", () => { if (!from) this.read(null); });
    this.canvas.addEventListener("dblclick", () => this.resetZoom());
  }

  // The rectangle between two places; a thin one means one direction only.
  span([x0, y0], [x1, y1]) {
    const g = this.geometry, thin = 12;
    const wide = Math.abs(x1 - x0) >= thin, tall = Math.abs(y1 - y0) >= thin;
    if (!wide && !tall) return null;
    return {
      x: wide ? [Math.min(x0, x1), Math.max(x0, x1)] : [g.left, g.right],
      y: tall ? [Math.min(y0, y1), Math.max(y0, y1)] : [g.upper, g.bottom], tall,
    };
  }

  zoomTo(span) {
    const {sx, sy} = this.geometry;
    const x = span.x.map(sx.back), y = [sy.back(span.y[1]), sy.back(span.y[0])];
    if (!(x[1] > x[0]) || !(y[1] > y[0])) return;
    this.zoom = {x, y: span.tall || this.zoom?.y ? y : null};
    this.refresh();
  }

  key(e) {
    if (e.target !== this.plot || !this.geometry || e.ctrlKey || e.metaKey || e.altKey) return;
    const {sx, left, right} = this.geometry;
    const here = this.reading === null ? sx.back((left + right) / 2) : this.reading;
    const act = {
      ArrowLeft: () => this.step(here, -1, e.shiftKey), ArrowRight: () => this.step(here, 1, e.shiftKey),
      Home: () => this.read(this.snapped(sx.low)), End: () => this.read(this.snapped(sx.high)),
      Escape: () => this.read(null), 0: () => this.resetZoom(),
      "+": () => this.zoomAbout(here, 0.5), "=": () => this.zoomAbout(here, 0.5), "-": () => this.zoomAbout(here, 2),
    }[e.key];
    if (act) { act(); e.preventDefault(); }
  }

  step(here, direction, far) {
    const g = this.geometry, place = this.snapped(here);
    let next = null;
    const beyond = far ? g.sx.back(g.sx.at(place) + direction * 40) : place;
    for (const s of this.visible()) {
      const xs = onAxis(s, this.axis).x;
      let j = direction > 0 ? firstAfter(xs, beyond) : firstAfter(xs, beyond) - 1;
      while (direction < 0 && j >= 0 && xs[j] >= beyond) j--;
      if (j < 0 || j >= xs.length) continue;
      if (next === null || (direction > 0 ? xs[j] < next : xs[j] > next)) next = xs[j];
    }
    this.read(next === null || next < g.sx.low || next > g.sx.high || (g.sx.log && !(next > 0)) ? place : next);
  }

  zoomAbout(here, factor) {
    const g = this.geometry, p = g.sx.at(here);
    const all = this.zoom;
    this.zoom = null;
    const whole = this.domain().x;
    const x = [g.sx.back(p - (p - g.left) * factor), g.sx.back(p + (g.right - p) * factor)];
    const inside = [Math.max(x[0], whole[0]), Math.min(x[1], whole[1])];
    if (inside[0] > whole[0] || inside[1] < whole[1]) this.zoom = {x: inside, y: all ? all.y : null};
    this.refresh();
  }

  // ---- downloads

  name(ending) {
    const stem = this.given.title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "figure";
    return `${stem.slice(0, 60)}.${ending}`;
  }

  saveCsv() {
    const quoted = (v) => (/[",\n\r]/.test(v) ? `"${v.replaceAll('"', '""')}"` : v);
    const number = (v) => (v === undefined || Number.isNaN(v) ? "" : String(v));
    const lines = [["label", "kind", ...this.axes, "y", "low", "high"].map(quoted).join(",")];
    for (const s of this.series) for (let i = 0; i < s.y.length; i++) {
      const places = this.axes.map((a) => number(s.x[a]?.[i]));
      lines.push([quoted(s.label), s.kind, ...places, number(s.y[i]), number(s.low?.[i]), number(s.high?.[i])].join(","));
    }
    save(new Blob([lines.join("\r\n") + "\r\n"], {type: "text/csv"}), this.name("csv"));
  }

  // The figure as it is seen, on white, with its title and the names of its series.
  standalone() {
    const width = 900, height = 480, names = this.visible();
    let x = 0, y = 50;
    const places = names.map((s) => {
      const own = 34 + widthOf(s.label, 12) + 18;
      if (x + own > width - 40 && x > 0) { x = 0; y += 20; }
      const place = [x, y];
      x += own;
      return place;
    });
    const top = y + 16, margin = 20;
    const {picture} = this.render(width - 2 * margin, height, LIGHT, top);
    const whole = svg("svg", {viewBox: `0 0 ${width} ${height + top + 2 * margin}`, width, height: height + top + 2 * margin, "font-family": FONT, "font-size": "12"});
    svg("rect", {width, height: height + top + 2 * margin, fill: LIGHT.ground}, whole);
    const inner = svg("g", {transform: `translate(${margin} ${margin})`}, whole);
    svg("text", {x: 0, y: 18, "font-size": "17", "font-weight": "600", fill: LIGHT.ink}, inner, this.given.title);
    names.forEach((s, i) => {
      const [a, b] = places[i];
      svg("line", {x1: a, x2: a + 24, y1: b - 4, y2: b - 4, stroke: s.colour[0], "stroke-width": s.thin ? 1.2 : s.kind === "bound" ? 1.6 : 2.5, ...dashesOf(s)}, inner);
      svg("text", {x: a + 31, y: b, fill: LIGHT.ink}, inner, s.label);
    });
    picture.removeAttribute("aria-hidden");
    inner.append(picture);
    whole.setAttribute("xmlns", SVG);
    return {text: new XMLSerializer().serializeToString(whole), width, height: height + top + 2 * margin};
  }

  saveSvg() { save(new Blob([this.standalone().text], {type: "image/svg+xml"}), this.name("svg")); }

  savePng() {
    const {text, width, height} = this.standalone(), image = new Image(), sharp = 2;
    image.onload = () => {
      const canvas = html("canvas", {width: width * sharp, height: height * sharp});
      canvas.getContext("2d").drawImage(image, 0, 0, width * sharp, height * sharp);
      canvas.toBlob((blob) => save(blob, this.name("png")), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  }
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  html("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// ---------------------------------------------------------------- the page

const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
let figures = [], printing = false;

function isDark() { return root.dataset.theme ? root.dataset.theme === "dark" : system.matches; }
function theme() { return isDark() && !printing ? DARK : LIGHT; }
function redraw() {
  document.getElementById("theme").setAttribute("aria-pressed", String(isDark()));
  for (const figure of figures) figure.draw();
}

function start() {
  const given = JSON.parse(document.getElementById("data").textContent);
  const switcher = document.getElementById("theme");
  switcher.hidden = false;
  try { const kept = localStorage.getItem("undrift-theme"); if (kept === "dark" || kept === "light") root.dataset.theme = kept; } catch { /* no storage */ }
  switcher.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("undrift-theme", root.dataset.theme); } catch { /* no storage */ }
    redraw();
  });
  system.addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    printing = true;
    for (const folded of document.querySelectorAll("details")) folded.open = true;
    redraw();
  });
  addEventListener("afterprint", () => { printing = false; redraw(); });

  const copy = document.getElementById("copy");
  copy?.addEventListener("click", async () => {
    const code = document.getElementById("command");
    try { await navigator.clipboard.writeText(code.textContent); } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    copy.textContent = "copied";
    setTimeout(() => { copy.textContent = "copy"; }, 1500);
  });

  const failing = document.getElementById("only-failing");
  failing?.addEventListener("click", () => {
    const on = failing.getAttribute("aria-pressed") !== "true";
    failing.setAttribute("aria-pressed", String(on));
    for (const claim of document.querySelectorAll(".claim.holds")) claim.hidden = on;
  });

  for (const frame of document.querySelectorAll("[data-figure]")) {
    const number = Number(frame.dataset.figure);
    figures.push(new Figure(frame, given.figures[number], number));
  }
  redraw();
}

start();
})();
