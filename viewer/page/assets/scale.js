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
