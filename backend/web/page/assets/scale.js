// The axis of a timeline. A session is mostly idle: what lies between two stretches of work is drawn short, unless true time is asked for.

/**
 * @typedef {object} Scale
 * @property {(t: number) => number} to a time in milliseconds since 1970 to a place between 0 and `length`
 * @property {(x: number) => number} from the other way round
 * @property {number} length
 * @property {{at: number, width: number, ms: number}[]} gaps that are drawn short: where, how wide, and how long they are
 */

/**
 * @param {[number, number][]} busy stretches of work, in any order
 * @param {boolean} short whether gaps are drawn short
 * @returns {Scale}
 */
export function timeScale(busy, short) {
  const sorted = busy.filter(([a, b]) => b >= a).sort((a, b) => a[0] - b[0]);
  /** @type {[number, number][]} */
  const merged = [];
  for (const [a, b] of sorted) {
    const last = merged[merged.length - 1];
    if (last && a <= last[1]) last[1] = Math.max(last[1], b);
    else merged.push([a, b]);
  }
  const work = merged.reduce((sum, [a, b]) => sum + b - a, 0);
  const most = short ? Math.max(0.001, work * 0.014) : Infinity;
  // Each piece: from time t at place x, `rate` milliseconds of time go to one of place.
  /** @type {{t: number, x: number, t2: number, x2: number}[]} */
  const parts = [];
  /** @type {Scale['gaps']} */
  const gaps = [];
  let x = 0;
  merged.forEach(([a, b], i) => {
    const before = merged[i - 1];
    if (before) {
      const real = a - before[1];
      const width = Math.min(real, most);
      if (real > width) gaps.push({ at: x, width, ms: real });
      parts.push({ t: before[1], x, t2: a, x2: x + width });
      x += width;
    }
    parts.push({ t: a, x, t2: b, x2: x + b - a });
    x += b - a;
  });
  const length = Math.max(x, 1);
  /** @param {number} v @param {'t' | 'x'} from */
  const map = (v, from) => {
    let low = 0;
    let high = parts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((parts[middle]?.[from] ?? 0) <= v) low = middle;
      else high = middle - 1;
    }
    const p = parts[low];
    if (!p) return 0;
    const [f1, f2, o1, o2] = from === 't' ? [p.t, p.t2, p.x, p.x2] : [p.x, p.x2, p.t, p.t2];
    if (v <= f1) return o1 - (low === 0 ? f1 - v : 0);
    if (v >= f2) return o2 + (low === parts.length - 1 ? v - f2 : 0);
    return o1 + ((v - f1) / (f2 - f1)) * (o2 - o1);
  };
  return { to: (t) => map(t, 't'), from: (v) => map(v, 'x'), length, gaps };
}

const second = 1e3, minute = 60e3, hour = 3600e3, day = 86400e3;
const steps = [second, 2 * second, 5 * second, 10 * second, 15 * second, 30 * second, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
  hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour];

/**
 * Round times on an axis, and how they are written: with the digits in which neighbours differ.
 * @param {Scale} scale
 * @param {number} a the part that is shown, in places of the scale
 * @param {number} b
 * @param {number} most how many there is room for
 * @returns {{at: number, text: string}[]} times in milliseconds since 1970
 */
export function ticks(scale, a, b, most) {
  const origin = scale.from(0);
  const place = (b - a) / Math.max(1, most);
  const step = place < second ? nice(place) : (steps.find((s) => s >= place) ?? nice(place / day) * day);
  const out = [];
  let last = -Infinity;
  for (let x = a; x <= b; x += place) {
    const since = Math.ceil((scale.from(x) - origin) / step - 1e-9) * step;
    const at = scale.to(origin + since);
    if (at < a || at > b || at - last < place * 0.75) continue; // where idle time is drawn short, the next round time may be far
    out.push({ at: origin + since, text: since === 0 ? '0' : '+' + timeWords(since, step) });
    last = at;
  }
  return out;
}

/** @param {number} t in milliseconds @param {number} step */
function timeWords(t, step) {
  const digits = (/** @type {number} */ unit) => Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  if (t < second - step / 2) return t.toFixed(digits(1)) + 'ms';
  if (t < minute - step / 2) return (t / second).toFixed(digits(second)) + 's';
  const d = Math.max(0, Math.min(9, digits(second)));
  const whole = Math.round((t / second) * 10 ** d) / 10 ** d;
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const two = (/** @type {number} */ n, /** @type {number} */ f = 0) => n.toFixed(f).padStart(f ? 3 + f : 2, '0');
  if (t >= day && step >= hour) return Math.floor(h / 24) + 'd' + (step < day ? two(h % 24) + 'h' : '');
  const fine = step < minute ? two(s, d) + 's' : '';
  return h ? h + 'h' + (step < hour || fine ? two(m) + 'm' : '') + fine : m + 'm' + (fine || '00s');
}

/**
 * The smallest of 1, 2, 5 times a power of ten that is not below n.
 * @param {number} n
 */
export function nice(n) {
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  for (const f of [1, 2, 5, 10]) if (f * power >= n * 0.999) return f * power;
  return 10 * power;
}
