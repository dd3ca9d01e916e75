// Axes, colours and numbers in words.

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
