// Small parts that every view is made of.
import { Component, h, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from './vendor/preact-htm.js';
import { ApiError, getText } from './api.js';
import { bytes, classOf, clean, exact, pieces, words } from './format.js';
import { join, link } from './router.js';

/** @import {Body, Finding} from '../types.d.ts' */

/** @type {Record<string, string>} */
const paths = {
  copy: 'M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z', out: 'M9 2.5h4.5V7M13.5 2.5 7 9M11.5 9.5v4h-9v-9h4', right: 'm6 3.5 4.5 4.5L6 12.5', down: 'm3.5 6 4.5 4.5L12.5 6',
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9Zm3.3 7.8 3.2 3.2', sun: 'M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6Zm0-3.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7',
  moon: 'M13 9.5A5.5 5.5 0 1 1 6.5 3 4.5 4.5 0 0 0 13 9.5Z', close: 'm4 4 8 8M12 4l-8 8', list: 'M2.5 4h11M2.5 8h11M2.5 12h11', down2: 'M8 2.5v7.500M4.5 7 8 10.500 11.500 7M3 13.500h10',
  left: 'M10 3.5 5.5 8l4.500 4.500', diff: 'M5 2.5v11M11 2.5v11M3 5h4M9 11h4', play: 'M4.500 3v10l8-5z', link: 'M6.500 9.500 9.500 6.500M7 4.500 8.500 3a3 3 0 0 1 4.500 4.500L11.500 9M9 11.500 7.500 13A3 3 0 0 1 3 8.500L4.500 7',
  unfold: 'm4.500 6 3.500-3.500L11.500 6M4.500 10l3.500 3.500L11.500 10',
};

/**
 * A component that is drawn anew only when one of the named properties is another one.
 * @template {object} P
 * @param {(props: P) => unknown} inner
 * @param {(keyof P)[]} by
 */
export const memo = (inner, by) => class extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    const now = /** @type {any} */ (this.props);
    return by.some((k) => now[k] !== next[k]);
  }
  render() {
    return h(/** @type {any} */ (inner), /** @type {any} */ (this.props));
  }
};

/** @param {{name: string}} p */
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
  <path d=${paths[name]} /></svg>`;

/**
 * Foreign text as it is, with what cannot be seen spelled out.
 * @param {{text: string | undefined}} p
 */
export function Foreign({ text }) {
  const parts = useMemo(() => pieces(text ?? ''), [text]);
  return html`${parts.map(([t, spelled]) => (spelled ? html`<span class="spelled" title="a character that cannot be seen">${t}</span>` : t))}`;
}

/** @param {{status: string, testid?: string}} p */
export const Status = ({ status, testid }) => html`<span class=${'status ' + classOf('s', status)} data-testid=${testid} data-status=${clean(status)}>
  <i aria-hidden="true"></i>${words(status)}</span>`;

/** @param {{kind?: string, title?: string, children?: unknown}} p */
export const Chip = ({ kind, title, children }) => html`<span class=${'chip ' + (kind ?? '')} title=${title}>${children}</span>`;

/** @param {{what?: string}} p */
export const Loading = ({ what }) => html`<div class="loading" role="status" data-testid="loading"><span class="spinner" aria-hidden="true"></span>
  ${what ?? 'Loading'}…</div>`;

/** @param {{error: Error, retry?: () => void}} p */
export function Failure({ error, retry = () => location.reload() }) {
  const status = error instanceof ApiError ? error.status : undefined;
  /** @type {Record<number, string>} */
  const titles = { 0: 'No answer', 400: 'Not understood', 401: 'A token is needed', 403: 'Refused', 404: 'Not found', 429: 'Too many requests' };
  return html`<div class="state failure" role="alert" data-testid="failure">
    <h2>${status === undefined ? 'This page failed' : (titles[status] ?? 'The server failed')}</h2>
    <p><${Foreign} text=${error.message} /></p>
    <p><button class="button" onClick=${retry}>Try again</button> <a class="button" href=${link('/')}>All sessions</a></p>
  </div>`;
}

/** @param {{title: string, children?: unknown}} p */
export const Empty = ({ title, children }) => html`<div class="state" data-testid="empty"><h2>${title}</h2>${children}</div>`;

/** In place of a page whose session was erased. */
export const Erased = () => html`<${Empty} title="This session was erased"><p>What this page held of it is gone too.</p>
  <p><a class="button" href=${link('/')}>All sessions</a></p><//>`;

