// The list of sessions.
import { html, useEffect, useMemo, useRef, useState } from './vendor/preact-htm.js';
import { get, listen } from './api.js';
import { ago, between, clean, count, duration, exact, money, percent, plural, short, stamp, timeKnown, tokens, usageKnown } from './format.js';
import { useKeys } from './keys.js';
import { join, link, navigate, withQuery } from './router.js';
import { Chip, copyJSON, CopyJSON, Empty, Failure, Icon, Loading, Meter, Status, useNow, useTitle } from './ui.js';

/** @import {Summary, SessionList} from '../types.d.ts' */
/** @import {Place} from './router.js' */

const filters = ['q', 'agent', 'model', 'status', 'errors', 'denied', 'min_cost', 'since', 'until', 'archived', 'tenant'];
const statuses = ['busy', 'retrying', 'waiting_on_approval', 'waiting_on_user_input', 'idle', 'error', 'aborted'];
const spans = [['', 'any time'], ['1h', 'last hour'], ['24h', 'last day'], ['168h', 'last week'], ['720h', 'last 30 days']];
const pageSize = 50;

/**
 * The sessions that the URL's filters leave, page by page, and anew whenever one changes.
 * @param {Record<string, string>} query
 */
function useSessions(query) {
  const key = JSON.stringify(query);
  const [state, set] = useState(/** @type {{key?: string, list: Summary[], next?: string, error?: Error}} */ ({ list: [] }));
  const [more, setMore] = useState(false);
  const latest = useRef({ key, state });
  latest.current = { key, state };
  const load = async (/** @type {number} */ limit, /** @type {AbortSignal} */ signal) => {
    try {
      const page = /** @type {SessionList} */ (await get('ls', { ...query, limit }, signal));
      set({ key, list: page.sessions ?? [], next: page.next });
    } catch (error) {
      if (!signal.aborted) set((old) => ({ ...old, key, error: /** @type {Error} */ (error) }));
    }
  };
  useEffect(() => {
    const stop = new AbortController();
    const begin = setTimeout(() => load(pageSize, stop.signal), state.key === undefined ? 0 : 180); // while somebody types
    let waiting = false;
    let missed = document.hidden; // whether something may have changed while nobody listened
    const changed = () => {
      if (waiting) return;
      waiting = true;
      setTimeout(() => {
        waiting = false;
        if (!stop.signal.aborted && !document.hidden) void load(Math.max(pageSize, Math.min(500, latest.current.state.list.length)), stop.signal);
      }, 400);
    };
    const end = listen('events', {}, (event) => void (event === 'list' && changed()), (connected) => {
      if (connected && missed) changed();
      missed = !connected;
    });
    return () => {
      clearTimeout(begin);
      stop.abort();
      end();
    };
  }, [key]);
  const loadMore = async () => {
    if (!state.next || more || state.key !== key) return; // the cursor is of the list that is shown
    setMore(true);
    try {
      const page = /** @type {SessionList} */ (await get('ls', { ...query, limit: pageSize, after: state.next }));
      set((old) => (old.key === key ? { ...old, list: [...old.list, ...(page.sessions ?? []).filter((s) => !old.list.some((o) => o.id === s.id && o.tenant === s.tenant))], next: page.next } : old));
    } catch (error) {
      set((old) => ({ ...old, error: /** @type {Error} */ (error) }));
    }
    setMore(false);
  };
  return { ...state, loading: state.key !== key, more, loadMore };
}

