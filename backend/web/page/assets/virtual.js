// A list that draws only what is to be seen. Rows may have any height: those not drawn yet count with an estimate, and the
// page does not jump when they turn out to be larger.
import { html, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from './vendor/preact-htm.js';

/**
 * @typedef {{scrollTo: (index: number, where?: 'start' | 'nearest') => void}} VirtualHandle
 *
 * @typedef {object} VirtualProps
 * @property {number} count of rows
 * @property {(index: number) => string | number} keyOf names a row for as long as it means the same thing
 * @property {(index: number) => number} estimate of a height in pixels
 * @property {(index: number) => unknown} row draws one
 * @property {boolean} [own] whether the list scrolls by itself; else the window does
 * @property {number} [top] pixels at the top of the window that something else covers
 * @property {string} [class]
 * @property {string} label for who cannot see it
 * @property {string} [testid]
 * @property {(first: number, last: number, current: number) => void} [seen] called with which rows are to be seen, and which one is at the top
 * @property {{current: VirtualHandle | null}} [handle]
 */

/** @param {VirtualProps} p */
export function Virtual(p) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const inner = useRef(/** @type {HTMLElement | null} */ (null));
  const heights = useRef(/** @type {Map<string | number, number>} */ (new Map()));
  // The row that is held at the top until the user scrolls, and where the view was scrolled to for it.
  const target = useRef(/** @type {{index: number, at: number} | null} */ (null));
  const [, redraw] = useState(0);
  const again = useRef(() => {});
  again.current = () => redraw((n) => n + 1);

  const offsets = new Float64Array(p.count + 1);
  for (let i = 0; i < p.count; i++) offsets[i + 1] = at(offsets, i) + (heights.current.get(p.keyOf(i)) ?? p.estimate(i));
  const total = at(offsets, p.count);

  const { top, height } = view(box.current, p.own, p.top ?? 0);
  const margin = Math.max(400, height / 2);
  const first = Math.max(0, find(offsets, top - margin));
  const last = Math.min(p.count - 1, find(offsets, top + height + margin));
  const current = Math.min(p.count - 1, find(offsets, top + 1));

  const state = useRef({ offsets, p });
  state.current = { offsets, p };

  useEffect(() => {
    const el = /** @type {HTMLElement} */ (box.current);
    const source = p.own ? el : window;
    let frame = 0;
    const moved = () => {
      if (target.current && Math.abs(scrolled(box.current, p.own) - target.current.at) > 4) target.current = null;
      if (!frame) frame = requestAnimationFrame(() => ((frame = 0), again.current()));
    };
    const free = () => void (target.current = null); // the user scrolls: where the page wanted to be no longer counts
    source.addEventListener('scroll', moved, { passive: true });
    addEventListener('resize', moved);
    for (const e of ['wheel', 'touchmove', 'mousedown']) addEventListener(e, free, { passive: true });
    moved();
    return () => {
      cancelAnimationFrame(frame);
      source.removeEventListener('scroll', moved);
      removeEventListener('resize', moved);
      for (const e of ['wheel', 'touchmove', 'mousedown']) removeEventListener(e, free);
    };
  }, []);

  // Rows say how tall they are. What grows above the top of the view moves the view with it.
  const observer = useRef(/** @type {ResizeObserver | null} */ (null));
  useEffect(() => {
    observer.current = new ResizeObserver((entries) => {
      let shift = 0;
      let changed = false;
      const { offsets, p } = state.current;
      const { top } = view(box.current, p.own, p.top ?? 0); // where it is now: the last drawing may be older
      for (const e of entries) {
        const el = /** @type {HTMLElement} */ (e.target);
        const i = Number(el.dataset['index']);
        if (!el.isConnected || !(i < p.count)) continue;
        const key = p.keyOf(i);
        const is = el.getBoundingClientRect().height;
        const was = heights.current.get(key) ?? p.estimate(i);
        if (Math.abs((heights.current.get(key) ?? -1) - is) < 0.01) continue;
        heights.current.set(key, is);
        if (is === was) continue;
        changed = true;
        if (at(offsets, i) + was <= top + 2) shift += is - was;
      }
      if (!changed) return;
      if (shift && !target.current) scrollBy(box.current, p.own, shift);
      again.current();
    });
    return () => observer.current?.disconnect();
  }, []);

  useLayoutEffect(() => {
    const seen = observer.current;
    if (seen && inner.current) {
      seen.disconnect();
      for (const el of inner.current.children) seen.observe(el);
    }
    const t = target.current;
    if (!t) return;
    place(box.current, p.own, at(offsets, Math.min(t.index, p.count)), p.top ?? 0);
    t.at = scrolled(box.current, p.own);
  });
  useEffect(() => {
    if (inner.current && observer.current) for (const el of inner.current.children) observer.current.observe(el);
  }, []);
  useEffect(() => p.seen?.(Math.max(0, find(offsets, top)), Math.min(p.count - 1, find(offsets, top + height)), current), [first, last, current, p.count]);

  const unused = useRef(/** @type {VirtualHandle | null} */ (null));
  useImperativeHandle(p.handle ?? unused, () => ({
    scrollTo(index, where = 'start') {
      const { offsets } = state.current;
      const v = view(box.current, p.own, p.top ?? 0);
      if (where === 'nearest') {
        if (at(offsets, index) >= v.top && at(offsets, index + 1) <= v.top + v.height) return;
        const to = at(offsets, index) < v.top ? at(offsets, index) : at(offsets, index + 1) - v.height;
        place(box.current, p.own, to, p.top ?? 0);
        return;
      }
      place(box.current, p.own, at(offsets, index), p.top ?? 0);
      target.current = { index, at: scrolled(box.current, p.own) };
      again.current();
    },
  }), [p.count]);

  const rows = [];
  for (let i = first; i <= last; i++) {
    rows.push(html`<div class="v-row" role="listitem" aria-setsize=${p.count} aria-posinset=${i + 1} key=${p.keyOf(i)} data-index=${i}>
      ${p.row(i)}</div>`);
  }
  return html`<div ref=${box} class=${'virtual ' + (p.class ?? '')} data-testid=${p.testid} tabindex=${p.own ? 0 : undefined} role="group" aria-label=${p.label}>
    <div class="v-all" role="list" aria-label=${p.label} style=${{ height: total + 'px' }}>
      <div class="v-seen" role="presentation" ref=${inner} style=${{ transform: `translateY(${at(offsets, first)}px)` }}>${rows}</div>
    </div>
  </div>`;
}

