// The page of a session: what it is, when what happened, and the conversation turn by turn.
import { html, useEffect, useMemo, useRef, useState } from './vendor/preact-htm.js';
import { ago, between, clean, count, duration, exact, inOut, money, ms, percent, plural, short, stamp, timeKnown, tokens, tookOf, usageKnown, words } from './format.js';
import { useKeys } from './keys.js';
import { join, link, navigate, parts, pathOf } from './router.js';
import { goesOn, useSession } from './sessiondata.js';
import { Timeline } from './timeline.js';
import { TokenBars } from './tokens.js';
import { RunStatus, Turn } from './turn.js';
import { Chip, copy, copyJSON, CopyJSON, Empty, Erased, Failure, Findings, Foreign, Icon, JSONText, Loading, memo, Status, useNow, useTitle } from './ui.js';
import { Virtual } from './virtual.js';

/** @import {About, Outline, OutlineRun, OutlineTurn} from '../types.d.ts' */
/** @import {Place} from './router.js' */
/** @import {VirtualHandle} from './virtual.js' */

/** @typedef {{kind: 'run', run: OutlineRun} | {kind: 'turn', index: number} | {kind: 'hidden', at: string, count: number}} Item */

/**
 * What stands in the list and in the conversation: heads of runs, turns, and hidden history as one line unless it is asked for.
 * @param {Outline} outline
 * @param {boolean} hidden
 * @returns {Item[]}
 */
function itemsOf(outline, hidden) {
  /** @type {Map<number, number[]>} */
  const byRun = new Map();
  (outline.turns ?? []).forEach((t, i) => {
    const list = byRun.get(t.run);
    if (list) list.push(i);
    else byRun.set(t.run, [i]);
  });
  /** @type {Item[]} */
  const out = [];
  const hide = (/** @type {string} */ at, /** @type {number} */ count) => {
    const last = out[out.length - 1];
    if (last?.kind === 'hidden') last.count += count;
    else out.push({ kind: 'hidden', at, count });
  };
  for (const run of outline.runs ?? []) {
    const turns = byRun.get(run.number) ?? [];
    if (run.hidden && !hidden) {
      hide('run' + run.number, turns.length);
      continue;
    }
    out.push({ kind: 'run', run });
    const apart = (/** @type {number} */ i) => Number(Boolean(outline.turns?.[i]?.purpose)); // the conversation comes first
    for (const index of turns.sort((a, b) => apart(a) - apart(b))) {
      if (outline.turns?.[index]?.hidden && !hidden) hide('turn' + index, 1);
      else out.push({ kind: 'turn', index });
    }
  }
  return out;
}

/**
 * @param {Outline} outline
 * @param {string | undefined} run as the URL has it: an id, or @ and a number
 * @param {string | undefined} turn
 */
function findTurn(outline, run, turn) {
  if (run === undefined) return -1;
  const turns = outline.turns ?? [];
  const matches = (/** @type {OutlineTurn} */ t) => {
    const p = parts(t.address);
    return p.run === run || '@' + t.run === run || outline.runs?.[t.run - 1]?.id === run;
  };
  return turns.findIndex((t) => (turn === undefined || String(t.index) === turn) && matches(t));
}

/**
 * Whether a session whose status is open was last heard of so long ago that it hardly runs: for three heartbeats, as they are where nobody
 * says otherwise. Of one with heartbeats the status says it (session.Summary.StatusAt).
 * @param {Outline | undefined} outline
 * @param {number} now
 */
const silent = (outline, now) => outline !== undefined && !outline.summary.heartbeat_ns && now - ms(outline.summary.last) > 45_000;

