// Where the page is: the URL and nothing else. Links are plain anchors; one listener keeps those to other views inside the page.
import { useEffect, useState } from './vendor/preact-htm.js';

/** @typedef {{path: string[], query: URLSearchParams}} Place */

/** @type {Set<() => void>} */
const listeners = new Set();

/** @returns {Place} */
export function place() {
  const path = location.pathname.split('/').slice(1).map(decode).filter((s, i) => i > 0 || s !== '');
  return { path, query: new URLSearchParams(location.search) };
}

/** @param {string} s */
function decode(s) {
  try {
    return undotted(decodeURIComponent(s));
  } catch {
    return s; // a stray '%' is part of the id then
  }
}

/**
 * Goes to a view. Replacing keeps the history short where something only moves, as the selected turn does.
 * @param {string} url
 * @param {{replace?: boolean, keepScroll?: boolean}} [how]
 */
export function navigate(url, how = {}) {
  if (url === location.pathname + location.search) return;
  history[how.replace ? 'replaceState' : 'pushState'](null, '', url);
  for (const l of listeners) l();
  if (!how.replace && !how.keepScroll) scrollTo(0, 0);
}

/**
 * The URL of this view with other query parameters; an empty value takes one away.
 * @param {Record<string, string | undefined>} changes
 */
export function withQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [k, v] of Object.entries(changes)) {
    if (v) query.set(k, v);
    else query.delete(k);
  }
  const text = query.toString();
  return location.pathname + (text ? '?' + text : '');
}

/**
 * The URL of a view. The tenant that the page shows goes along unless another one is named; parameters that are undefined are left out.
 * @param {string} path
 * @param {Record<string, string | undefined>} [params]
 */
export function link(path, params = {}) {
  const query = new URLSearchParams();
  for (const [k, v] of Object.entries({ tenant: tenant() ?? undefined, ...params })) if (v !== undefined) query.set(k, v);
  const text = query.toString();
  return path + (text ? '?' + text : '');
}

/** The tenant that the URL names; null where it names none. '' is the sessions without one. */
export const tenant = () => new URLSearchParams(location.search).get('tenant');

/** @returns {Place} */
export function usePlace() {
  const [now, set] = useState(place);
  useEffect(() => {
    const changed = () => set(place());
    listeners.add(changed);
    addEventListener('popstate', changed);
    return () => {
      listeners.delete(changed);
      removeEventListener('popstate', changed);
    };
  }, []);
  return now;
}

addEventListener('click', (e) => {
  const a = e.target instanceof Element ? e.target.closest('a') : null;
  if (!a || e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
  if (a.target || a.hasAttribute('download') || a.origin !== location.origin || a.pathname.startsWith('/api/') || a.getAttribute('href')?.startsWith('#')) return;
  e.preventDefault();
  navigate(a.pathname + a.search);
});

/**
 * The path of an address, each part escaped: ids hold what they like, slashes too.
 * @param {...(string | number | undefined)} parts
 */
export const join = (...parts) => parts.filter((p) => p !== undefined).map((p) => '/' + encodeURIComponent(dotted(String(p)))).join('');

/**
 * Browsers take '.' and '..' for folders, escaped too, so such an id has one '~' before it, and one that has those already one more
 * (docs/api.md). The server undoes it as place does.
 * @param {string} part
 */
const dotted = (part) => (/^~*\.\.?$/.test(part) ? '~' + part : part);

/** @param {string} part */
const undotted = (part) => (/^~+\.\.?$/.test(part) ? part.slice(1) : part);

/**
 * The parts of an address of a run, a turn or a tool call: SESSION/@RUN[/TURN][#CALL]. Ids hold what they like, slashes too.
 * @param {string} address
 */
export function parts(address) {
  const [, session = address, run, turn] = /^(.*)\/(@\d+)(?:\/(-?\d+))?(?:#.*)?$/s.exec(address) ?? [];
  return { session, run, turn };
}

/**
 * The path of what an address names.
 * @param {string} address
 */
export function pathOf(address) {
  const { session, run, turn } = parts(address);
  return join(session, run, turn);
}
