// The page: which view a URL shows, the bar above it, the keyboard of all views.
import { Component, html, render, useEffect, useRef, useState } from './vendor/preact-htm.js';
import { onDenied, token, useErased, useGet } from './api.js';
import { clean } from './format.js';
import { help, useKeys } from './keys.js';
import { link, navigate, usePlace } from './router.js';
import { Empty, Erased, Failure, Icon, Said } from './ui.js';
import { ListPage } from './list.js';
import { SessionPage } from './session.js';
import { RequestPage } from './request.js';
import { ReplayPage } from './replay.js';
import { DiffPage } from './diff.js';
import { StatsPage } from './stats.js';
import { GrepPage } from './grep.js';

/** @import {About} from '../types.d.ts' */
/** @import {Place} from './router.js' */

/**
 * A page of sessions, as long as none of them is erased: what it held goes with it.
 * @param {{sessions: string[], children?: unknown}} p
 */
const WhileThere = ({ sessions, children }) => (useErased(sessions) ? html`<${Erased} />` : html`${children}`);

/** @param {{at: Place, about: About}} p */
function View({ at, about }) {
  const [view, session, run, turn, what] = at.path;
  if (view === undefined) return html`<${ListPage} at=${at} />`;
  if (view === 's' && session !== undefined) {
    if (turn !== undefined && run !== undefined && what === 'request') return html`<${WhileThere} sessions=${[session]}><${RequestPage} at=${at} session=${session} run=${run} turn=${turn} /><//>`;
    if (turn !== undefined && run !== undefined && what === 'replay') return html`<${WhileThere} sessions=${[session]}><${ReplayPage} at=${at} session=${session} run=${run} turn=${turn} /><//>`;
    return html`<${SessionPage} key=${session} session=${session} run=${run} turn=${turn} at=${at} about=${about} />`;
  }
  if (view === 'diff') return html`<${DiffPage} at=${at} />`;
  if (view === 'stats') return html`<${StatsPage} at=${at} />`;
  if (view === 'grep') return html`<${GrepPage} at=${at} />`;
  return html`<${Empty} title="There is no such page"><p><a href=${link('/')}>All sessions</a></p><//>`;
}

/** Shows what went wrong in place of a view that failed. */
class Guard extends Component {
  /** @param {Error} error */
  componentDidCatch(error) {
    this.setState({ error });
  }
  render() {
    const { error } = /** @type {{error?: Error}} */ (this.state);
    const { children } = /** @type {{children?: unknown}} */ (this.props);
    return error ? html`<${Failure} error=${error} retry=${() => this.setState({ error: undefined })} />` : html`${children}`;
  }
}

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset['theme'] ? root.dataset['theme'] === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset['theme'] = dark ? 'light' : 'dark';
  try {
    localStorage.setItem('theme', root.dataset['theme']);
  } catch { /* then it holds as long as the page */ }
}

/** @param {{done: () => void}} p */
function Login({ done }) {
  /** @param {SubmitEvent} e */
  const submit = (e) => {
    e.preventDefault();
    const value = new FormData(/** @type {HTMLFormElement} */ (e.target)).get('token');
    token.set(String(value ?? '').trim());
    done();
  };
  return html`<main class="login" id="main"><form onSubmit=${submit} data-testid="login">
    <h1>otelagent</h1>
    <p>This server asks for its token: the text in its <code>--token-file</code>, or in <code>OTELAGENT_TOKEN</code>. Whoever runs it has it.</p>
    ${token.get() ? html`<p class="bad" role="alert">That is not the token.</p>` : ''}
    <label>Token <input name="token" type="password" autocomplete="current-password" autofocus required /></label>
    <button class="button primary">Go on</button>
  </form></main>`;
}

