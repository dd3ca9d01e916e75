// A figure as data, a picture and files: everything about it that needs no reader.

class Drawing {
  constructor(given, number) {
    this.number = number;
    this.logX = {};  // per axis, decided when it is first shown
    this.logY = given.y_scale === "log";
    this.hidden = new Set();
    this.zoom = null;
    this.take(given);
    this.axis = this.axes[0];
  }

  take(given) {
    this.given = given;
    this.floor = given.floor;
    this.series = given.series.map((s) => ({
      ...s, y: column(s.y), low: column(s.low), high: column(s.high), cache: {},
      x: Object.fromEntries(Object.entries(s.x).map(([axis, values]) => [axis, column(values)])),
    }));
    const found = new Set(this.series.flatMap((s) => Object.keys(s.x)));
    this.axes = [...Object.keys(AXES).filter((a) => found.has(a)), ...[...found].filter((a) => !AXES[a])];
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
