// What differs between two sessions, runs or turns, turn by turn.
import { html, useMemo, useState } from './vendor/preact-htm.js';
import { useErased, useGet } from './api.js';
import { bytes, classOf, clean, duration, exact, inOut, money, plural, short, words } from './format.js';
import { useKeys } from './keys.js';
import { join, link, navigate, withQuery } from './router.js';
import { linesOf, Sides, Unified } from './difftext.js';
import { Chip, copyJSON, CopyJSON, Empty, Erased, Failure, Foreign, Icon, JSONText, Loading, TextInput, useTitle } from './ui.js';
import { Virtual } from './virtual.js';

/** @import {Change, Diff, DiffPair, DiffPlace, DiffSide, DiffUnknown, SessionList} from '../types.d.ts' */
/** @import {Place} from './router.js' */
/** @import {VirtualHandle} from './virtual.js' */

/** @param {{at: Place}} p */
export function DiffPage({ at }) {
  const a = at.query.get('a') ?? '';
  const b = at.query.get('b') ?? '';
  useTitle('Diff');
  if (!a || !b) return html`<${Pick} a=${a} b=${b} />`;
  return html`<${Compared} a=${a} b=${b} at=${at} />`;
}

/** @param {{a: string, b: string}} p */
function Pick({ a, b }) {
  const [q, setQ] = useState('');
  const { data, error, loading } = useGet(a ? 'ls' : null, { q, limit: 30 });
  const list = (/** @type {SessionList | undefined} */ (data)?.sessions ?? []).filter((s) => s.id !== a);
  /** @param {SubmitEvent} e */
  const submit = (e) => {
    e.preventDefault();
    const f = new FormData(/** @type {HTMLFormElement} */ (e.target));
    const [x, y] = [String(f.get('a')).trim(), String(f.get('b')).trim()];
    if (x && y) navigate(link('/diff', { a: x, b: y }));
  };
  useKeys({ Escape: () => history.back() });
  return html`<div class="page narrow"><h1>Diff</h1><p class="faint">Two sessions, runs or turns, by address: <code>SESSION[/RUN[/TURN]]</code>.</p>
    <form class="pick-form" onSubmit=${submit} data-testid="diff-form"><label>First <${TextInput} name="a" value=${a} required autofocus=${!a} /></label>
      <label>Second <${TextInput} name="b" value=${b} required autofocus=${Boolean(a)} /></label><button class="button primary">Diff</button></form>
    ${a ? html`<section><h2>With which one?</h2><label class="field wide"><${Icon} name="search" />
      <input data-search type="search" aria-label="Search sessions" placeholder="Title, id, agent or model" value=${q} onInput=${(/** @type {Event} */ e) => setQ(/** @type {HTMLInputElement} */ (e.target).value)} /></label>
      ${error ? html`<p class="bad-line" role="alert">${error.message}</p>` : !loading && !list.length ? html`<p class="faint">No other session is like that.</p>` : null}
      <ul class="pick-list">${list.map((s) => html`<li>
        <a href=${link('/diff', { a, b: s.id })} data-testid="diff-candidate"><b>${clean(s.title || s.id)}</b> <code>
        ${short(s.id)}</code> <span class="faint">
        ${clean(s.agent || s.agent_id)} · ${plural(s.turns, 'turn')}</span></a></li>`)}</ul></section>` : html`<p class="faint">Or choose two of the <a href=${link('/')}>list</a>.</p>`}
  </div>`;
}

/** @type {Record<string, [string, string]>} */
const states = { same: ['=', 'same'], changed: ['~', 'changed'], only_a: ['−', 'only in the first'], only_b: ['+', 'only in the second'], unknown: ['?', 'not known'] };
/** @param {string} s */
const stateOf = (s) => states[s] ?? states[s.replace(/[ -]/g, '_')] ?? ['?', words(s)];

/** Names of parts, as the command prints them. @type {Record<string, string>} */
const parts = { system: 'system prompt', tools: 'tools offered', params: 'parameters', calls: 'tool calls', results: 'tool results', request: 'earlier messages of the request' };
/** @param {string} p */
const partWord = (p) => parts[p] ?? words(p);

/** @typedef {{kind: 'run', run: DiffPair} | {kind: 'turn', turn: DiffPair, run: DiffPair} | {kind: 'same', n: number, at: number}} Item */