// What was done is said once, to eyes and to screen readers.
/** @type {(text: string) => void} */
let announce = () => {};
/** @param {string} text */
export const say = (text) => announce(text);
export function Said() {
  const [text, set] = useState('');
  useEffect(() => {
    /** @type {number | undefined} */
    let timer;
    announce = (t) => {
      set(t);
      clearTimeout(timer);
      timer = setTimeout(() => set(''), 2600);
    };
    return () => clearTimeout(timer);
  }, []);
  return html`<div class=${'toast' + (text ? ' on' : '')} role="status" aria-live="polite" data-testid="toast">${text}</div>`;
}

/**
 * @param {string} text
 * @param {string} what
 */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no permission, or no secure context: the old way
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'offscreen';
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    if (!done) return say('The browser does not let the page copy');
  }
  say(what + ' copied');
}

/**
 * A field of one line whose text the reader may be changing: only another value replaces it, not every drawing.
 * @param {{value: string} & Record<string, unknown>} p
 */
export function TextInput({ value, ...rest }) {
  const ref = useRef(/** @type {HTMLInputElement | null} */ (null));
  useLayoutEffect(() => {
    if (ref.current) ref.current.value = value;
  }, [value]);
  return html`<input ref=${ref} ...${rest} />`;
}

/**
 * Copies what the API says at a path, as the command line prints it.
 * @param {string} path
 * @param {Record<string, string | number | undefined>} [params]
 */
export async function copyJSON(path, params) {
  try {
    const text = (await getText(path, params)).trimEnd();
    await copy(text.includes('\n') ? text : JSON.stringify(JSON.parse(text), null, 2), 'JSON'); // JSON.parse rounds long numbers
  } catch (e) {
    say('Not copied: ' + (e instanceof Error ? e.message : 'failed'));
  }
}

/** @param {{path: string, params?: Record<string, string | number | undefined>, label?: string, small?: boolean}} p */
export const CopyJSON = ({ path, params, label, small }) => html`<button class=${small ? 'ghost' : 'button'} data-testid="copy-json" title="Copy as JSON (c)"
  aria-label=${small ? (label ?? 'Copy as JSON') : undefined} onClick=${() => copyJSON(path, params)}><${Icon} name="copy" />
    ${small ? '' : (label ?? 'Copy JSON')}</button>`;

/**
 * @param {string | undefined} text
 * @returns {{value: unknown} | undefined}
 */
