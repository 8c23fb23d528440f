// Tokens of each turn: what the model was sent above the line, by where it came from, what it wrote below. The height above the line is
// the size of the context, so its outline shows how that grows, and where a compaction cut it.
import { html, useMemo, useState } from './vendor/preact-htm.js';
import { clean, count, exact, plural } from './format.js';
import { nice } from './scale.js';
import { useWidth } from './ui.js';

/** @import {Outline, OutlineTurn} from '../types.d.ts' */

const up = 84;
const down = 34;
const left = 44;

/** @param {{outline: Outline, selected: number, select: (index: number) => void}} p */
export function TokenBars({ outline, selected, select }) {
  const [box, width] = useWidth();
  const [hover, setHover] = useState(/** @type {{x: number, from: number, to: number, turn: OutlineTurn} | null} */ (null));
  const turns = outline.turns ?? [];
  const w = Math.max(1, width - left - 8);
  // Where there are more turns than columns of 3 pixels, a column shows the turn with the most input among its own.
  const columns = Math.max(1, Math.min(turns.length, Math.floor(w / 3)));
  const data = useMemo(() => {
    const out = [];
    for (let c = 0; c < columns; c++) {
      const from = Math.floor((c * turns.length) / columns);
      const to = Math.max(from + 1, Math.floor(((c + 1) * turns.length) / columns));
      let best = turns[from];
      let output = best;
      let compacted = false;
      let failed = false;
      for (let i = from; i < to; i++) {
        const t = turns[i];
        if (!t || !best || !output) continue;
        if (t.usage.input > best.usage.input) best = t;
        if (t.usage.output > output.usage.output) output = t;
        compacted ||= Boolean(t.marks?.some((m) => m.kind === 'compaction'));
        failed ||= Boolean(t.failed);
      }
      if (best && output) out.push({ from, to, turn: best, output, compacted, failed });
    }
    return out;
  }, [outline, columns]);
  const mostIn = useMemo(() => nice(data.reduce((m, d) => Math.max(m, d.turn.usage.input), 1)), [data]);
  const mostOut = useMemo(() => nice(data.reduce((m, d) => Math.max(m, d.output.usage.output), 1)), [data]);
  const step = w / columns;
  const bar = Math.max(1, Math.min(26, step - (step > 4 ? Math.min(3, step * 0.2) : 0.6)));
  const y0 = 10 + up;
  const place = (/** @type {number} */ c) => left + c * step + (step - bar) / 2;
  const column = (/** @type {MouseEvent} */ e) => data[Math.max(0, Math.min(columns - 1, Math.floor((e.offsetX - left) / step)))];
  const drawn = useMemo(() => {
    if (!width) return null;
    const bars = data.map((d, c) => {
      const u = d.turn.usage;
      const o = d.output.usage;
      const x = place(c);
      const h = (/** @type {number} */ n) => (Math.max(0, n) / mostIn) * up;
      const g = (/** @type {number} */ n) => (Math.max(0, n) / mostOut) * down;
      const [read, write] = [h(u.cache_read), h(u.cache_write)];
      const fresh = Math.max(0, h(u.input) - read - write);
      const reasoning = Math.min(g(o.reasoning), g(o.output));
      return html`<g>
        <rect class="t-read" x=${x} y=${y0 - read} width=${bar} height=${read} />
          <rect class="t-write" x=${x} y=${y0 - read - write} width=${bar} height=${write} />
        <rect class="t-input" x=${x} y=${y0 - read - write - fresh} width=${bar} height=${fresh} />
        <rect class="t-output" x=${x} y=${y0 + 2} width=${bar} height=${g(o.output) - reasoning} />
          <rect class="t-reasoning" x=${x} y=${y0 + 2 + g(o.output) - reasoning} width=${bar} height=${reasoning} />
        ${d.failed ? html`<path class="t-failed" d=${`M${x + bar / 2 - 3} ${y0 + 4}l6 6m0-6-6 6`} />` : null}
        ${d.compacted ? html`<g class="tl-mark m-compaction"><line x1=${place(c) - 1} x2=${place(c) - 1} y1="6" y2=${y0} />
          <path transform=${`translate(${place(c) - 1} 6)`} d="M0-4 4 0 0 4-4 0Z" /></g>` : null}</g>`;
    });
    // Where a turn reports no usage the line is broken.
    const line = data.map((d, c) => (d.turn.usage.input ? `${c && data[c - 1]?.turn.usage.input ? 'L' : 'M'}${left + c * step} ${y0 - (d.turn.usage.input / mostIn) * up}h${step}` : '')).join('');
    return html`<g class="tick"><line x1=${left} x2=${width} y1="10" y2="10" /><text x=${left - 6} y="14" text-anchor="end">${count(mostIn)}</text>
      <line x1=${left} x2=${width} y1=${y0 - up / 2} y2=${y0 - up / 2} /><text x=${left - 6} y=${y0 - up / 2 + 4} text-anchor="end">
      ${count(mostIn / 2)}</text>
      <text x=${left - 6} y=${y0 + down + 2} text-anchor="end">${count(mostOut)}</text>
        <line x1=${left} x2=${width} y1=${y0 + down + 2} y2=${y0 + down + 2} /></g>
      ${bars}<path class="t-context" d=${line} /><line class="zero" x1=${left} x2=${width} y1=${y0 + 1} y2=${y0 + 1} />`;
  }, [data, width, mostIn, mostOut]);
  const chosen = data.findIndex((d) => d.from <= selected && selected < d.to);
  const u = outline.summary.usage;
  return html`<section class="panel tokens" aria-label="Tokens" data-testid="tokens">
    <header><h2>Tokens a turn</h2>
      <ul class="legend"><li class="k-read">cache read</li><li class="k-write">cache write</li><li class="k-input">other input</li>
        <li class="k-output">output</li><li class="k-reasoning">reasoning</li><li class="k-context">context</li></ul>
      <span class="grow"></span>${columns < turns.length ? html`<span class="faint small">each column: the largest of about ${Math.round(turns.length / columns)} turns</span>` : null}
    </header>
    <div class="chart" ref=${box}><svg width=${width} height=${y0 + down + 10} viewBox=${`0 0 ${Math.max(1, width)} ${y0 + down + 10}`} role="img" data-testid="tokens-svg"
      aria-label=${`Tokens of ${plural(turns.length, 'turn')}: ${exact(u.input)} input, ${exact(u.cache_read)} of it from cache, ${exact(u.output)} output, ${exact(u.reasoning)} of it reasoning.`}
      onClick=${(/** @type {MouseEvent} */ e) => { const d = column(e); if (d) select(turns.indexOf(d.turn)); }}
      onMouseMove=${(/** @type {MouseEvent} */ e) => { const d = column(e); setHover(d && e.offsetX >= left ? { x: e.offsetX, ...d } : null); }} onMouseLeave=${() => setHover(null)}>
        ${chosen >= 0 ? html`<rect class="column" x=${left + chosen * step + step / 2 - Math.max(step, 4) / 2} y="4" width=${Math.max(step, 4)} height=${up + down + 10} rx="2" />` : null}${drawn}</svg>
      ${hover ? html`<div class="tip" style=${{ left: Math.max(4, Math.min(hover.x + 12, width - 230)) + 'px' }}>
        <b>run ${hover.turn.run} · turn ${hover.turn.index}</b>
        ${hover.to - hover.from > 1 ? html` <span class="faint">of ${hover.to - hover.from} here</span>` : null}
        <table class="num"><tr><td><i class="sw t-read"></i>cache read</td><td>${exact(hover.turn.usage.cache_read)}</td></tr><tr><td>
          <i class="sw t-write"></i>cache write</td><td>${exact(hover.turn.usage.cache_write)}</td></tr><tr><td>
          <i class="sw t-input"></i>other input</td><td>
          ${exact(Math.max(0, hover.turn.usage.input - hover.turn.usage.cache_read - hover.turn.usage.cache_write))}</td></tr>
        <tr><td><i class="sw t-output"></i>output</td><td>${exact(hover.turn.usage.output)}</td></tr><tr><td>
          <i class="sw t-reasoning"></i>of it reasoning</td><td>${exact(hover.turn.usage.reasoning)}</td></tr></table>
        ${hover.turn.marks?.filter((m) => m.kind === 'compaction').map((m) => html`<div class="faint">${clean(m.text)}</div>`)}</div>` : null}
    </div></section>`;
}
