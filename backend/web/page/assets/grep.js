// Search in what was captured.
import { html, useEffect, useState } from './vendor/preact-htm.js';
import { ApiError, get, listen, useGet } from './api.js';
import { clean, plural, short, words } from './format.js';
import { useKeys } from './keys.js';
import { join, link, navigate, pathOf, withQuery } from './router.js';
import { Chip, copyJSON, CopyJSON, Empty, Failure, Foreign, Icon, Loading, TextInput, useTitle } from './ui.js';

/** @import {Hit, SearchResult} from '../types.d.ts' */
/** @import {Place} from './router.js' */

/** @param {{at: Place}} p */
export function GrepPage({ at }) {
  const q = at.query.get('q') ?? '';
  const session = at.query.get('session') ?? '';
  useTitle(q ? 'Find ' + q : 'Find');
  const params = { q, session, limit: 200 };
  const { data, error, loading } = useGet(q ? 'grep' : null, params);
  const [current, setCurrent] = useState(-1);
  useEffect(() => setCurrent(-1), [q, session]);
  const found = /** @type {SearchResult | undefined} */ (data);
  const gone = useGone(found);
  const matches = (found?.hits ?? []).filter((m) => !gone.has(m.session));
  const move = (/** @type {number} */ by) => {
    const to = Math.max(0, Math.min(matches.length - 1, current + by));
    setCurrent(to);
    document.querySelector(`[data-row="${to}"]`)?.scrollIntoView({ block: 'nearest' });
  };
  useKeys({ j: () => move(1), k: () => move(-1), c: () => void (q && copyJSON('grep', params)), Enter: () => { const m = matches[current]; if (m) navigate(hrefOf(m)); }, Escape: () => history.back() });
  const submit = (/** @type {Event} */ e) => {
    e.preventDefault();
    const text = new FormData(/** @type {HTMLFormElement} */ (e.target)).get('q');
    navigate(withQuery({ q: String(text ?? '').trim() || undefined }));
  };
  return html`<div class="page narrow grep-page"><header class="page-head"><div class="session-title"><h1>Find</h1><span class="grow"></span>
    ${q ? html`<${CopyJSON} path="grep" params=${params} />` : null}</div></header>
    <form class="filters" role="search" onSubmit=${submit} data-testid="grep-form"><label class="field wide"><${Icon} name="search" />
      <${TextInput} name="q" data-search type="search" aria-label="Text to find" placeholder="Text in messages, replies, tool calls" value=${q} autofocus=${!q} /></label>
      <button class="button primary">Find</button>${session ? html`<span class="faint">in session <code>${short(session)}</code></span>
      <a class="link" href=${withQuery({ session: undefined })}>in all</a>` : null}</form>
    ${!q ? html`<p class="faint">Looks through all that was captured: what users and models wrote, inputs and outputs of tools, system prompts. The same as <code>otelagent grep</code>.</p>` : error ? html`<${Failure} error=${error} />` : loading || !found ? html`<${Loading} what="Searching" />` : !matches.length ? html`<${Empty} title="Nothing is like that">
      <p>Only what was captured can be found: <code>--capture content</code>.</p><//>` : html`
      <p class="faint" role="status" data-testid="grep-count">
        ${plural(matches.length, 'place')}${found.more ? ', and there may be more' : ''}, ${plural(found.sessions, 'session')} looked into</p>
      <ol class="matches" data-testid="matches">${matches.map((m, i) => html`<li data-row=${i} class=${i === current ? 'current' : ''}>
        <a href=${hrefOf(m)} data-testid="match"><span class="match-at"><${Chip}>${words(m.place)}${m.tool ? ' · ' + clean(m.tool) : ''}<//>
        ${m.hidden ? html`<${Chip} kind="warn">rewound<//>` : null}<code>${addressWords(m)}</code></span><span class="match-text">
        ${m.before ? html`<${Foreign} text=${m.before} />` : null}<mark><${Foreign} text=${m.match} /></mark>
        ${m.after ? html`<${Foreign} text=${m.after} />` : null}${m.matches > 1 ? html` <span class="faint num">
        ${m.matches}×</span>` : null}${m.further ? html` <span class="faint num">and in ${plural(m.further, 'other turn')}</span>` : null}</span></a></li>`)}</ol>`}
  </div>`;
}

/**
 * Sessions of what was found that were erased meanwhile. Whenever the list of sessions changed, those of the first hits are looked after.
 * @param {SearchResult | undefined} found
 */
function useGone(found) {
  const [gone, set] = useState(/** @type {Set<string>} */ (new Set()));
  useEffect(() => {
    const sessions = [...new Set((found?.hits ?? []).map((m) => m.session))].slice(0, 50);
    if (!sessions.length) return;
    let alive = true;
    let wait = 0;
    const look = async () => {
      for (const s of sessions) {
        const erased = await get('status' + join(s)).then(
          (status) => status.session !== s, // a path takes the beginning of an id too
          (e) => e instanceof ApiError && e.status === 404,
        );
        if (!alive) return;
        if (erased) set((old) => new Set(old).add(s));
      }
      wait = 0;
    };
    const end = listen('events', {}, (event) => {
      if (event === 'list') wait ||= setTimeout(() => void look(), 500);
    });
    return () => {
      alive = false;
      clearTimeout(wait);
      end();
    };
  }, [found]);
  return gone;
}

/** @param {Hit} m */
const hrefOf = (m) => link('/s' + (m.turn === undefined ? join(m.session) : pathOf(m.address)));

/** @param {Hit} m */
const addressWords = (m) => short(m.session) + clean(m.address.startsWith(m.session) ? m.address.slice(m.session.length) : '/' + m.address);
