// A figure that a reader can turn: axes, scales, series, zoom, values under the pointer.

class Figure extends Drawing {
  constructor(frame, given, number) {
    super(given, number);
    this.frame = frame;
    this.marked = null;  // the series whose name is under the pointer
    this.reading = null;  // the place that is read off, in data
    this.build();
  }

  // ---- controls

  build() {
    this.tools = html("div", {class: "tools"});
    this.names = html("div", {class: "legend", role: "group", "aria-label": "series"});
    const save = (kind, act) => button(kind, act, {"data-save": kind.toLowerCase(), "aria-label": `download as ${kind}`, title: `download as ${kind}`});
    this.frame.querySelector("figcaption").append(html("div", {class: "segments save", role: "group", "aria-label": "download"},
      save("CSV", () => this.saveCsv()), save("SVG", () => this.saveSvg()), save("PNG", () => this.savePng())));
    this.plot = html("div", {
      class: "plot", tabindex: "0", role: "group",
      "aria-label": `${this.given.title}. Left and right arrows read off values, plus and minus zoom, 0 shows all.`,
      onkeydown: (e) => this.key(e), onblur: () => this.read(null),
    });
    this.canvas = html("div", {class: "canvas"});
    this.tip = html("div", {class: "tip", role: "status", hidden: ""});
    this.plot.append(this.canvas, this.tip);
    this.frame.append(this.tools, this.names, this.plot);
    this.buildTools();
    this.buildLegend();
    this.pointer();
    new ResizeObserver(() => { if (!printing && this.canvas.clientWidth !== this.width) this.draw(); }).observe(this.canvas);
    this.refresh();
  }

  buildTools() {
    this.axisButtons = this.axes.length < 2 ? [] : this.axes.map((axis) =>
      toggle(this.named(axis).button, () => this.setAxis(axis), axis === this.axis, {"data-axis": axis}));
    this.logYButton = toggle("log y", () => { this.logY = !this.logY; this.zoom = null; this.refresh(); }, this.logY, {"data-act": "log-y"});
    this.logXButton = toggle("log x", () => { this.logX[this.axis] = !this.isLogX(); this.zoom = null; this.refresh(); }, false, {"data-act": "log-x"});
    this.resetButton = button("show all", () => this.resetZoom(), {"data-act": "reset", hidden: ""});
    const axes = html("div", {class: "segments", role: "group", "aria-label": "horizontal axis"}, ...this.axisButtons);
    const scales = html("div", {class: "segments", role: "group", "aria-label": "scales"}, this.logYButton, this.logXButton);
    this.tools.replaceChildren(...(this.axisButtons.length ? [axes] : []), scales, this.resetButton);
  }

  buildLegend() {
    this.legend = this.series.map((s, i) => html("button", {
      type: "button", class: "name", "aria-pressed": "true", "data-series": i,
      title: "click: hide or show; double click, or shift and click: only this one",
      onclick: (e) => (e.shiftKey ? this.only(i) : this.flip(i)), ondblclick: () => this.only(i),
      onpointerenter: () => this.mark(i), onpointerleave: () => this.mark(null),
      onfocus: (e) => { if (e.target.matches(":focus-visible")) this.mark(i); }, onblur: () => this.mark(null),
    }, html("span", {class: swatchOf(s), "aria-hidden": "true"}), s.label));
    this.names.replaceChildren(...this.legend);
  }

  // The figure with newer data. What the reader has chosen stays: axis, scales, hidden series, zoom, the place that is read off.
  update(given) {
    const looks = () => JSON.stringify([this.axes, this.series.map((s) => [s.label, s.kind, s.thin])]);
    const before = looks(), hidden = new Set([...this.hidden].map((i) => this.series[i].label));
    this.take(given);
    this.hidden = new Set(this.series.map((s, i) => i).filter((i) => hidden.has(this.series[i].label)));
    if (before !== looks()) {
      this.marked = null;
      if (!this.axes.includes(this.axis)) [this.axis, this.zoom, this.reading] = [this.axes[0], null, null];
      this.buildTools();
      this.buildLegend();
    }
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
    for (const b of this.axisButtons) b.setAttribute("aria-pressed", String(b.dataset.axis === this.axis));
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
      const swatch = html("span", {class: swatchOf(s), "--colour": s.colour[look.dark]});
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
}