/** @param {{a: string, b: string, at: Place}} p */
function Compared({ a, b, at }) {
  const { data, error, loading } = useGet('diff', { a, b });
  const d = /** @type {Diff | undefined} */ (data);
  const erased = useErased(d ? [...new Set([d.a.session, d.b.session])] : []);
  const sides = at.query.get('view') !== 'unified';
  const all = at.query.get('all') === '1';
  const items = useMemo(() => {
    /** @type {Item[]} */
    const out = [];
    for (const run of d?.runs ?? []) {
      out.push({ kind: 'run', run });
      for (const turn of run.turns ?? []) {
        const last = out[out.length - 1];
        if (turn.state !== 'same' || all) out.push({ kind: 'turn', turn, run });
        else if (last?.kind === 'same') last.n++;
        else out.push({ kind: 'same', n: 1, at: out.length });
      }
    }
    return out;
  }, [d, all]);
  const handle = useMemo(() => ({ current: /** @type {VirtualHandle | null} */ (null) }), []);
  const [current, setCurrent] = useState(-1);
  const move = (/** @type {number} */ by) => {
    for (let i = current + by; i >= 0 && i < items.length; i += by) {
      const it = items[i];
      if (it?.kind !== 'turn' || it.turn.state === 'same') continue;
      setCurrent(i);
      handle.current?.scrollTo(i);
      return;
    }
  };
  const flip = () => navigate(withQuery({ view: sides ? 'unified' : undefined }), { replace: true });
  useKeys({ j: () => move(1), k: () => move(-1), v: flip, c: () => void copyJSON('diff', { a, b }), Escape: () => navigate(link('/')) });
  if (erased) return html`<${Erased} />`;
  if (!d) return error ? html`<${Failure} error=${error} />` : html`<${Loading} what="Comparing" />`;
  const c = d.counts;
  return html`<div class=${'page diff-page' + (loading ? ' stale' : '')}>
    <header class="page-head"><div class="session-title"><h1>Diff</h1>
      ${d.equal ? html`<${Chip} kind="good">nothing differs<//>` : html`<${Chip} kind="warn">they differ<//>`}<span class="grow"></span>
      <span class="buttons" role="group" aria-label="Layout">
        <button class=${'button seg' + (sides ? ' on' : '')} aria-pressed=${sides} data-testid="side-by-side" onClick=${() => sides || flip()}>Side by side</button>
        <button class=${'button seg' + (sides ? '' : ' on')} aria-pressed=${!sides} data-testid="unified" onClick=${() => sides && flip()}>Unified</button></span>
      <a class="button" href=${link('/diff', { a: b, b: a })}>Swap</a><${CopyJSON} path="diff" params=${{ a, b }} /></div>
      <div class="two"><${Side} s=${d.a} href=${hrefOfAddress(d, 'a', d.a.address)} sign="−" name="first" />
        <${Side} s=${d.b} href=${hrefOfAddress(d, 'b', d.b.address)} sign="+" name="second" /></div>
      <p class="counts num" data-testid="diff-counts">${c.same} same · <b class="chg">~ ${c.changed} changed</b>
        ${c.repeats ? html` <span class="faint">(${c.repeats} only as the turn before)</span>` : null} · <b class="del">− ${c.only_a} only in the first</b> · <b class="add">+ ${c.only_b} only in the second</b>
        ${c.unknown ? ` · ? ${c.unknown} not known` : ''}
        <span class="grow"></span>${c.same ? html`<a class="link" href=${withQuery({ all: all ? undefined : '1' })}>
          ${all ? 'Leave equal turns out' : 'Show equal turns too'}</a>` : null}</p>
      ${d.first ? html`<p class="note">They part at ${d.first.a ? html`<a href=${hrefOfAddress(d, 'a', d.first.a)}><code>
        ${shortAddress(d.first.a)}</code></a>` : 'nothing'} and ${d.first.b ? html`<a href=${hrefOfAddress(d, 'b', d.first.b)}><code>
        ${shortAddress(d.first.b)}</code></a>` : 'nothing'}${d.first.parts?.length ? ': ' + d.first.parts.map(partWord).join(', ') : ''}.</p>` : null}
      <${NotCompared} list=${d.not_compared} /></header>
    ${items.length ? html`<${Virtual} label="Turns, compared" testid="diff-turns" class="diff-list" top=${56} count=${items.length} handle=${handle} keyOf=${(/** @type {number} */ i) => `${all}${i}`} estimate=${(/** @type {number} */ i) => (items[i]?.kind === 'turn' ? 220 : 48)}
      row=${(/** @type {number} */ i) => {
        const it = items[i];
        if (!it) return null;
        if (it.kind === 'run') return html`<${RunRow} r=${it.run} sides=${sides} />`;
        if (it.kind === 'same') return html`<p class="same-line">= ${plural(it.n, 'turn')} the same</p>`;
        return html`<${TurnRow} t=${it.turn} d=${d} sides=${sides} current=${i === current} />`;
      }} />` : html`<${Empty} title="There is nothing to compare"><//>`}
  </div>`;
}

/**
 * Where a turn or a run is shown. Ids hold what they like, slashes too, so that no address is taken apart for it: numbers stand for them.
 * @param {string} session @param {DiffPlace | undefined} [x]
 */
const hrefOf = (session, x) => link('/s' + (x ? join(session, '@' + x.run, x.index) : join(session)));

/** What an address of one side stands for; the session where it is no run and no turn that was compared. @param {Diff} d @param {'a' | 'b'} side @param {string} address */
function hrefOfAddress(d, side, address) {
  for (const r of d.runs ?? []) {
    for (const x of [r[side], ...(r.turns ?? []).map((t) => t[side])]) if (x?.address === address) return hrefOf(d[side].session, x);
  }
  return hrefOf(d[side].session);
}
/** @param {string} address */
const shortAddress = (address) => {
  const [s, ...rest] = address.split('/');
  return [short(s ?? ''), ...rest.map((r) => short(r, 12))].join('/');
};

/** The title of a session, from the list: a diff does not have it. @param {string} session */
function useTitleOf(session) {
  const { data } = useGet('ls', { q: session, archived: '1', limit: 50 });
  return /** @type {SessionList | undefined} */ (data)?.sessions?.find((s) => s.id === session)?.title;
}

/** @param {{s: DiffSide, href: string, sign: string, name: string}} p */
function Side({ s, href, sign, name }) {
  const title = useTitleOf(s.session);
  return html`<section class="side" aria-label=${'The ' + name} data-testid="diff-side"><h2>
  <b aria-hidden="true" class=${sign === '+' ? 'add' : 'del'}>${sign}</b> <a href=${href}>
  ${title ? clean(title) : shortAddress(s.address)}</a> ${title ? html`<code>${shortAddress(s.address)}</code>` : null}</h2>
  <p class="session-sub num">${s.agent ? html`<span>${clean(s.agent)}</span>` : null}${s.model ? html`<span>${clean(s.model)}</span>` : null}${s.status ? html`<span>${words(s.status)}</span>` : null}<span>
    ${plural(s.turns, 'turn')}</span><span>${plural(s.calls, 'tool call')}</span><span>${inOut(s)}</span>
    ${s.took_ns ? html`<span>${duration(s.took_ns)}</span>` : null}${Object.entries(s.cost ?? {}).map(([cur, n]) => html`<span>
    ${money(n, cur)}</span>`)}</p></section>`;
}

/** @param {{list?: DiffUnknown[]}} p */
const NotCompared = ({ list }) => list?.length ? html`<details class="note" data-testid="not-compared"><summary>
  ${plural(list.length, 'part')} not compared</summary><ul>${list.map((u) => html`<li>
  ${partWord(u.part)}: ${words(u.why)}, ${u.side === 'both' ? 'on both sides' : u.side === 'a' ? 'in the first' : 'in the second'}${u.turns ? `, ${plural(u.turns, 'turn')}` : ''}</li>`)}</ul></details>` : null;

/** @param {{r: DiffPair, sides: boolean}} p */
function RunRow({ r, sides }) {
  const [sign, name] = stateOf(r.state);
  const head = r.a ?? r.b;
  return html`<section class=${'run-head ' + classOf('d', r.state)} data-testid="diff-run"><h3><b class="sign" aria-hidden="true">
    ${sign}</b> Run ${r.a?.run ?? '–'}${r.a?.run !== r.b?.run ? html` <span class="faint">and ${r.b?.run ?? '–'}</span>` : null}</h3>
    <${Chip}>${name}<//>${head?.relation ? html`<${Chip}>${words(head.relation)}<//>` : null}<span class="faint">
    ${clean(head?.agent)}${head?.model ? ' · ' + clean(head.model) : ''}</span>
    <div class="full"><${Changes} list=${r.changes} sides=${sides} />
      ${r.calls?.map((c) => html`<${CallRow} c=${c} sides=${sides} />`)}<${NotCompared} list=${r.not_compared} /></div></section>`;
}

/** @param {{t: DiffPair, d: Diff, sides: boolean, current: boolean}} p */
function TurnRow({ t, d, sides, current }) {
  const [sign, name] = stateOf(t.state);
  const repeated = new Set(t.repeats ?? []);
  return html`<article class=${'turn ' + classOf('d', t.state) + (current ? ' selected' : '')} data-testid="diff-turn" data-state=${clean(t.state)}><header><h3>
    <b class="sign" aria-hidden="true">${sign}</b> Turn ${t.a?.index ?? t.b?.index}</h3><${Chip}>${name}<//>
    ${t.parts?.map((p) => html`<${Chip} kind=${repeated.has(p) ? '' : 'info'}>${partWord(p)}${repeated.has(p) ? ' as before' : ''}<//>`)}
    <span class="grow"></span>
    <span class="figures num"><${TurnSide} t=${t.a} session=${d.a.session} sign="−" /><${TurnSide} t=${t.b} session=${d.b.session} sign="+" /></span></header>
    <${Changes} list=${t.changes} sides=${sides} />
    ${t.calls?.length ? html`<h4>Tool calls</h4>${t.calls.map((c) => html`<${CallRow} c=${c} sides=${sides} />`)}` : null}
    <${NotCompared} list=${t.not_compared} /></article>`;
}

/** @param {{t?: DiffPlace, session: string, sign: string}} p */
const TurnSide = ({ t, session, sign }) => t ? html`<a class="link" data-testid="diff-to-turn" href=${hrefOf(session, t)}>
  ${sign} ${inOut(t)}${t.took_ns ? ' · ' + duration(t.took_ns) : ''}</a>` : html`<span class="faint">
  ${sign} –</span>`;

/** Titles of the parts; those of other parts are their names. @type {Record<string, string>} */
const titles = { input: 'What was new', system: 'System prompt', tools: 'Tools', params: 'Parameters', thinking: 'The model', reply: 'The model' };

/** The fields that differ, by part. @param {{list?: Change[], sides: boolean, bare?: boolean}} p */
function Changes({ list = [], sides, bare }) {
  /** @type {Map<string, Change[]>} */
  const groups = new Map();
  for (const c of list) {
    const title = titles[c.part] ?? (c.part === 'cost' ? 'usage' : partWord(c.part));
    groups.set(title, [...(groups.get(title) ?? []), c]);
  }
  return html`${[...groups].map(([title, l]) => html`${bare ? null : html`<h4>${title[0]?.toUpperCase()}${title.slice(1)}</h4>`}
    ${l.map((c) => html`<${ChangeRow} c=${c} sides=${sides} />`)}`)}`;
}

/** @param {{c: Change, sides: boolean}} p */
function ChangeRow({ c, sides }) {
  const lines = useMemo(() => (c.text ? linesOf(c.text) : []), [c]);
  const label = html`<b><${Foreign} text=${c.path.replace(/^(params|outcome|args|input|output|usage|tools|compaction)\.?/, '') || 'all of it'} /></b> `;
  const t = c.text;
  if (t) {
    return html`<div class="text-diff"><p class="faint small">${label}${words(c.change)} <span class="num">
      ${c.change === 'added' ? bytes(t.after_bytes) : c.change === 'removed' ? bytes(t.before_bytes) : bytes(t.before_bytes) + ' → ' + bytes(t.after_bytes)}</span>
      ${t.cut ? ' · not all of it is shown' : ''}${t.coarse ? ' · compared coarsely' : ''}</p>
      ${lines.length ? (sides && c.change === 'changed' ? html`<${Sides} lines=${lines} />` : html`<${Unified} lines=${lines} />`) : null}</div>`;
  }
  if (c.digest_a || c.digest_b) return html`<p class="faint small">${label}${words(c.change)} · only digests are known, and they differ</p>`;
  if (c.a || c.b) return html`<p class="num">${words(c.change)}: message ${(c.b ?? c.a)?.position} ${c.b ? (c.a ? '' : 'only in the second') : 'only in the first'}</p>`;
  if (c.part === 'usage' || c.part === 'cost') {
    const [was, is] = [Number(c.before ?? 0), Number(c.after ?? 0)];
    return html`<p class="numbers num"><span>${label}${c.unit ? money(was, c.unit) : exact(was)} → ${c.unit ? money(is, c.unit) : exact(is)}${' '}
      <b class=${is > was ? 'up' : 'down'}>${is > was ? '+' : '−'}${exact(Math.abs(is - was))}</b></span></p>`;
  }
  return html`<dl class="values"><div><dt><code>${label}</code></dt><dd>
    ${c.before !== undefined ? html`<span class="v removed"><b aria-hidden="true">−</b> <${JSONText} value=${c.before} /></span>` : null}
    ${c.after !== undefined ? html`<span class="v added"><b aria-hidden="true">+</b> <${JSONText} value=${c.after} /></span>` : null}</dd></div></dl>`;
}

/** @param {{c: DiffPair, sides: boolean}} p */
function CallRow({ c, sides }) {
  const [sign, name] = stateOf(c.state);
  return html`<section class=${'call ' + classOf('d', c.state)} data-testid="diff-call"><header><b class="sign" aria-hidden="true">${sign}</b><h4>
    ${clean(c.name)}</h4><${Chip}>${name}<//><span class="grow"></span><span class="faint">
    ${c.a?.status ? '− ' + words(c.a.status) : ''} ${c.b?.status ? '+ ' + words(c.b.status) : ''}</span></header>
    <${Changes} list=${c.changes} sides=${sides} bare /><${NotCompared} list=${c.not_compared} /></section>`;
}
