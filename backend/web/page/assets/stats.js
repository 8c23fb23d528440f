// Statistics: how turns and tool calls spread.
import { html, useState } from './vendor/preact-htm.js';
import { useGet } from './api.js';
import { classOf, clean, count, duration, exact, money, percent, plural, tokens, words } from './format.js';
import { useKeys } from './keys.js';
import { link, navigate, withQuery } from './router.js';
import { Chip, copyJSON, CopyJSON, Empty, Failure, Loading, TextInput, useTitle, useWidth } from './ui.js';

/** @import {Dist, StatsGroup, StatsReport} from '../types.d.ts' */
/** @import {Place} from './router.js' */

/** @type {{name: string, of: (g: StatsGroup) => Dist | undefined, unit: string, show: (n: number) => string, kind: string}[]} */
const measures = [
  { name: 'Input', of: (g) => g.input, unit: 'tokens a turn', show: count, kind: 'input' },
  { name: 'Output', of: (g) => g.output, unit: 'tokens a turn', show: count, kind: 'output' },
  { name: 'Cache read', of: (g) => g.cache_read, unit: 'tokens a turn', show: count, kind: 'read' },
  { name: 'Cache write', of: (g) => g.cache_write, unit: 'tokens a turn', show: count, kind: 'write' },
  { name: 'Reasoning', of: (g) => g.reasoning, unit: 'tokens a turn', show: count, kind: 'reasoning' },
  { name: 'Turn', of: (g) => g.duration_ns, unit: 'duration, tools included', show: duration, kind: 'time' },
  { name: 'Model call', of: (g) => g.model_call_ns, unit: 'duration', show: duration, kind: 'time' },
  { name: 'First token', of: (g) => g.first_chunk_ns, unit: 'time to it', show: duration, kind: 'time' },
  { name: 'Tool call', of: (g) => g.tool_duration_ns, unit: 'duration', show: duration, kind: 'tool' },
];
// The words of stats.Bys, in Go.
const groups = [['', 'all together'], ['model', 'model'], ['agent', 'agent'], ['provider', 'provider'], ['tool', 'tool'], ['session', 'session']];

