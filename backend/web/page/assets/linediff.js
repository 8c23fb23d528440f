// What differs between two texts, by lines.

/** @typedef {{kind: ' ' | '+' | '-', text: string, words?: {op: string, text: string}[]}} Line */

/**
 * The shortest way from one text to the other. Beyond what a page can compute at once, whatever is between the equal beginning and
 * the equal end counts as replaced.
 * @param {string} before
 * @param {string} after
 * @returns {Line[]}
 */
export function lineDiff(before, after) {
  const a = before.split('\n');
  const b = after.split('\n');
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail);
  const y = b.slice(head, b.length - tail);
  /** @type {Line[]} */
  const out = a.slice(0, head).map((text) => ({ kind: ' ', text }));
  if (x.length * y.length > 2_000_000) {
    out.push(...x.map((text) => /** @type {Line} */ ({ kind: '-', text })), ...y.map((text) => /** @type {Line} */ ({ kind: '+', text })));
  } else {
    const width = y.length + 1;
    const common = new Uint32Array((x.length + 1) * width);
    const at = (/** @type {number} */ i, /** @type {number} */ j) => common[i * width + j] ?? 0;
    for (let i = x.length - 1; i >= 0; i--) {
      for (let j = y.length - 1; j >= 0; j--) common[i * width + j] = x[i] === y[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
    let i = 0;
    let j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) {
        out.push({ kind: ' ', text: x[i++] ?? '' });
        j++;
      } else if (j >= y.length || (i < x.length && at(i + 1, j) >= at(i, j + 1))) out.push({ kind: '-', text: x[i++] ?? '' });
      else out.push({ kind: '+', text: y[j++] ?? '' });
    }
  }
  out.push(...a.slice(a.length - tail).map((text) => /** @type {Line} */ ({ kind: ' ', text })));
  return out;
}

/**
 * Leaves out equal lines that are further from a change than `around`. A null stands for those that were left out.
 * @param {Line[]} lines
 * @param {number} [around]
 * @returns {(Line | null)[]}
 */
export function hunks(lines, around = 3) {
  const keep = lines.map(() => false);
  lines.forEach((l, i) => {
    if (l.kind !== ' ') for (let k = Math.max(0, i - around); k <= Math.min(lines.length - 1, i + around); k++) keep[k] = true;
  });
  /** @type {(Line | null)[]} */
  const out = [];
  lines.forEach((l, i) => {
    if (keep[i]) out.push(l);
    else if (out[out.length - 1] !== null) out.push(null);
  });
  return out;
}
