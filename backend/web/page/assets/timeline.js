// The timeline: runs, their turns with model time and tool time, tool calls, decisions and compactions, over time. At most one mark a
// pixel is drawn, so that ten thousand turns cost what a thousand do.
import { html, useEffect, useMemo, useRef, useState } from './vendor/preact-htm.js';
import { classOf, clean, clock, count, duration, ms as millis, timeKnown, tokens, usageKnown, words } from './format.js';
import { navigate, withQuery } from './router.js';
import { ticks, timeScale } from './scale.js';
import { Icon, useWidth } from './ui.js';

/** @import {Outline, OutlineRun, OutlineTurn} from '../types.d.ts' */

const rowHeight = 46;
const axisHeight = 18;
const mostRows = 6;

/**
 * Milliseconds of a time; NaN where it is not known: what has none is not on the axis.
 * @param {string | undefined} time
 */
const ms = (time) => (timeKnown(time) ? millis(time) : NaN);

/**
 * @typedef {object} Bar a turn as it is drawn
 * @property {number} index in Outline.turns
 * @property {OutlineTurn} turn
 * @property {number} row
 * @property {number} from in milliseconds
 * @property {number} model where the model's time ends
 * @property {number} to
 */

/**
 * Bars of all turns, and runs in rows so that what ran at the same time lies on top of each other.
 * @param {Outline} outline
 * @param {number} now
 */
function layOut(outline, now) {
  const runs = outline.runs ?? [];
  const turns = outline.turns ?? [];
  /** @type {Bar[]} */
  const bars = [];
  /** @type {Map<number, {run: OutlineRun, from: number, to: number, row: number}>} */
  const placed = new Map();
  // A turn cannot begin before its session: what says so is only a bound.
  const least = ms(outline.summary.start);
  turns.forEach((turn, index) => {
    const end = ms(turn.end);
    const from = timeKnown(turn.start) ? Math.max(ms(turn.start), Number.isNaN(least) ? 0 : least) : turn.start === undefined || Number.isNaN(least) ? end : Math.min(least, end);
    if (Number.isNaN(from)) return;
    const to = Number.isNaN(end) ? (turn.state === 'open' || turn.live ? Math.max(now || ms(outline.summary.last), from) : from) : end;
    bars.push({ index, turn, row: 0, from, to, model: Math.min(to, turn.model_call_ns ? from + turn.model_call_ns / 1e6 : firstCall(turn, to)) });
    const r = runs[turn.run - 1];
    if (!r) return;
    const p = placed.get(turn.run);
    if (p) {
      p.from = Math.min(p.from, from);
      p.to = Math.max(p.to, to);
    } else placed.set(turn.run, { run: r, from, to, row: 0 });
  });
  for (const r of runs) {
    const from = ms(r.start);
    const to = ms(r.end);
    const p = placed.get(r.number);
    if (p) {
      if (!Number.isNaN(from)) p.from = Math.min(p.from, from);
      if (!Number.isNaN(to)) p.to = Math.max(p.to, to);
    } else if (!Number.isNaN(from)) placed.set(r.number, { run: r, from, to: Number.isNaN(to) ? from : to, row: 0 });
  }
  /** @type {number[]} */
  const ends = [];
  for (const p of [...placed.values()].sort((a, b) => a.from - b.from || a.run.number - b.run.number)) {
    let row = ends.findIndex((e) => e <= p.from);
    if (row < 0) row = ends.length < mostRows ? ends.length : mostRows - 1;
    ends[row] = Math.max(ends[row] ?? 0, p.to);
    p.row = row;
  }
  for (const b of bars) b.row = placed.get(b.turn.run)?.row ?? 0;
  return { bars, runs: [...placed.values()], rows: Math.max(1, ends.length) };
}

/**
 * When the first tool call began: where the loop does not report the model's time, that is its bound.
 * @param {OutlineTurn} t
 * @param {number} otherwise
 */
const firstCall = (t, otherwise) => (t.calls ?? []).reduce((least, c) => (ms(c.start) < least ? ms(c.start) : least), otherwise);

/**
 * What the axis must hold: turns, and what lies outside of them. A run waits between its turns, so that only where it begins and ends
 * counts, unless it has none.
 * @param {Outline} outline
 * @param {Bar[]} bars
 * @param {{run: OutlineRun, from: number, to: number}[]} runs
 * @returns {[number, number][]}
 */