export function parseJSON(text) {
  if (!text || text.length > 400_000 || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/**
 * JSON as text with its kinds of tokens marked.
 * @param {{value: unknown}} p
 */
export function JSONText({ value }) {
  const parts = useMemo(() => {
    const text = JSON.stringify(value, null, 2) ?? '';
    if (text.length > 60_000) return [html`<${Foreign} text=${text} />`];
    /** @type {unknown[]} */
    const out = [];
    let at = 0;
    for (const m of text.matchAll(/("(?:\\.|[^"\\])*")(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/g)) {
      if (m.index > at) out.push(text.slice(at, m.index));
      const string = m[1];
      const kind = string === undefined ? 'j-n' : m[2] ? 'j-k' : 'j-s';
      out.push(html`<span class=${kind}><${Foreign} text=${string ?? m[0]} /></span>`);
      if (m[2]) out.push(m[2]);
      at = m.index + m[0].length;
    }
    out.push(text.slice(at));
    return out;
  }, [value]);
  return html`${parts}`;
}

/** @type {Record<string, string>} */
const states = { missing: 'did not arrive', cut: 'was cut', withheld: 'stayed at the source' };

/**
 * The text in a block that goes on from its beginning; undefined where there is none. A block is raw JSON: a string, or a message around it.
 * @param {string} block
 * @param {string} beginning
 */
function textIn(block, beginning) {
  /** @type {string | undefined} */
  let found;
  const look = (/** @type {unknown} */ v) => {
    if (typeof v === 'string' && v.startsWith(beginning)) found ??= v;
    else if (v && typeof v === 'object') Object.values(v).forEach(look);
  };
  try {
    look(JSON.parse(block));
  } catch { /* no JSON: it is text itself */ }
  return found;
}

/**
 * The whole text of a body of which an answer may have the beginning only.
 * @param {string} session
 * @param {Body} body
 */
export async function wholeText(session, body) {
  const text = body.text ?? '';
  if (!body.cut || !body.block || body.state) return text;
  const block = await getText('block' + join(session, body.block));
  return textIn(block, text) ?? block;
}

/**
 * Content: folded when it is long, JSON indented, the whole of it on demand.
 * @param {{session: string, body: Body | undefined, prose?: boolean, open?: boolean, lines?: number, label: string}} p
 */
export function Content({ session, body, prose, open, lines = 14, label }) {
  const [unfolded, set] = useState(false);
  const [got, setGot] = useState(/** @type {{block?: string, text?: string}} */ ({})); // it may come when another block is shown
  const [busy, setBusy] = useState(false);
  const [asIs, setAsIs] = useState(false);
  const block = body?.block;
  useEffect(() => set(false), [block]);
  const whole = got.block === block ? got.text : undefined;
  const text = whole ?? body?.text ?? '';
  const json = useMemo(() => parseJSON(text), [text]);
  if (!body) return null;
  if (!text && body.state) return html`<p class="absent" data-testid="absent">
    ${label} ${states[body.state] ?? words(body.state)}${body.bytes ? `: ${exact(body.bytes)} bytes` : ''}</p>`;
  if (!text) return html`<p class="absent">empty</p>`;
  const shown = json && !asIs ? undefined : text;
  const long = body.cut || text.length > lines * 110 || text.split('\n', lines + 3).length > lines + 2 || (json !== undefined && text.length > lines * 42);
  const folded = long && !unfolded && !open;
  const showAll = async () => {
    set(true);
    if (!body.cut || whole !== undefined || !block || body.state) return;
    setBusy(true);
    try {
      setGot({ block, text: await wholeText(session, body) });
    } catch (e) {
      say('The rest did not come: ' + (e instanceof Error ? e.message : ''));
    }
    setBusy(false);
  };
  const copyAll = async () => {
    try {
      await copy(whole ?? (await wholeText(session, body)), label[0]?.toUpperCase() + label.slice(1));
    } catch (e) {
      say('Not copied: ' + (e instanceof Error ? e.message : ''));
    }
  };
  return html`<div class=${'content' + (prose ? ' prose' : '') + (folded ? ' folded' : '')}>
    <pre class=${`lines-${lines}`} data-testid="content">
      ${shown === undefined && json ? html`<${JSONText} value=${json.value} />` : html`<${Foreign} text=${text} />`}</pre>
    ${body.state ? html`<p class="absent">
      ${label} ${states[body.state] ?? words(body.state)}${body.bytes ? `: ${exact(body.bytes)} bytes in all` : ''}</p>` : null}
    <div class="content-foot">
      ${long && !open ? html`<button class="link" data-testid="show-all" aria-expanded=${!folded} onClick=${folded || (body.cut && whole === undefined && !body.state) ? showAll : () => set(false)}>
        ${busy ? 'Loading…' : folded ? `Show all${body.bytes ? ', ' + bytes(body.bytes) : ''}` : body.cut && whole === undefined && !body.state ? `Show the rest, ${bytes(body.bytes)} in all` : 'Fold'}</button>` : null}
      ${open && body.cut && whole === undefined && !body.state ? html`<button class="link" data-testid="show-all" onClick=${showAll}>
        ${busy ? 'Loading…' : `Show the rest, ${bytes(body.bytes)} in all`}</button>` : null}
    </div>
    <div class="content-quiet">
      ${json ? html`<button class="link quiet" onClick=${() => setAsIs(!asIs)}>${asIs ? 'Indented' : 'As it came'}</button>` : null}
      <button class="link quiet" aria-label=${'Copy ' + label} onClick=${copyAll}>Copy</button>
    </div>
  </div>`;
}

/** @param {{findings?: Finding[], testid?: string}} p */
export const Findings = ({ findings, testid }) => findings?.length ? html`<ul class="findings" data-testid=${testid ?? 'findings'}>
  ${findings.map((f) => html`<li class=${f.observation ? 'observation' : 'defect'}><b>
    ${f.observation ? 'Observation' : 'Defect'}</b> <${Foreign} text=${f.text} /> <code>${clean(f.code)}</code></li>`)}
</ul>` : null;

/**
 * The width of an element, as it changes.
 * @returns {[{current: HTMLElement | null}, number]}
 */
export function useWidth() {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, set] = useState(0);
  useEffect(() => {
    const el = ref.current;
    if (!el) return;
    const o = new ResizeObserver(() => set(Math.floor(el.clientWidth)));
    o.observe(el);
    set(Math.floor(el.clientWidth));
    return () => o.disconnect();
  }, []);
  return [ref, width];
}

/** Now, every so often. @param {number} every milliseconds */
export function useNow(every) {
  const [now, set] = useState(Date.now);
  useEffect(() => {
    const t = setInterval(() => set(Date.now()), every);
    return () => clearInterval(t);
  }, [every]);
  return now;
}

/** @param {string} title */
export function useTitle(title) {
  useEffect(() => void (document.title = title ? clean(title) + ' · otelagent' : 'otelagent'), [title]);
}

/** @param {{share: number | undefined, label: string}} p */
export const Meter = ({ share, label }) => html`<span class="meter" role="img" aria-label=${label}>
  <i style=${{ width: Math.round((share ?? 0) * 100) + '%' }}></i></span>`;