/** @param {{at: Place}} p */
export function StatsPage({ at }) {
  useTitle('Statistics');
  const query = Object.fromEntries(['by', 'agent', 'model', 'provider', 'since', 'session'].map((k) => [k, at.query.get(k) ?? '']));
  const { data, error, loading } = useGet('stats', query);
  const r = /** @type {StatsReport | undefined} */ (data);
  const [measure, setMeasure] = useState(measures[0]?.name ?? '');
  useKeys({ c: () => void copyJSON('stats', query), Escape: () => navigate(link('/')) });
  const set = (/** @type {Record<string, string | undefined>} */ c) => navigate(withQuery(c), { replace: true });
  const value = (/** @type {Event} */ e) => /** @type {HTMLInputElement} */ (e.target).value;
  return html`<div class=${'page stats-page' + (loading && r ? ' stale' : '')}>
    <header class="page-head"><div class="session-title"><h1>Statistics</h1></div></header>
    <form class="filters" aria-label="Which turns" data-testid="stats-filters" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <label class="field"><span>By</span>
        <select data-testid="stats-by" value=${query['by']} onChange=${(/** @type {Event} */ e) => set({ by: value(e) })}>
        ${groups.map(([v, n]) => html`<option value=${v}>${n}</option>`)}</select></label>
      <label class="field"><span>Agent</span>
        <${TextInput} value=${query['agent']} placeholder="any" size="10" onChange=${(/** @type {Event} */ e) => set({ agent: value(e) })} /></label>
      <label class="field"><span>Model</span>
        <${TextInput} value=${query['model']} placeholder="any" size="14" onChange=${(/** @type {Event} */ e) => set({ model: value(e) })} /></label>
      <label class="field"><span>Provider</span>
        <${TextInput} value=${query['provider']} placeholder="any" size="10" onChange=${(/** @type {Event} */ e) => set({ provider: value(e) })} /></label>
      <label class="field"><span>Since</span><select value=${query['since']} onChange=${(/** @type {Event} */ e) => set({ since: value(e) })}>
        ${[['', 'any time'], ['1h', 'last hour'], ['24h', 'last day'], ['168h', 'last week'], ['720h', 'last 30 days']].map(([v, n]) => html`<option value=${v}>
        ${n}</option>`)}</select></label>
      <label class="field"><span>Session</span>
        <${TextInput} value=${query['session']} placeholder="all" size="12" onChange=${(/** @type {Event} */ e) => set({ session: value(e) })} /></label>
        <span class="grow"></span><${CopyJSON} path="stats" params=${query} /></form>
    ${error ? html`<${Failure} error=${error} />` : !r ? html`<${Loading} what="Counting" />` : !(r.total.turns || r.total.tool_calls) ? html`<${Empty} title="No turn is like that" />` : html`
      <${Totals} g=${r.total} />
      ${r.by ? html`<${Groups} r=${r} measure=${measure} setMeasure=${setMeasure} />` : null}
      <h2 class="section">${r.by ? 'All together' : 'How they spread'}</h2>
      <div class="histograms" data-testid="histograms">
        ${measures.map((m) => { const d = m.of(r.total); return d?.max ? html`<${Histogram} key=${m.name} name=${m.name} unit=${m.unit} d=${d} show=${m.show} kind=${m.kind} />` : null; })}</div>
      ${r.tools?.length ? html`<h2 class="section">Tools</h2><div class="scroll" role="region" tabindex="0" aria-label="Tools">
        <table class="table num" data-testid="stats-tools"><thead><tr><th>Tool</th><th class="r">Calls</th><th>How they ended</th>
        <th class="r">p50</th><th class="r">p90</th><th class="r">Longest</th></tr></thead><tbody>${r.tools.map((t) => html`<tr>
        <td title=${clean(t.name)}>${clean(t.name)}</td><td class="r">${exact(t.calls)}</td><td><${Outcomes} o=${t.outcomes} n=${t.calls} /></td>
        <td class="r">${duration(t.duration_ns?.p50)}</td><td class="r">${duration(t.duration_ns?.p90)}</td><td class="r">
        ${duration(t.duration_ns?.max)}</td></tr>`)}</tbody></table></div>` : null}
      <div class="two">${r.permissions?.length ? html`<section class="scroll" role="region" tabindex="0" aria-label="Permissions">
        <h2 class="section">Permissions</h2><table class="table num"><thead><tr><th>Decision</th><th>From</th><th class="r">Times</th>
        <th class="r">Waited, p50</th><th class="r">Longest</th></tr></thead><tbody>${r.permissions.map((p) => html`<tr><td>${words(p.action)}</td>
        <td>${words(p.source)}</td><td class="r">${exact(p.n)}</td><td class="r">${duration(p.wait_ns?.p50)}</td><td class="r">
        ${duration(p.wait_ns?.max)}</td></tr>`)}</tbody></table></section>` : null}
      ${r.compactions?.length ? html`<section class="scroll" role="region" tabindex="0" aria-label="Compactions"><h2 class="section">Compactions</h2>
        <table class="table num"><thead><tr><th>Kind</th><th>Trigger</th><th class="r">Times</th><th class="r">Tokens in, p50</th>
        <th class="r">out, p50</th><th class="r">Used in</th><th class="r">out</th></tr></thead><tbody>${r.compactions.map((c) => html`<tr><td>${words(c.kind)}</td><td>${words(c.trigger)}</td>
        <td class="r">${exact(c.n)}</td><td class="r">${count(c.input_tokens?.p50)}</td><td class="r">
        ${count(c.output_tokens?.p50)}</td><td class="r">${c.used_input_tokens ? tokens(c, c.used_input_tokens.sum) : ''}</td><td class="r">
        ${c.used_output_tokens ? tokens(c, c.used_output_tokens.sum) : ''}</td></tr>`)}</tbody></table></section>` : null}</div>
      ${r.no_price?.length ? html`<p class="note">Without a price: ${r.no_price.map((p) => `${clean(p.model)} (${plural(p.turns, 'turn')})`).join(', ')}</p>` : null}`}
  </div>`;
}