/** @param {{session: string, run?: string, turn?: string, at: Place, about: About}} p */
export function SessionPage({ session, run, turn, at, about }) {
  const data = useSession(session);
  const { outline } = data;
  const now = useNow(goesOn(data.status ?? outline?.status) ? 1000 : 15000);
  const live = goesOn(data.status ?? outline?.status) && !silent(outline, now);
  const id = outline?.summary.id ?? session;
  useTitle(outline ? outline.summary.title || short(id, 12) : 'Session');
  // How far an open turn is drawn: to now, or to the last that was heard of a session that does not run.
  const edge = live || !outline ? now : ms(outline.summary.last);
  const [showHidden, setHidden] = useState(false);
  const [open, setOpen] = useState(/** @type {Set<string>} */ (new Set()));
  const [follow, setFollow] = useState(run === undefined);
  const [rail, setRail] = useState(false);
  const items = useMemo(() => (outline ? itemsOf(outline, showHidden) : []), [outline, showHidden]);
  const selected = useMemo(() => (outline ? findTurn(outline, run, turn) : -1), [outline, run, turn]);
  const feed = useRef(/** @type {VirtualHandle | null} */ (null));
  const list = useRef(/** @type {VirtualHandle | null} */ (null));
  const scrolledTo = useRef(-2);
  const userScrolled = useRef(0);
  const strip = useRef(/** @type {HTMLElement | null} */ (null));
  const turns = outline?.turns ?? [];
  const largest = useMemo(() => turns.reduce((m, t) => Math.max(m, t.usage.input), 0), [outline]);
  const order = useMemo(() => items.flatMap((it) => (it.kind === 'turn' ? [it.index] : [])), [items]);
  const itemOf = useMemo(() => new Map(items.map((it, i) => [it.kind === 'turn' ? it.index : it.kind === 'run' ? -it.run.number - 1 : -1e9, i])), [items]);

  const query = () => location.search;
  /** @param {number} index @param {boolean} [quiet] whether it is only where the reader is */
  const select = (index, quiet) => {
    const t = turns[index];
    if (!t) return;
    if (t.hidden || outline?.runs?.[t.run - 1]?.hidden) setHidden(true);
    if (quiet) scrolledTo.current = index;
    else if (index === selected) feed.current?.scrollTo(itemOf.get(index) ?? 0);
    navigate('/s' + pathOf(t.address) + query(), { replace: true });
    setRail(false);
  };

  // The conversation goes to the turn of the URL, unless the URL followed the conversation.
  useEffect(() => {
    if (!outline) return;
    if (selected >= 0 && (turns[selected]?.hidden || outline.runs?.[(turns[selected]?.run ?? 0) - 1]?.hidden) && !showHidden) return setHidden(true);
    const item = itemOf.get(selected);
    if (item === undefined) return;
    if (scrolledTo.current !== selected) feed.current?.scrollTo(item);
    scrolledTo.current = selected;
    list.current?.scrollTo(item, 'nearest');
  }, [selected, outline !== undefined, showHidden]);
  useEffect(() => {
    const f = () => void (userScrolled.current = Date.now());
    for (const e of ['wheel', 'touchmove', 'pointerdown']) addEventListener(e, f, { passive: true });
    const key = (/** @type {KeyboardEvent} */ e) => ['PageDown', 'PageUp', 'ArrowDown', 'ArrowUp', ' '].includes(e.key) && f();
    addEventListener('keydown', key);
    return () => {
      for (const e of ['wheel', 'touchmove', 'pointerdown']) removeEventListener(e, f);
      removeEventListener('keydown', key);
    };
  }, []);
  const settle = useRef(/** @type {number | undefined} */ (undefined));
  const latest = useRef(select);
  latest.current = select;
  /** @param {number} first @param {number} last @param {number} current */
  const seen = (first, last, current) => {
    const shown = items.slice(first, last + 1).flatMap((it) => (it.kind === 'turn' ? [it.index] : []));
    if (shown.length) data.need(Math.min(...shown) - 2, Math.max(...shown) + 4);
    clearTimeout(settle.current);
    settle.current = setTimeout(() => {
      if (Date.now() - userScrolled.current > 1500 || !strip.current || strip.current.getBoundingClientRect().top > 60) return;
      const it = items[current] ?? items[current + 1];
      const next = it?.kind === 'turn' ? it.index : items.slice(current).find((x) => x.kind === 'turn')?.index;
      if (next !== undefined && next !== selected) latest.current(next, true);
    }, 160);
  };

  // Following: the newest turn is the one that is shown.
  const newest = order[order.length - 1] ?? -1;
  const followed = useRef(-1);
  useEffect(() => {
    if (live && follow && newest >= 0 && followed.current >= 0 && newest !== followed.current) select(newest);
    followed.current = newest;
  }, [newest, live]);

  /** @param {number} by */
  const step = (by) => {
    const at = order.indexOf(selected);
    const to = order[Math.max(0, Math.min(order.length - 1, at < 0 ? (by > 0 ? 0 : order.length - 1) : at + by))];
    if (to !== undefined) select(to);
    if (by < 0) setFollow(false);
  };
  /** @param {number} by */
  const stepRun = (by) => {
    const heads = items.flatMap((it, i) => {
      const next = items[i + 1];
      return it.kind === 'run' && next?.kind === 'turn' ? [next.index] : [];
    });
    const at = selected < 0 ? -1 : heads.reduce((found, h, i) => (order.indexOf(h) <= order.indexOf(selected) ? i : found), -1);
    const to = heads[by < 0 && heads[at] !== selected && at >= 0 ? at : Math.max(0, Math.min(heads.length - 1, at + by))];
    if (to !== undefined) select(to);
  };
  const address = selected >= 0 ? turns[selected]?.address : undefined;
  const path = address !== undefined ? pathOf(address) : undefined;
  /** @param {string} key */
  const toggle = (key) => setOpen((old) => {
    const next = new Set(old);
    if (!next.delete(key)) next.add(key);
    return next;
  });
  useKeys({
    j: () => step(1), k: () => step(-1), ']': () => stepRun(1), '[': () => stepRun(-1),
    Home: () => { const f = order[0]; if (f !== undefined) select(f); }, End: () => { if (newest >= 0) select(newest); },
    e: () => (address !== undefined ? toggle(address) : false), r: () => (path ? navigate(link('/s' + path + '/request')) : false), p: () => (path ? navigate(link('/s' + path + '/replay')) : false),
    Enter: () => (address !== undefined ? toggle(address) : false),
    c: () => void (path ? copyJSON('turn' + path) : copyJSON('show' + join(id))), d: () => navigate(link('/diff', { a: id })),
    h: () => setHidden(!showHidden), o: () => setRail(!rail), f: () => setFollow(!follow),
    Escape: () => { if (rail) setRail(false); else if (run !== undefined) { navigate('/s' + join(id) + query(), { replace: true }); scrollTo(0, 0); } else navigate(link('/')); },
  });

  if (data.erased) return html`<${Erased} />`;
  if (!outline) return data.error ? html`<${Failure} error=${data.error} retry=${data.reload} />` : html`<${Loading} what="Loading the session" />`;
  const status = data.status ?? outline.status;
  const hiddenTurns = turns.filter((t) => t.hidden || outline.runs?.[t.run - 1]?.hidden).length;
  const position = order.indexOf(selected);
  return html`<div class="session-page">
    <nav class=${'rail' + (rail ? ' on' : '')} aria-label="Turns" data-testid="rail">
      <header><h2>Turns</h2><span class="faint num">${exact(turns.length)}</span><span class="grow"></span>
        ${hiddenTurns ? html`<button class="link" aria-pressed=${showHidden} data-testid="show-hidden" onClick=${() => setHidden(!showHidden)}>
        ${showHidden ? 'Hide' : 'Show'} rewound</button>` : null}<button class="ghost only-small" aria-label="Close" onClick=${() => setRail(false)}>
        <${Icon} name="close" /></button></header>
      <${Virtual} own label="Turns" testid="turn-list" class="rail-list" count=${items.length} handle=${list} keyOf=${(/** @type {number} */ i) => keyOf(items[i])} estimate=${(/** @type {number} */ i) => (items[i]?.kind === 'turn' ? 54 : 40)}
        row=${(/** @type {number} */ i) => html`<${RailRow} item=${items[i]} outline=${outline} selected=${items[i]?.kind === 'turn' && items[i].index === selected} select=${(/** @type {number} */ index) => latest.current(index)} showHidden=${() => setHidden(true)} largest=${largest} />`} />
    </nav>
    <div class="session-main">
      <${Head} outline=${outline} status=${status} now=${now} edge=${edge} connected=${data.connected} live=${live} />
      ${run !== undefined && selected < 0 ? html`<p class="note warn" role="alert" data-testid="failure">This session has no turn ${clean(turn ?? '')} of run ${clean(run)}. <a href=${link('/s' + join(id))}>The whole session</a></p>` : null}
      ${data.error ? html`<p class="bad-line" role="alert">Not up to date: ${data.error.message}</p>` : null}
      ${turns.length || outline.runs?.length ? html`
      <${Timeline} outline=${outline} selected=${selected} select=${select} zoom=${at.query.get('zoom')} idle=${at.query.get('idle') === '1'} now=${live ? edge : 0} />
      ${turns.some(usageKnown) ? html`<${TokenBars} outline=${outline} selected=${selected} select=${select} />` : null}
      <div class="strip" ref=${strip} role="toolbar" aria-label="Conversation">
        <button class="ghost only-small" aria-label="List of turns" aria-expanded=${rail} data-testid="rail-open" onClick=${() => setRail(true)}>
          <${Icon} name="list" /></button>
        <${Status} status=${status} /><b class="strip-title">${clean(outline.summary.title || short(id, 12))}</b><span class="grow"></span>
        ${live ? html`<label class="check small">
          <input type="checkbox" data-testid="follow" checked=${follow} onChange=${() => setFollow(!follow)} />follow</label>` : null}
        <span class="num faint" data-testid="position">
          ${position >= 0 ? `${exact(position + 1)} of ${exact(order.length)}` : plural(order.length, 'turn') + (hiddenTurns && !showHidden ? ` and ${exact(hiddenTurns)} rewound` : '')}</span>
        <button class="ghost" aria-label="Previous turn" title="Previous turn (k)" data-testid="previous" onClick=${() => step(-1)}>
          <${Icon} name="left" /></button>
          <button class="ghost" aria-label="Next turn" title="Next turn (j)" data-testid="next" onClick=${() => step(1)}>
          <${Icon} name="right" /></button>
      </div>
      <${Virtual} label="Conversation" testid="conversation" class="feed" top=${100} count=${items.length} handle=${feed} seen=${seen} keyOf=${(/** @type {number} */ i) => keyOf(items[i])} estimate=${(/** @type {number} */ i) => guess(items[i], outline)}
        row=${(/** @type {number} */ i) => {
          const it = items[i];
          if (!it) return null;
          if (it.kind === 'run') return html`<${RunHead} run=${it.run} outline=${outline} />`;
          if (it.kind === 'hidden') return html`<button class="hidden-line" onClick=${() => setHidden(true)}>
            ${plural(it.count, 'turn')} rewound: hidden history, not deleted <b>Show</b></button>`;
          const a = turns[it.index]?.address ?? '';
          return html`<${Turn} session=${id} outline=${outline} index=${it.index} view=${data.turn(it.index)} error=${data.failed(it.index)} selected=${it.index === selected} open=${open.has(a)} toggle=${() => toggle(a)} select=${() => latest.current(it.index, true)} about=${about} now=${turns[it.index]?.state === 'open' || turns[it.index]?.live ? edge : 0} />`;
        }} />` : html`<${Empty} title="Nothing has run yet"><p>Turns appear here by themselves.</p><//>`}
    </div></div>`;
}

/** @param {Item | undefined} it */
const keyOf = (it) => (!it ? '' : it.kind === 'turn' ? it.index : it.kind === 'run' ? 'run' + it.run.number : 'hidden' + it.at);

/**
 * How tall a turn will be, roughly.
 * @param {Item | undefined} it
 * @param {Outline} outline
 */
function guess(it, outline) {
  if (it?.kind !== 'turn') return 52;
  const t = outline.turns?.[it.index];
  return 230 + 190 * (t?.calls?.length ?? 0);
}

/** @param {{run: OutlineRun, outline: Outline}} p */
function RunHead({ run, outline }) {
  const parent = run.parent ? outline.runs?.[run.parent - 1] : undefined;
  const spawn = run.spawned_by ? parts(run.spawned_by) : undefined;
  return html`<section class=${'run-head' + (run.hidden ? ' rewound' : '')} aria-label=${'Run ' + run.number} data-testid="run">
    <h3>Run ${run.number}</h3><${RunStatus} status=${run.status} word=${run.status_word} />
    ${run.relation ? html`<${Chip}>
      ${words(run.relation)}${parent ? ` of run ${parent.number}`.replace('of run', run.relation === 'continues' ? 'run' : 'of run') : ''}<//>` : null}${run.hidden ? html`<${Chip} kind="warn" title="hidden history, not deleted">rewound<//>` : null}${run.copied ? html`<${Chip} title="taken over from the session it was forked from; counted there">copied<//>` : null}${run.group ? html`<${Chip}>
      ${words(run.group)}<//>` : null}
    <span class="faint">${clean(run.agent)}${run.model ? ' · ' + clean(run.model) : ''}</span>
      ${spawn ? html`<a class="link" href=${link('/s' + join(spawn.session, spawn.run, spawn.turn))}>spawned by ${spawn.turn === undefined ? 'run ' + clean(spawn.run?.slice(1)) : 'turn ' + spawn.turn}</a>` : null}
    <span class="grow"></span><span class="faint num">
      ${timeKnown(run.start) ? stamp(run.start) + (run.end ? ' · ' + duration(between(run.start, run.end)) : '') + (run.estimated ? ' at least' : '') : 'times not reported'} · ${plural(run.turns, 'turn')} · ${inOut(run)}</span>
    ${run.error ? html`<p class="bad-line">${clean(run.error)}</p>` : null}<${Findings} findings=${run.defects} /></section>`;
}

/** @param {{item: Item | undefined, outline: Outline, selected: boolean, select: (index: number) => void, showHidden: () => void, largest: number}} p */
function Row({ item, outline, selected, select, showHidden, largest }) {
  if (!item) return null;
  if (item.kind === 'hidden') return html`<button class="rail-hidden" onClick=${showHidden}>${plural(item.count, 'turn')} rewound</button>`;
  if (item.kind === 'run') {
    const r = item.run;
    return html`<div class=${'rail-run' + (r.hidden ? ' rewound' : '') + (r.relation === 'sub-agent' ? ' nested' : '')}><b>Run ${r.number}</b>
      <span class="faint">${r.relation === 'sub-agent' ? 'sub-agent ' + clean(r.agent) : words(r.relation)}</span><span class="grow"></span>
      <${RunStatus} status=${r.status} /></div>`;
  }
  const t = outline.turns?.[item.index];
  if (!t) return null;
  const r = outline.runs?.[t.run - 1];
  const state = t.failed ? ' failed' : t.state === 'open' || t.live ? ' open' : t.state ? ' closed' : '';
  const most = Math.max(1, largest);
  return html`<a class=${'rail-turn' + state + (selected ? ' selected' : '') + (r?.relation === 'sub-agent' ? ' nested' : '')} href=${link('/s' + pathOf(t.address))} aria-current=${selected ? 'true' : undefined} data-testid="rail-turn"
    onClick=${(/** @type {MouseEvent} */ e) => { if (e.ctrlKey || e.metaKey || e.shiftKey) return; e.preventDefault(); select(item.index); }}>
    <span class="rail-top"><b class="num">${t.index}</b>
      ${t.trigger === 'user' ? html`<i class="tag">user</i>` : null}${t.purpose ? html`<i class="tag">${words(t.purpose)}</i>` : null}${t.failed ? html`<i class="tag bad">failed</i>` : null}${t.state === 'open' || t.live ? html`<i class="tag info">running</i>` : null}${(t.attempts ?? 0) > 1 ? html`<i class="tag warn">
      ${t.attempts}×</i>` : null}${t.marks?.some((m) => m.kind === 'compaction') ? html`<i class="tag comp" title="compaction">◆</i>` : null}${t.marks?.some((m) => m.action === 'deny') || t.calls?.some((c) => c.outcome === 'denied') ? html`<i class="tag deny">denied</i>` : null}${t.calls?.some((c) => c.outcome === 'error') ? html`<i class="tag bad">tool error</i>` : null}${t.defects ? html`<i class="tag warn" data-testid="rail-defect" title=${plural(t.defects, 'defect')}>△</i>` : null}
      <span class="grow"></span><span class="num faint">${duration(tookOf(t, outline.summary.start))}</span></span>
    <span class="rail-text">${clean(t.text) || (t.calls?.length ? t.calls.map((c) => clean(c.name)).join(', ') : '–')}</span>
    <span class="rail-bar" aria-hidden="true"><i class="t-read" style=${{ width: Math.min(100, (t.usage.cache_read / most) * 100) + '%' }}></i>
      <i class="t-input" style=${{ width: Math.min(100, ((t.usage.input - t.usage.cache_read) / most) * 100) + '%' }}></i></span></a>`;
}

const RailRow = memo(Row, ['item', 'outline', 'selected']);

/** @param {{outline: Outline, status: string, now: number, edge: number, connected: boolean, live: boolean}} p */
function Head({ outline, status, now, edge, connected, live }) {
  const s = outline.summary;
  const u = s.usage;
  const known = usageKnown(s) || (outline.runs ?? []).some(usageKnown);
  const inTurns = outline.turn_defects ?? [];
  const beyond = (outline.turns ?? []).reduce((n, t) => n + (t.defects ?? 0), 0) - inTurns.length;
  const defects = (outline.defects ?? []).length + (outline.runs ?? []).reduce((n, r) => n + (r.defects?.length ?? 0), 0) + inTurns.length + beyond;
  const end = live ? new Date(edge).toISOString() : s.last;
  const took = between(s.start, end);
  const modelNS = (outline.turns ?? []).reduce((n, t) => n + (t.model_call_ns ?? 0), 0);
  /** @param {string} name @param {unknown} value @param {unknown} [under] @param {string} [kind] */
  const figure = (name, value, under, kind) => html`<div class=${'figure ' + (kind ?? '')}><dt>${name}</dt><dd><span class="num">${value}</span>
    ${under ? html`<small class="num">${under}</small>` : null}</dd></div>`;
  const copyId = html`<button class="ghost tiny" aria-label="Copy the id" title="Copy the id" onClick=${() => copy(s.id, 'Id')}>
    <${Icon} name="copy" /></button>`;
  return html`<header class="session-head">
    <div class="session-title"><h1 data-testid="session-title">${clean(s.title || s.id)}</h1>${s.title ? null : copyId}
      <${Status} status=${status} testid="session-status" />
      ${live ? html`<span class=${'live-dot' + (connected ? ' on' : '')} title=${connected ? 'Changes appear by themselves' : 'Not connected: changes do not appear'}>
        ${connected ? 'live' : 'not connected'}</span>` : null}${s.archived ? html`<${Chip}>archived<//>` : null}
      <span class="grow"></span>
      <a class="button" href=${link('/diff', { a: s.id })} title="Diff with another session (d)">
        <${Icon} name="diff" />Diff with…</a><${CopyJSON} path=${'show' + join(s.id)} /></div>
    <p class="session-sub">${s.title ? html`<span><code>${clean(s.id)}</code> ${copyId}</span>` : null}
      ${s.agent || s.agent_id ? html`<span>${clean(s.agent || s.agent_id)}</span>` : html`<span class="faint">agent not named</span>`}${s.model ? html`<span>${clean(s.model)}</span>` : null}${s.dialect ? html`<span title="what the recording is written in">
        ${outline.origin ? 'from ' + clean(outline.origin.name) + (outline.origin.lacks ? '; not reported: ' + clean(outline.origin.lacks.join(', ')) : '') : 'dialect ' + clean(s.dialect)}</span>` : null}<span title=${stamp(s.last)}>${timeKnown(s.start) ? `${stamp(s.start)}, last ${ago(s.last, now)}` : timeKnown(s.last) ? 'last ' + ago(s.last, now) : 'times not reported'}</span>
        ${s.parent ? html`<a class="link" href=${link('/s' + join(s.parent))}>parent session ${short(s.parent)}</a>` : null}${outline.fork ? html`<a class="link" href=${link('/s' + join(outline.fork.session))} data-testid="forked-from">forked from ${short(outline.fork.session)}</a>` : null}</p>
    <p class="offscreen" role="status" aria-live="polite">Status: ${words(status)}. ${plural(s.turns, 'turn')}.</p>
    <dl class="figures-row" data-testid="figures">
      ${figure('Turns', count(s.turns), plural(s.runs, 'run'))}
      ${figure('Tool calls', count(s.tool_calls), outline.tools?.length ? plural(outline.tools.length, 'tool') : undefined)}
      ${figure('Input', known ? tokens(u, u.input) : '–', known ? (u.input ? percent(u.cache_read / u.input) + ' from cache' : undefined) : 'not reported')}
      ${figure('Output', known ? tokens(u, u.output) : '–', known ? (u.reasoning ? count(u.reasoning) + ' reasoning' : undefined) : 'not reported')}
      ${figure('Cost', s.currency ? money(s.cost, s.currency) : '–', s.currency ? undefined : 'not reported')}
      ${figure('Took', took === undefined ? '–' : duration(took), modelNS ? 'model ' + duration(modelNS) : took === undefined ? 'times not reported' : undefined)}
      ${figure('Errors', count(s.errors), s.denied ? s.denied + ' denied' : undefined, s.errors ? 'bad' : '')}
      ${figure('Defects', count(s.defects), undefined, s.defects ? 'warn' : '')}
    </dl>
    ${outline.captured ? null : html`<p class="note">No content of this session was captured: sizes, times and names are all there is. <code>--capture content</code> records it.</p>`}
    <div class="session-more">
      ${defects ? html`<details data-testid="defects" open=${defects <= 2}><summary>${plural(defects, 'finding')}</summary>
        <${Findings} findings=${[...(outline.defects ?? []), ...(outline.runs ?? []).flatMap((r) => r.defects ?? [])]} />
        ${inTurns.length ? html`<ul class="findings">${inTurns.map((f) => { const t = outline.turns?.[f.turn]; return t ? html`<li class="defect">
          <a href=${link('/s' + pathOf(t.address))} data-testid="turn-defect">run ${t.run}, turn ${t.index}</a> <b>Defect</b> <${Foreign} text=${f.text} /> <code>
          ${clean(f.code)}</code></li>` : null; })}${beyond ? html`<li class="faint">and ${count(beyond)} more: the turns of △</li>` : null}</ul>` : null}</details>` : null}
      ${outline.tools?.length ? html`<details data-testid="session-tools"><summary>${plural(outline.tools.length, 'tool')} called</summary>
        <table class="num plain"><thead><tr><th>tool</th><th class="r">calls</th><th class="r">failed</th><th class="r">denied</th></tr></thead>
        <tbody>${outline.tools.map((t) => html`<tr><td>${clean(t.name)}</td><td class="r">${count(t.calls)}</td>
        <td class=${'r' + (t.failed ? ' bad' : '')}>${t.failed ?? ''}</td><td class="r">
        ${t.denied ?? ''}</td></tr>`)}</tbody></table></details>` : null}
      ${outline.facts?.length ? html`<details data-testid="facts"><summary>${plural(outline.facts.length, 'fact')}</summary><dl class="facts-list">
        ${outline.facts.map((f) => html`<div><dt>${clean(f.subject)} · ${words(f.key)} <span class="faint num">${stamp(f.at)}</span></dt><dd><${FactValue} f=${f} /></dd></div>`)}</dl></details>` : null}
      ${outline.children?.length ? html`<details data-testid="children"><summary>${plural(outline.children.length, 'related session')}</summary>
        <ul class="children">${outline.children.map((c) => html`<li><${Chip}>${words(c.kind)}<//><a href=${link('/s' + (c.run === undefined ? join(c.session) : pathOf(c.run)))}>
        ${clean(c.agent) || short(c.session)}</a> <code>${short(c.session)}</code>
        ${c.status ? html`<${Status} status=${c.status} />` : null}${c.from ? html`<span class="faint">from ${turnWords(c.from)}</span>` : null}${c.kind === 'fork' ? html`<a class="link" href=${link('/diff', { a: s.id, b: c.session })}>diff</a>` : null}</li>`)}</ul></details>` : null}
      ${outline.messages?.length ? html`<details data-testid="messages"><summary>
        ${plural(outline.messages.length, 'message')} rewound or queued</summary><ul class="children">${outline.messages.map((m) => html`<li><code>
        ${short(m.id, 16)}</code>${m.waiting ? html`<${Chip} kind="wait">waits for its turn<//>` : null}${m.hidden ? html`<span>rewound <span class="faint num">
        ${stamp(m.hidden)}</span></span>` : null}${m.canceled ? html`<span>taken off the queue <span class="faint num">
        ${stamp(m.canceled)}</span></span>` : null}${m.queued ? html`<span>queued <span class="faint num">
        ${stamp(m.queued)}</span></span>` : null}${m.run ? html`<span class="faint">run ${m.run}</span>` : null}</li>`)}</ul></details>` : null}
      ${outline.marks?.length ? html`<details><summary>${plural(outline.marks.length, 'mark')} outside turns</summary><ul class="children">
        ${outline.marks.map((m) => html`<li><${Chip}>${words(m.kind)}<//>${clean(m.text)} <span class="faint num">
        ${stamp(m.at)}</span></li>`)}</ul></details>` : null}
    </div></header>`;
}

/** The value of a fact: times of hosts are milliseconds since 1970, and null takes back what was said before. @param {{f: import('../types.d.ts').OutlineFact}} p */
function FactValue({ f }) {
  if (f.value === null) return html`<span class="faint">none</span>`;
  const at = f.key.endsWith('_at') && typeof f.value === 'number' && f.value > 1e12 && f.value < 1e14 ? new Date(f.value).toISOString() : undefined;
  return at ? html`<span class="num">${stamp(at)}</span>` : html`<pre><${JSONText} value=${f.value} /></pre>`;
}

/** @param {string} address */
function turnWords(address) {
  const { run = '', turn } = parts(address);
  return `run ${run.slice(1)}` + (turn === undefined ? '' : `, turn ${turn}`);
}