function stretches(outline, bars, runs) {
  const withTurns = new Set(bars.map((b) => b.turn.run));
  /** @type {[number, number][]} */
  const out = bars.map((b) => [b.from, b.to]);
  for (const { run, from, to } of runs) {
    if (withTurns.has(run.number)) out.push([from, from], [to, to]);
    else out.push([from, to]);
  }
  for (const m of outline.marks ?? []) if (timeKnown(m.at)) out.push([ms(m.at), ms(m.at)]);
  return out;
}

/**
 * The timeline; nothing where no time is known.
 * @param {{outline: Outline, selected: number, select: (index: number) => void, zoom: string | null, idle: boolean, now: number}} p
 */
export function Timeline(p) {
  const laid = useMemo(() => layOut(p.outline, p.now), [p.outline, p.now]);
  return laid.runs.length || laid.bars.length ? html`<${Drawn} ...${p} laid=${laid} />` : null;
}

/** @param {{outline: Outline, selected: number, select: (index: number) => void, zoom: string | null, idle: boolean, laid: ReturnType<typeof layOut>}} p */
function Drawn({ outline, selected, select, zoom, idle, laid: { bars, runs, rows } }) {
  const [box, width] = useWidth();
  const scale = useMemo(() => timeScale(stretches(outline, bars, runs), !idle), [bars, runs, idle]);
  const [hover, setHover] = useState(/** @type {{bar: Bar, x: number} | null} */ (null));
  const [drag, setDrag_] = useState(/** @type {[number, number] | null} */ (null));
  const dragged = useRef(drag); // events may come faster than drawings
  const setDrag = (/** @type {[number, number] | null} */ d) => setDrag_((dragged.current = d));
  const origin = scale.from(0);

  // The part that is shown, in places of the scale. In the URL it stands as parts of the whole.
  const [a, b] = useMemo(() => {
    const m = zoom?.match(/^(0?\.\d+|0|1)-(0?\.\d+|1)$/);
    const from = m ? Number(m[1]) : 0;
    const to = m ? Number(m[2]) : 1;
    return from < to ? [from * scale.length, to * scale.length] : [0, scale.length];
  }, [zoom, scale]);
  const set = (/** @type {number} */ from, /** @type {number} */ to) => {
    const least = scale.length / 5000;
    if (to - from < least) [from, to] = [(from + to - least) / 2, (from + to + least) / 2];
    const size = Math.min(to - from, scale.length);
    from = Math.max(0, Math.min(from, scale.length - size));
    const whole = size > scale.length * 0.995;
    const part = (/** @type {number} */ v) => String(Math.round((v / scale.length) * 1e5) / 1e5);
    navigate(withQuery({ zoom: whole ? undefined : part(from) + '-' + part(from + size) }), { replace: true });
  };
  const pad = 8;
  const w = Math.max(1, width - 2 * pad);
  const px = (/** @type {number} */ t) => pad + ((scale.to(t) - a) / (b - a)) * w;
  const at = (/** @type {number} */ x) => a + ((x - pad) / w) * (b - a);
  const scaleAround = (/** @type {number} */ v, /** @type {number} */ factor) => set(v - (v - a) * factor, v + (b - v) * factor);

  const svg = useRef(/** @type {SVGSVGElement | null} */ (null));
  const wheel = useRef((/** @type {WheelEvent} */ _) => {});
  wheel.current = (e) => {
    const held = e.ctrlKey || e.metaKey || document.activeElement === svg.current;
    const sideways = Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey;
    if (!held && !sideways) return; // the wheel scrolls the page, as everywhere
    e.preventDefault();
    const by = sideways ? e.deltaX || e.deltaY : e.deltaY;
    if (sideways) set(a + (by / w) * (b - a), b + (by / w) * (b - a));
    else scaleAround(at(xOf(e)), Math.exp(by * 0.0018));
  };
  useEffect(() => {
    const el = svg.current;
    const f = (/** @type {WheelEvent} */ e) => wheel.current(e);
    el?.addEventListener('wheel', f, { passive: false });
    return () => el?.removeEventListener('wheel', f);
  }, [width > 0]);

  const xOf = (/** @type {MouseEvent} */ e) => e.clientX - (svg.current?.getBoundingClientRect().left ?? 0);
  const yOf = (/** @type {MouseEvent} */ e) => e.clientY - (svg.current?.getBoundingClientRect().top ?? 0);
  const nearest = (/** @type {number} */ x, /** @type {number} */ y) => {
    const row = Math.floor((y - axisHeight) / rowHeight);
    let best = null;
    let distance = 9;
    for (const bar of bars) {
      if (bar.row !== row) continue;
      const from = px(bar.from);
      const to = px(bar.to);
      const d = x < from ? from - x : x > to ? x - to : 0;
      if (d < distance) [best, distance] = [bar, d];
      if (d === 0) break;
    }
    return best;
  };
  const down = (/** @type {PointerEvent} */ e) => {
    if (e.button) return;
    e.preventDefault(); // no text is selected on the way
    svg.current?.focus({ preventScroll: true });
    const x = xOf(e);
    setDrag([x, x]);
    svg.current?.setPointerCapture(e.pointerId);
  };
  const move = (/** @type {PointerEvent} */ e) => {
    const x = xOf(e);
    if (dragged.current) return setDrag([dragged.current[0], x]);
    const bar = nearest(x, yOf(e));
    if (bar || hover) setHover(bar ? { bar, x } : null);
  };
  const up = (/** @type {PointerEvent} */ e) => {
    if (!dragged.current) return;
    const [from, to] = [Math.min(...dragged.current), Math.max(...dragged.current)];
    setDrag(null);
    if (to - from > 5) return set(at(from), at(to));
    const bar = nearest(xOf(e), yOf(e));
    if (bar) select(bar.index);
  };
  const keys = (/** @type {KeyboardEvent} */ e) => {
    const middle = (a + b) / 2;
    const step = (b - a) / 5;
    if (e.key === '+' || e.key === '=') scaleAround(middle, 0.6);
    else if (e.key === '-' || e.key === '−') scaleAround(middle, 1 / 0.6);
    else if (e.key === '0') set(0, scale.length);
    else if (e.key === 'ArrowLeft') set(a - step, b - step);
    else if (e.key === 'ArrowRight') set(a + step, b + step);
    else return;
    e.preventDefault();
    e.stopPropagation();
  };

  const height = axisHeight + rows * rowHeight + 4;
  const drawn = useMemo(() => (width ? draw() : null), [bars, scale, a, b, width]);
  const chosen = selected >= 0 ? bars.find((x) => x.index === selected) : undefined;
  function draw() {
    const out = [];
    const visible = (/** @type {number} */ x1, /** @type {number} */ x2) => x2 >= 0 && x1 <= width;
    for (const { at: t, text } of ticks(scale, a, b, w / 110)) {
      const x = px(t);
      if (x > width - 60) break;
      out.push(html`<g class="tick" data-testid="tick"><line x1=${x} x2=${x} y1="14" y2=${height} /><text x=${x + 4} y="11">${text}</text></g>`);
    }
    for (const g of scale.gaps) {
      const x1 = pad + ((g.at - a) / (b - a)) * w;
      const x2 = pad + ((g.at + g.width - a) / (b - a)) * w;
      if (!visible(x1, x2) || x2 - x1 < 2) continue;
      out.push(html`<g class="gap"><rect x=${x1} width=${x2 - x1} y=${axisHeight - 2} height=${height - axisHeight} /><title>
        ${duration(g.ms * 1e6)} without work</title></g>`);
    }
    for (const { run, from, to, row } of runs) {
      const [x1, x2] = [px(from), px(to)];
      if (!visible(x1, x2)) continue;
      const left = Math.max(x1, pad);
      const room = Math.min(x2, width) - left;
      const label = `${run.number}${run.agent ? ' · ' + clean(run.agent) : ''}${run.relation === 'sub-agent' ? ' · sub-agent' : ''}${run.hidden ? ' · rewound' : ''}`;
      const y = axisHeight + row * rowHeight;
      const text = room > label.length * 6.4 + 26 ? 'run ' + label : room > 26 ? String(run.number) : '';
      out.push(html`<g class=${'tl-run ' + classOf('r', run.status) + (run.hidden ? ' hidden' : '')}>
        <rect x=${x1} y=${y} width=${Math.max(1.5, x2 - x1)} height="3" rx="1.5" />${text ? html`<text x=${left + 1} y=${y + 13}>
        ${text}</text>` : null}</g>`);
    }
    // Turns that would fall on the pixel of the one before are drawn with it.
    /** @type {Map<number, number>} */
    const full = new Map();
    for (const bar of bars) {
      const [x1, x2, xm] = [px(bar.from), px(bar.to), px(bar.model)];
      if (!visible(x1, x2)) continue;
      if (x2 < (full.get(bar.row) ?? -1) + 1) continue;
      full.set(bar.row, Math.floor(Math.max(x1, x2)));
      const y = axisHeight + bar.row * rowHeight + 17;
      const t = bar.turn;
      const kind = t.failed ? ' failed' : t.state === 'open' || t.live ? ' open' : t.state ? ' closed' : '';
      out.push(html`<g class=${'tl-turn' + kind}>
        <rect class="whole" x=${x1} y=${y} width=${Math.max(1, x2 - x1 - (x2 - x1 > 4 ? 1 : 0))} height="12" rx=${x2 - x1 > 6 ? 2 : 0} />
        <rect class="model" x=${x1} y=${y} width=${Math.max(0.8, xm - x1 - (x2 - x1 > 4 && xm === x2 ? 1 : 0))} height="12" rx=${x2 - x1 > 6 ? 2 : 0} />
        </g>`);
      if (x2 - x1 > 2) {
        let lane = 0;
        let before = -Infinity;
        for (const c of t.calls ?? []) {
          const from = ms(c.start);
          if (Number.isNaN(from)) continue;
          const end = ms(c.end);
          lane = from < before ? (lane + 1) % 3 : 0;
          before = Number.isNaN(end) ? bar.to : end;
          out.push(html`<rect class=${'tl-call ' + classOf('o', c.outcome ?? 'none')} x=${px(from)} y=${y + 14 + lane * 4} width=${Math.max(1.2, px(before) - px(from))} height="3" rx="1" />`);
        }
      }
    }
    // Marks stand on top of all turns. Where they are dense one stands for its neighbours of the same kind; what was allowed gives way first.
    /** @type {Map<string, number>} */
    const marked = new Map();
    const put = (/** @type {string} */ kind, /** @type {number} */ x, /** @type {number} */ row, /** @type {string} */ text, /** @type {string} */ action = '') => {
      const key = kind + action + row;
      if (!(x >= 0 && x <= width) || Math.abs(x - (marked.get(key) ?? -Infinity)) < (action === 'allow' ? 12 : 4)) return;
      marked.set(key, x);
      out.push(mark(kind, x, axisHeight + row * rowHeight + 17, text, action));
    };
    for (const bar of bars) {
      for (const m of bar.turn.marks ?? []) put(m.kind, px(ms(m.at)), bar.row, m.text, m.action);
      if (bar.turn.prompt_changed) put('prompt', px(bar.from), bar.row, 'system prompt changed');
    }
    for (const m of outline.marks ?? []) {
      const row = runs.find((r) => r.run.number === m.run)?.row ?? 0;
      put(m.kind, px(ms(m.at)), row, m.text, m.action);
    }
    return out;
  }
  /** @param {string} kind @param {number} x @param {number} y @param {string} text @param {string} [action] */
  function mark(kind, x, y, text, action) {
    // A decision is a circle, filled when it denies; a compaction a diamond; a changed prompt a triangle.
    return html`<g class=${'tl-mark ' + classOf('m', kind) + (action ? ' ' + classOf('a', action) : '')} transform=${`translate(${x} ${y - 1})`}><title>${clean(text)}</title>
      ${
      kind === 'compaction' ? html`<path d="M0-5 5 0 0 5-5 0Z" />` : kind === 'prompt' ? html`<path d="M-4-4h8L0 3Z" />` : html`<circle r=${action === 'allow' ? 3 : 4} />`}</g>`;
  }

  const zoomed = a > 0 || b < scale.length;
  return html`<section class="panel timeline" aria-label="Timeline" data-testid="timeline">
    <header><h2>Timeline</h2>
      <ul class="legend"><li class="k-model">model</li><li class="k-tools">tools and rest</li><li class="k-call">tool call</li>
        <li class="k-perm">decision</li><li class="k-comp">compaction</li><li class="k-prompt">prompt changed</li></ul>
      <span class="grow"></span>
      <label class="check small"><input type="checkbox" checked=${idle} onChange=${(/** @type {Event} */ e) => navigate(withQuery({ idle: /** @type {HTMLInputElement} */ (e.target).checked ? '1' : undefined, zoom: undefined }), { replace: true })} />idle time to scale</label>
      <span class="buttons" role="group" aria-label="Zoom">
        <button class="ghost" aria-label="Zoom in" data-testid="zoom-in" onClick=${() => scaleAround((a + b) / 2, 0.5)}>+</button>
        <button class="ghost" aria-label="Zoom out" data-testid="zoom-out" disabled=${!zoomed} onClick=${() => scaleAround((a + b) / 2, 2)}>−</button>
        <button class="ghost" aria-label="Show all of it" data-testid="zoom-all" disabled=${!zoomed} onClick=${() => set(0, scale.length)}>
        <${Icon} name="unfold" /></button></span>
    </header>
    <div class="chart" ref=${box}>
      <svg ref=${svg} width=${width} height=${height} viewBox=${`0 0 ${Math.max(1, width)} ${height}`} role="img" tabindex="0" data-testid="timeline-svg"
        aria-label=${`Timeline of ${runs.length} runs and ${bars.length} turns. Plus and minus zoom, arrows move, 0 shows all of it.`}
        onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerCancel=${() => setDrag(null)} onPointerLeave=${() => setHover(null)} onDblClick=${() => set(0, scale.length)} onKeyDown=${keys}>
        ${drawn}
        ${chosen && px(chosen.to) >= 0 && px(chosen.from) <= width ? html`<rect class="ring" x=${px(chosen.from) - 2} y=${axisHeight + chosen.row * rowHeight + 15} width=${Math.max(1, px(chosen.to) - px(chosen.from)) + 3} height="16" rx="3" />` : null}
        ${drag && Math.abs(drag[1] - drag[0]) > 5 ? html`<rect class="drag" x=${Math.min(...drag)} width=${Math.abs(drag[1] - drag[0])} y="0" height=${height} />` : null}
      </svg>
      ${hover && !drag ? html`<${Tip} bar=${hover.bar} x=${hover.x} width=${width} origin=${origin} />` : null}
    </div>
    ${zoomed ? html`<div class="zoomed" aria-hidden="true">
      <i style=${{ left: (a / scale.length) * 100 + '%', width: ((b - a) / scale.length) * 100 + '%' }}></i></div>` : null}
  </section>`;
}

