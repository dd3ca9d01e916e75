// Scales, ticks and columns of numbers.

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