/** @param {{g: StatsGroup}} p */
function Totals({ g }) {
  /** @param {string} name @param {unknown} value @param {unknown} [under] @param {string} [kind] */
  const figure = (name, value, under, kind) => html`<div class=${'figure ' + (kind ?? '')}><dt>${name}</dt><dd><span class="num">${value}</span>
    ${under ? html`<small class="num">${under}</small>` : null}</dd></div>`;
  const cost = g.cost?.map((c) => money(c.amount, c.currency)).join(' + ') || (g.computed_cost ? money(g.computed_cost.amount, g.computed_cost.currency) : '–');
  return html`<dl class="figures-row" data-testid="stats-totals">
    ${figure('Turns', exact(g.turns), plural(g.sessions, 'session'))}${figure('Failed', g.failed ? percent(g.failed / g.turns) : '0', g.failed ? plural(g.failed, 'turn') : undefined, g.failed ? 'bad' : '')}${figure('Retries', exact(g.retries))}
    ${figure('Input', tokens(g, g.input?.sum ?? 0), g.cache_rate !== undefined ? percent(g.cache_rate) + ' from cache' : g.cache_idle ? 'no cache used' : undefined, g.cache_idle ? 'warn' : '')}${figure('Output', tokens(g, g.output?.sum ?? 0), g.reasoning?.sum ? count(g.reasoning.sum) + ' reasoning' : undefined)}${figure('Cost', cost, g.cost ? undefined : g.computed_cost ? 'by catalogue' : 'not reported')}${figure('Tool calls', exact(g.tool_calls), g.tool_outcomes?.['error'] ? plural(g.tool_outcomes['error'], 'error') : undefined)}</dl>`;
}

/** @param {{name: string, unit: string, d: Dist, show: (n: number) => string, kind: string}} p */
function Histogram({ name, unit, d, show, kind }) {
  const [box, width] = useWidth();
  const [hover, setHover] = useState(-1);
  const top = 13;
  const height = 92;
  const list = d.buckets;
  const first = Math.max(0, list.findIndex((b) => b.n > 0) - 1);
  const shown = list.slice(first);
  const most = Math.max(1, ...shown.map((b) => b.n));
  const step = shown.length ? Math.min(72, (width - 26) / shown.length) : 0; // room for a word behind the last one
  const at = (/** @type {number} */ v) => {
    const i = shown.findIndex((b) => v <= b.le);
    if (i < 0) return shown.length * step;
    const low = i > 0 ? (shown[i - 1]?.le ?? 0) : 0;
    const high = shown[i]?.le ?? 1;
    return (i + (high > low ? (v - low) / (high - low) : 0.5)) * step;
  };
  const b = shown[hover];
  const near = at(d.p90) - at(d.p50) < 26; // their words would stand in each other; where none fits before the line, the numbers below have p50
  return html`<figure class="histogram panel" data-testid="histogram" aria-label=${name}><figcaption><h3>${name}</h3><span class="faint">
    ${unit}, log</span></figcaption>
    <div class="chart" ref=${box}><svg width=${width} height=${height + 18} role="img" aria-label=${`${name}: half at most ${show(d.p50)}, nine of ten at most ${show(d.p90)}, the largest ${show(d.max)}`} onMouseMove=${(/** @type {MouseEvent} */ e) => setHover(Math.floor(e.offsetX / step))} onMouseLeave=${() => setHover(-1)}>
      ${width ? html`${shown.map((x, i) => html`<g class=${'hb k-' + kind + (i === hover ? ' on' : '')}>
        <rect class="back" x=${i * step} y="0" width=${step} height=${height} />
        <rect x=${i * step + 0.5} width=${Math.max(1, step - 1.5)} y=${height - Math.max(x.n ? 1.5 : 0, (x.n / most) * (height - top))} height=${Math.max(x.n ? 1.5 : 0, (x.n / most) * (height - top))} rx="1.5" /></g>`)}
      <line class="zero" x1="0" x2=${width} y1=${height} y2=${height} />
      ${[['p50', d.p50], ['p90', d.p90]].map(([n, v]) => html`<g class="quantile"><line x1=${at(Number(v))} x2=${at(Number(v))} y1="2" y2=${height} />
        ${n === 'p50' && near && at(d.p50) < 26 ? null : html`<text data-testid="quantile" x=${at(Number(v)) + (n === 'p50' && near ? -3 : 3)} text-anchor=${n === 'p50' && near ? 'end' : 'start'} y="9">
        ${n}</text>`}</g>`)}
      <text class="ax" x="0" y=${height + 14}>${show(first > 0 ? (list[first - 1]?.le ?? 0) : 0)}</text>
        <text class="ax" x=${Math.max(60, shown.length * step)} y=${height + 14} text-anchor="end">
        ${show(shown[shown.length - 1]?.le ?? 0)}</text>` : null}</svg></div>
    <p class="num quantiles">${b ? html`<span>${plural(b.n, kind === 'tool' ? 'call' : 'turn')} up to <b>
      ${show(b.le)}</b></span>` : html`<span>p50 <b>${show(d.p50)}</b></span><span>p90 <b>${show(d.p90)}</b></span><span>p99 <b>
      ${show(d.p99)}</b></span><span>max <b>${show(d.max)}</b></span>`}</p></figure>`;
}