/** @param {{close: () => void}} p */
function Help({ close }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => ref.current?.showModal(), []);
  return html`<dialog ref=${ref} class="help" aria-labelledby="help-title" data-testid="help" onClose=${close} onClick=${(/** @type {MouseEvent} */ e) => e.target === ref.current && ref.current?.close()}>
    <div class="help-in"><header><h2 id="help-title">Keyboard</h2><button class="ghost" aria-label="Close" onClick=${() => ref.current?.close()}>
      <${Icon} name="close" /></button></header>
    <div class="help-cols">${help.map(([name, keys]) => html`<section><h3>${name}</h3><dl>${keys.map(([k, what]) => html`<div><dt>
      ${k.split(' ').map((c) => html`<kbd>${c}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl></section>`)}</div></div>
  </dialog>`;
}

/**
 * Whose sessions are shown, where there is something to choose.
 * @param {{about?: About, at: Place}} p
 */
function Tenants({ about, at }) {
  const tenants = about?.tenants ?? [];
  const current = at.query.get('tenant') ?? about?.tenant ?? '';
  if (!tenants.some((t) => t !== current)) return null;
  const here = at.path[0] ?? '';
  const to = (/** @type {Event} */ e) => navigate(link(here === 'stats' || here === 'grep' ? '/' + here : '/', { tenant: /** @type {HTMLSelectElement} */ (e.target).value }));
  return html`<label class="field tenants"><span>Tenant</span><select data-testid="tenant" value=${current} onChange=${to}>
    ${[...new Set([current, ...tenants])].sort().map((t) => html`<option value=${t}>${clean(t) || 'none'}</option>`)}</select></label>`;
}

function App() {
  const at = usePlace();
  const [locked, setLocked] = useState(false);
  const [helping, setHelping] = useState(false);
  const [again, setAgain] = useState(0);
  const { data: about } = useGet('about', {}, again);
  const search = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => onDenied(() => setLocked(true)), []);
  useKeys({
    '?': () => setHelping(true),
    t: toggleTheme,
    'g l': () => navigate(link('/')),
    'g s': () => navigate(link('/stats')),
    'g f': () => navigate(link('/grep')),
    '/': () => {
      const own = /** @type {HTMLInputElement | null} */ (document.querySelector('main [data-search]'));
      (own ?? search.current)?.focus();
      (own ?? search.current)?.select();
    },
  });
  if (locked) return html`<${Login} done=${() => (setLocked(false), setAgain(again + 1))} />`;
  const here = at.path[0];
  /** @param {string} href @param {string | undefined} view @param {string} name */
  const tab = (href, view, name) => html`<a href=${link(href)} aria-current=${here === view || (view === undefined && here === 's') ? 'page' : undefined}>
    ${name}</a>`;
  /** @param {SubmitEvent} e */
  const find = (e) => {
    e.preventDefault();
    const q = search.current?.value.trim();
    const session = here === 's' ? at.path[1] : undefined;
    if (q) navigate(link('/grep', { q, session }));
  };
  return html`
    <a class="skip" href="#main">To the content</a>
    <header class="bar">
      <a class="brand" href=${link('/')}><img src="/assets/icon.svg" alt="" width="20" height="20" />otelagent</a>
      <nav aria-label="Views">${tab('/', undefined, 'Sessions')}${tab('/grep', 'grep', 'Find')}${tab('/stats', 'stats', 'Statistics')}</nav>
      <form class="bar-search" role="search" onSubmit=${find}>
        <${Icon} name="search" /><input ref=${search} type="search" aria-label="Find in content" placeholder=${here === 's' ? 'Find in this session' : 'Find in content'} data-testid="bar-search" />
          <kbd>/</kbd>
      </form>
      <${Tenants} about=${about} at=${at} />
      <span class="bar-store" title=${clean(about?.database)}>${clean((about?.database ?? '').split('/').pop())}</span>
      <button class="ghost theme" aria-label="Light or dark" title="Light or dark (t)" data-testid="theme" onClick=${toggleTheme}>
        <${Icon} name="sun" /><${Icon} name="moon" /></button>
      <button class="ghost" aria-label="Keyboard help" title="Keyboard (?)" data-testid="help-open" onClick=${() => setHelping(true)}>
        <kbd>?</kbd></button>
    </header>
    <main id="main" tabindex="-1"><${Guard} key=${at.path.slice(0, 2).join('/') + '?' + (at.query.get('tenant') ?? '') + again}><${View} at=${at} about=${about ?? {}} /><//></main>
    ${helping ? html`<${Help} close=${() => setHelping(false)} />` : null}
    <${Said} />`;
}

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
root.textContent = '';
render(html`<${App} />`, root);