/** @param {{at: Place}} p */
export function ListPage({ at }) {
  useTitle('Sessions');
  const now = useNow(5000);
  const query = useMemo(() => Object.fromEntries(filters.map((f) => [f, at.query.get(f) ?? '']).filter(([, v]) => v)), [at]);
  const { list, next, error, loading, more, loadMore } = useSessions(query);
  const [current, setCurrent] = useState(''); // the id of a session: live changes move rows
  const [chosen, setChosen] = useState(/** @type {string[]} */ ([]));
  const choose = (/** @type {string} */ id) => setChosen(chosen.includes(id) ? chosen.filter((c) => c !== id) : [...chosen.slice(-1), id]);
  const href = (/** @type {Summary} */ s) => link('/s' + join(s.id));
  const diff = () => chosen.length === 2 && navigate(link('/diff', { a: chosen[0] ?? '', b: chosen[1] ?? '' }));
  const here = () => list.find((s) => s.id === current);
  const move = (/** @type {number} */ by) => {
    const to = Math.max(0, Math.min(list.length - 1, list.findIndex((s) => s.id === current) + by));
    setCurrent(list[to]?.id ?? '');
    document.querySelector(`[data-row="${to}"]`)?.scrollIntoView({ block: 'nearest' });
  };
  useKeys({
    j: () => move(1), ArrowDown: () => move(1), k: () => move(-1), ArrowUp: () => move(-1),
    Enter: () => { const s = here(); if (s) navigate(href(s)); },
    x: () => { const s = here(); if (s) choose(s.id); },
    d: () => void diff(), n: () => void loadMore(), c: () => void copyJSON('ls', query),
    Escape: () => setChosen([]),
  });
  const filtered = Object.keys(query).some((k) => k !== 'tenant');
  return html`<div class="page list-page">
    <h1 class="offscreen">Sessions</h1>
    <${Filters} query=${query} list=${list} />
    ${error ? html`<${Failure} error=${error} />` : loading && !list.length ? html`<${Loading} what="Loading sessions" />` : !list.length ? html`<${Empty} title=${filtered ? 'No session is like that' : 'No sessions yet'}>
      ${filtered ? html`<p><a class="button" href=${link('/')}>Take the filters away</a></p>` : html`<p>Send some: <code>my-agent | otelagent send -</code>, or <code>otelagent demo</code>. They appear here by themselves.</p>`}<//>` : html`
    <div class=${'sessions' + (loading ? ' stale' : '')} role="table" aria-label="Sessions" aria-busy=${loading} data-testid="sessions">
      <div class="row head" role="row">
        ${['', 'Session', 'Status', 'Agent', 'Last', 'Took', 'Turns', 'Tools', 'Input', 'Cached', 'Output', 'Cost', 'Trouble'].map((h, i) => html`<span role="columnheader" class=${i > 4 ? 'r' : ''}>
        ${h || html`<span class="offscreen">Choose for a diff</span>`}</span>`)}</div>
      ${list.map((s, i) => html`<${Row} key=${(s.tenant ?? '') + '/' + s.id} s=${s} now=${now} href=${href(s)} current=${s.id === current} index=${i} chosen=${chosen.includes(s.id)} choose=${() => choose(s.id)} />`)}
    </div>
    <p class="more">${next ? html`<button class="button" data-testid="more" onClick=${loadMore}>
      ${more ? 'Loading…' : 'More sessions'}</button>` : html`<span class="faint">
      ${plural(list.length, 'session')}${at.query.get('archived') ? '' : ', archived ones left out'}</span>`}</p>`}
    ${chosen.length ? html`<div class="tray" role="region" aria-label="Diff of two sessions" data-testid="diff-tray">
      <span>${chosen.map((c) => html`<code>${short(c)}</code> `)}${chosen.length === 1 ? 'choose another one' : ''}</span>
      <button class="button primary" disabled=${chosen.length !== 2} onClick=${diff}><${Icon} name="diff" />Diff</button>
      <button class="ghost" aria-label="Choose none" onClick=${() => setChosen([])}><${Icon} name="close" /></button></div>` : null}
  </div>`;
}