/** @param {{r: StatsReport, measure: string, setMeasure: (name: string) => void}} p */
function Groups({ r, measure, setMeasure }) {
  const ofTools = r.by === 'tool'; // a group is calls then: it has no turns, and no tokens
  const offered = ofTools ? measures.filter((x) => x.kind === 'tool') : measures;
  const m = /** @type {typeof measures[number]} */ (offered.find((x) => x.name === measure) ?? offered[0]);
  const most = Math.max(1, ...(r.groups ?? []).map((g) => m.of(g)?.max ?? 0));
  return html`<h2 class="section">By ${words(r.by)} <label class="field inline"><span>Measure</span>
    <select data-testid="stats-measure" value=${m.name} onChange=${(/** @type {Event} */ e) => setMeasure(/** @type {HTMLSelectElement} */ (e.target).value)}>
    ${offered.map((x) => html`<option value=${x.name}>${x.name}, ${x.unit}</option>`)}</select></label></h2>
    <div class="scroll" role="region" tabindex="0" aria-label=${'By ' + words(r.by)}><table class="table num" data-testid="stats-groups"><thead><tr>
      <th>${words(r.by)}</th>${ofTools ? html`<th class="r">Calls</th><th>How they ended</th>` : html`<th class="r">Turns</th><th class="r">Failed</th>`}
      <th class="r">Sum</th><th class="r">p50</th><th class="r">p90</th>
      <th class="spread">p50 – p90 – max</th>${ofTools ? null : html`<th class="r">Cost</th>`}</tr></thead><tbody>
      ${(r.groups ?? []).map((g) => { const d = m.of(g); return html`<tr><td title=${clean(g.name)}>
      ${clean(g.name) || html`<span class="faint">none</span>`}</td>
      ${ofTools ? html`<td class="r">${exact(g.tool_calls)}</td><td><${Outcomes} o=${g.tool_outcomes ?? {}} n=${g.tool_calls} /></td>` : html`<td class="r">
      ${exact(g.turns)}</td><td class=${'r' + (g.failed ? ' bad' : '')}>${g.failed || ''}</td>`}
      <td class="r">${d ? m.show(d.sum) : ''}</td><td class="r">${d ? m.show(d.p50) : ''}</td><td class="r">
      ${d ? m.show(d.p90) : ''}</td><td class="spread">
      ${d ? html`<span class=${'range k-' + m.kind} role="img" aria-label=${`p50 ${m.show(d.p50)}, p90 ${m.show(d.p90)}, at most ${m.show(d.max)}`}>
      <i class="all" style=${{ width: (d.max / most) * 100 + '%' }}></i><i class="p90" style=${{ width: (d.p90 / most) * 100 + '%' }}></i>
      <i class="p50" style=${{ width: (d.p50 / most) * 100 + '%' }}></i></span>` : null}</td>${ofTools ? null : html`<td class="r">
      ${g.cost?.map((c) => money(c.amount, c.currency)).join(' + ') ?? (g.computed_cost ? money(g.computed_cost.amount, g.computed_cost.currency) : '')}</td>`}</tr>`; })}</tbody></table></div>`;
}

/** @param {{o: Record<string, number>, n: number}} p */
function Outcomes({ o, n }) {
  const parts = Object.entries(o).filter(([, v]) => v).sort((a, b) => b[1] - a[1]);
  return html`<span class="outcomes"><span class="stack" role="img" aria-label=${parts.map(([k, v]) => `${v} ${words(k)}`).join(', ')}>
    ${parts.map(([k, v]) => html`<i class=${classOf('o', k || 'none')} style=${{ width: (v / n) * 100 + '%' }}></i>`)}</span>
    ${parts.filter(([k]) => k !== 'ok').map(([k, v]) => html`<${Chip} kind=${k === 'error' ? 'bad' : k === 'denied' ? 'deny' : ''}>
    ${exact(v)} ${words(k) || 'no end seen'}<//>`)}</span>`;
}