/** @param {{bar: Bar, x: number, width: number, origin: number}} p */
function Tip({ bar, x, width, origin }) {
  const t = bar.turn;
  return html`<div class="tip" style=${{ left: Math.max(4, Math.min(x + 12, width - 270)) + 'px' }}>
    <b>run ${t.run} · turn ${t.index}</b> <span class="faint">${clock(t.start)} · +${duration((bar.from - origin) * 1e6)}</span>
    <div class="num">${duration((bar.to - bar.from) * 1e6)}${t.model_call_ns ? html` <span class="faint">of which model ${duration(t.model_call_ns)}</span>` : ''}</div>
    <div class="num">${usageKnown(t) ? html`${tokens(t.usage, t.usage.input)} in <span class="faint">· ${count(t.usage.cache_read)} cached ·</span> ${tokens(t.usage, t.usage.output)} out` : html`<span class="faint">tokens not reported</span>`}</div>
    ${t.stop_reason ? html`<div class="faint">${words(t.stop_reason)}${(t.attempts ?? 0) > 1 ? ` · ${t.attempts} attempts` : ''}</div>` : null}
    ${t.calls?.length ? html`<div class="faint">
      ${t.calls.slice(0, 6).map((c) => clean(c.name)).join(', ')}${t.calls.length > 6 ? ' …' : ''}</div>` : null}
    ${t.text ? html`<div class="tip-text">${clean(t.text)}</div>` : null}
  </div>`;
}
