// Elements of the page, and whether it is light or dark.

function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key.startsWith("--")) made.style.setProperty(key, value);
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

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  html("a", {href: address, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
let figures = [], printing = false;

function isDark() { return root.dataset.theme ? root.dataset.theme === "dark" : system.matches; }
function theme() { return isDark() && !printing ? DARK : LIGHT; }
function redraw() {
  document.getElementById("theme").setAttribute("aria-pressed", String(isDark()));
  for (const figure of figures) figure.draw();
}
