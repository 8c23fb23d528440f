// Search in what was captured.
import { html, useRef, useState } from './vendor/preact-htm.js';
import { useGet } from './api.js';
import { clean, plural, short, words } from './format.js';
import { useKeys } from './keys.js';
import { join, navigate, turnPath, withQuery } from './router.js';
import { Chip, copyJSON, CopyJSON, Empty, Failure, Foreign, Icon, Loading, useTitle } from './ui.js';

/** @import {Place} from './router.js' */

/** @param {{at: Place}} p */
export function GrepPage({ at }) {
  const q = at.query.get('q') ?? '';
  const session = at.query.get('session') ?? '';
  useTitle(q ? 'Find ' + q : 'Find');
  const params = { q, session, limit: 200 };
  const { data, error, loading } = useGet(q ? 'grep' : null, params);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [current, setCurrent] = useState(-1);
  const matches = /** @type {any[]} */ (data?.matches ?? []);
  const move = (/** @type {number} */ by) => {
    const to = Math.max(0, Math.min(matches.length - 1, current + by));
    setCurrent(to);
    document.querySelector(`[data-row="${to}"]`)?.scrollIntoView({ block: 'nearest' });
  };
  useKeys({ j: () => move(1), k: () => move(-1), c: () => void (q && copyJSON('grep', params)), Enter: () => { const m = matches[current]; if (m) navigate(hrefOf(m)); }, Escape: () => history.back() });
  const submit = (/** @type {Event} */ e) => {
    e.preventDefault();
    navigate(withQuery({ q: input.current?.value.trim() || undefined }));
  };
  return html`<div class="page narrow grep-page"><header class="page-head"><div class="session-title"><h1>Find</h1><span class="grow"></span>${q ? html`<${CopyJSON} path="grep" params=${params} />` : null}</div></header>
    <form class="filters" role="search" onSubmit=${submit} data-testid="grep-form"><label class="field wide"><${Icon} name="search" /><input ref=${input} data-search type="search" aria-label="Text to find" placeholder="Text in messages, replies, tool calls" value=${q} autofocus=${!q} /></label><button class="button primary">Find</button>${session ? html`<span class="faint">in session <code>${short(session)}</code></span><a class="link" href=${withQuery({ session: undefined })}>in all</a>` : null}</form>
    ${!q ? html`<p class="faint">Looks through all that was captured: what users and models wrote, inputs and outputs of tools, system prompts. The same as <code>otelagent grep</code>.</p>` : error ? html`<${Failure} error=${error} />` : loading || !data ? html`<${Loading} what="Searching" />` : !matches.length ? html`<${Empty} title="Nothing is like that"><p>Only what was captured can be found: <code>--capture content</code>.</p><//>` : html`
      <p class="faint" role="status" data-testid="grep-count">${plural(matches.length, 'match').replace('matchs', 'matches')}${data.more || data.truncated || data.next ? ', and there are more' : ''}</p>
      <ol class="matches" data-testid="matches">${matches.map((m, i) => html`<li data-row=${i} class=${i === current ? 'current' : ''}><a href=${hrefOf(m)} data-testid="match"><span class="match-at">${m.where || m.part || m.in ? html`<${Chip}>${words(m.where ?? m.part ?? m.in)}<//>` : null}<code>${addressWords(m)}</code></span><span class="match-text"><${Marked} m=${m} q=${q} /></span></a></li>`)}</ol>`}
  </div>`;
}

/** @param {any} m */
function hrefOf(m) {
  const address = String(m.address ?? '').split('#')[0] ?? '';
  const session = String(m.session ?? address.split('/')[0] ?? '');
  return address === session ? '/s' + join(session) : '/s' + turnPath(session, address);
}

/** @param {any} m */
function addressWords(m) {
  const address = String(m.address ?? '');
  const session = String(m.session ?? address.split('/')[0]);
  return short(session) + clean(address.slice(session.length));
}

/** @param {{m: any, q: string}} p */
function Marked({ m, q }) {
  const text = String(m.text ?? m.line ?? m.excerpt ?? '');
  const at = text.toLowerCase().indexOf(q.toLowerCase());
  if (at < 0) return html`<${Foreign} text=${text} />`;
  return html`<${Foreign} text=${text.slice(0, at)} /><mark><${Foreign} text=${text.slice(at, at + q.length)} /></mark><${Foreign} text=${text.slice(at + q.length)} />`;
}