/**
 * @param {Float64Array} offsets
 * @param {number} i
 */
const at = (offsets, i) => offsets[i] ?? 0;

/**
 * The last row that begins at or before y.
 * @param {Float64Array} offsets
 * @param {number} y
 */
function find(offsets, y) {
  let low = 0;
  let high = offsets.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (at(offsets, middle) <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * What of the list is to be seen.
 * @param {HTMLElement | null} el
 * @param {boolean | undefined} own
 * @param {number} covered
 */
function view(el, own, covered) {
  if (!el) return { top: 0, height: own ? 600 : innerHeight };
  if (own) return { top: el.scrollTop, height: el.clientHeight };
  return { top: covered - el.getBoundingClientRect().top, height: innerHeight - covered };
}

/**
 * @param {HTMLElement | null} el
 * @param {boolean | undefined} own
 */
const scrolled = (el, own) => (own && el ? el.scrollTop : window.scrollY);

/**
 * @param {HTMLElement | null} el
 * @param {boolean | undefined} own
 * @param {number} by
 */
function scrollBy(el, own, by) {
  if (own && el) el.scrollTop += by;
  else window.scrollBy(0, by);
}

/**
 * Scrolls so that offset y of the list is at the top of the view.
 * @param {HTMLElement | null} el
 * @param {boolean | undefined} own
 * @param {number} y
 * @param {number} covered
 */
function place(el, own, y, covered) {
  if (!el) return;
  if (own) el.scrollTop = y;
  else window.scrollBy(0, Math.round(el.getBoundingClientRect().top + y - covered));
}