/** @param {{s: Summary, now: number, href: string, current: boolean, index: number, chosen: boolean, choose: () => void}} p */
function Row({ s, now, href, current, index, chosen, choose }) {
  const u = s.usage;
  const known = usageKnown(s);
  const unknown = html`<span class="faint" title="The loop reports no tokens">–</span>`;
  const name = s.title || s.id;
  return html`<div class=${'row' + (current ? ' current' : '') + (chosen ? ' chosen' : '')} role="row" data-row=${index} data-testid="session-row" data-session=${s.id}>
    <span role="cell" class="pick"><input type="checkbox" checked=${chosen} onChange=${choose} aria-label=${'Choose ' + clean(name)} /></span>
    <span role="cell" class="name"><a href=${href} data-testid="session-link">${clean(name)}</a><span class="under">${s.title ? html`<code>
      ${short(s.id)}</code>` : null}${s.parent ? html`<${Chip} title="A session of a sub-agent">sub-agent<//>` : null}${s.archived ? html`<${Chip}>archived<//>` : null}</span></span>
    <span role="cell" class="st"><${Status} status=${s.status} testid="row-status" /></span>
    <span role="cell" class="who">${s.agent || s.agent_id ? html`<b>${clean(s.agent || s.agent_id)}</b>` : html`<span class="faint">not named${s.dialect ? ' · ' + clean(s.dialect) : ''}</span>`}<span class="faint">${clean(s.model)}</span></span>
    <span role="cell" class="when" title=${stamp(s.last)}>${timeKnown(s.last) ? ago(s.last, now) : html`<span class="faint" title="The recording has no times">–</span>`}</span>
    <span role="cell" class="r num" data-name="took">${timeKnown(s.start) ? duration(between(s.start, s.last)) : html`<span class="faint">–</span>`}</span>
    <span role="cell" class="r num" data-name="turns" title=${plural(s.runs, 'run')}>${count(s.turns)}</span>
    <span role="cell" class="r num" data-name="tools">${count(s.tool_calls)}</span>
    <span role="cell" class=${'r num' + (known ? '' : ' unknown')} data-name="in" title=${known ? exact(u.input) + ' tokens' : undefined}>${known ? tokens(u, u.input) : unknown}</span>
    <span role="cell" class="r num cached" data-name="cached">
      ${u.input ? html`<${Meter} share=${u.cache_read / u.input} label=${percent(u.cache_read / u.input) + ' of input from cache'} /><span>
      ${percent(u.cache_read / u.input)}</span>` : ''}</span>
    <span role="cell" class="r num" data-name="out" title=${known ? exact(u.output) + ' tokens' : undefined}>${known ? tokens(u, u.output) : unknown}</span>
    <span role="cell" class="r num" data-name="cost">
      ${s.currency ? money(s.cost, s.currency) : html`<span class="faint" title="The loop reports no cost">–</span>`}</span>
    <span role="cell" class="trouble num">
      ${trouble('bad', '✕', s.errors, 'error', 'failed turns and tool calls')}${trouble('deny', '⊘', s.denied, 'denial', 'denied tool calls and inputs')}${trouble('warn', '△', s.defects, 'defect', 'what the tree could not reconcile')}</span>
  </div>`;
}

/** @param {string} kind @param {string} sign @param {number} n @param {string} one @param {string} title */
const trouble = (kind, sign, n, one, title) => n ? html`<${Chip} kind=${kind} title=${plural(n, one) + ': ' + title}><span aria-hidden="true">
  ${sign}</span> ${count(n)}<span class="offscreen"> ${one}${n === 1 ? '' : 's'}</span><//>` : null;

/** @param {{query: Record<string, string>, list: Summary[]}} p */
function Filters({ query, list }) {
  const agents = useMemo(() => [...new Set(list.map((s) => s.agent || s.agent_id || '').filter(Boolean))].sort(), [list]);
  const models = useMemo(() => [...new Set(list.map((s) => s.model || '').filter(Boolean))].sort(), [list]);
  const set = (/** @type {Record<string, string | undefined>} */ changes) => navigate(withQuery(changes), { replace: true });
  const value = (/** @type {Event} */ e) => /** @type {HTMLInputElement} */ (e.target).value;
  const on = (/** @type {Event} */ e) => (/** @type {HTMLInputElement} */ (e.target).checked ? '1' : undefined);
  const some = Object.keys(query).some((k) => k !== 'tenant');
  return html`<form class="filters" role="search" aria-label="Filter sessions" data-testid="filters" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
    <label class="field wide"><${Icon} name="search" />
      <input data-search type="search" data-testid="filter-q" aria-label="Title, id, agent or model" placeholder="Title, id, agent or model" value=${query['q'] ?? ''} onInput=${(/** @type {Event} */ e) => set({ q: value(e) })} /></label>
    <label class="field"><span>Status</span>
      <select data-testid="filter-status" value=${query['status'] ?? ''} onChange=${(/** @type {Event} */ e) => set({ status: value(e) })}>
      <option value="">any</option>${(query['status'] && !statuses.includes(query['status']) ? [query['status'], ...statuses] : statuses).map((s) => html`<option value=${s}>${clean(s.replaceAll('_', ' ').replaceAll(',', ' or '))}</option>`)}</select></label>
    <label class="field"><span>Agent</span>
      <input data-testid="filter-agent" list="agents" size="9" value=${query['agent'] ?? ''} onInput=${(/** @type {Event} */ e) => set({ agent: value(e) })} placeholder="any" /></label>
    <label class="field"><span>Model</span>
      <input data-testid="filter-model" list="models" size="12" value=${query['model'] ?? ''} onInput=${(/** @type {Event} */ e) => set({ model: value(e) })} placeholder="any" /></label>
    <label class="field"><span>Since</span>
      <select data-testid="filter-since" value=${query['since'] ?? ''} onChange=${(/** @type {Event} */ e) => set({ since: value(e) })}>
      ${spans.map(([v, n]) => html`<option value=${v}>
      ${n}</option>`)}${query['since'] && !spans.some(([v]) => v === query['since']) ? html`<option value=${query['since']}>
      ${clean(query['since'])}</option>` : null}</select></label>
    <label class="field"><span>Cost from</span>
      <input data-testid="filter-cost" inputmode="decimal" size="4" value=${query['min_cost'] ?? ''} onInput=${(/** @type {Event} */ e) => set({ min_cost: value(e) })} placeholder="0" /></label>
    <label class="check"><input type="checkbox" data-testid="filter-errors" checked=${query['errors'] === '1'} onChange=${(/** @type {Event} */ e) => set({ errors: on(e) })} />errors</label>
    <label class="check"><input type="checkbox" data-testid="filter-denied" checked=${query['denied'] === '1'} onChange=${(/** @type {Event} */ e) => set({ denied: on(e) })} />denied</label>
    <label class="check"><input type="checkbox" data-testid="filter-archived" checked=${Boolean(query['archived'])} onChange=${(/** @type {Event} */ e) => set({ archived: on(e) })} />archived too</label>
    <span class="grow"></span>
    ${some ? html`<a class="button" href=${link('/')} data-testid="filters-clear">Clear</a>` : null}
    <${CopyJSON} path="ls" params=${query} small />
    <datalist id="agents">${agents.map((a) => html`<option value=${a} />`)}</datalist><datalist id="models">
      ${models.map((m) => html`<option value=${m} />`)}</datalist>
  </form>`;
}
