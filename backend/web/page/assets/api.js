// The read-only API beneath the page: /api/v1/…, JSON. Nothing here changes anything on the server.
import { useEffect, useState } from './vendor/preact-htm.js';
import { join, tenant } from './router.js';

export class ApiError extends Error {
  /**
   * @param {number} status of the answer, 0 where there was none
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const base = '/api/v1/';
const tokenKey = 'otelagent.token';

let heldToken = '';
/** The token lives as long as the tab: who shares a machine shares no session of it. Where storage is forbidden, as long as the page. */
export const token = {
  get: () => {
    try {
      return sessionStorage.getItem(tokenKey) ?? heldToken;
    } catch {
      return heldToken;
    }
  },
  /** @param {string} value */
  set: (value) => {
    heldToken = value;
    try {
      sessionStorage.setItem(tokenKey, value);
    } catch { /* then the page keeps it */ }
  },
};

/** @type {(() => void) | undefined} */
let denied;
/**
 * Calls f whenever the server demands a token.
 * @param {() => void} f
 */
export const onDenied = (f) => void (denied = f);

/**
 * The URL of an API call. Empty parameters are left out; that of the page's tenant goes along.
 * @param {string} path
 * @param {Record<string, string | number | undefined | null>} [params]
 */
export function apiURL(path, params = {}) {
  const query = new URLSearchParams();
  const of = tenant();
  if (of !== null) query.set('tenant', of);
  for (const [k, v] of Object.entries(params)) if (v !== undefined && v !== null && v !== '') query.set(k, String(v));
  const text = query.toString();
  return base + path.replace(/^\//, '') + (text ? '?' + text : '');
}

/**
 * @param {string} url
 * @param {AbortSignal} [signal]
 */
async function ask(url, signal) {
  /** @type {Record<string, string>} */
  const headers = {};
  const secret = token.get();
  if (/^[\x21-\x7e]+$/.test(secret)) headers['Authorization'] = 'Bearer ' + secret; // no header takes another one: the server refuses it
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(url, { headers, signal, credentials: 'same-origin' });
  } catch (e) {
    if (e instanceof DOMException && e.name === 'AbortError') throw e;
    throw new ApiError(0, 'the server does not answer');
  }
  if (answer.ok) return answer;
  if (answer.status === 401) denied?.();
  let said = '';
  try {
    said = (await answer.json()).error;
  } catch { /* not JSON: the number says enough */ }
  throw new ApiError(answer.status, said || 'the server answered with ' + answer.status);
}

/**
 * Fetches JSON.
 * @param {string} path
 * @param {Record<string, string | number | undefined | null>} [params]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export const get = async (path, params, signal) => (await ask(apiURL(path, params), signal)).json();

/**
 * Fetches text as it is.
 * @param {string} path
 * @param {Record<string, string | number | undefined | null>} [params]
 */
export const getText = async (path, params) => (await ask(apiURL(path, params))).text();

/**
 * Fetches bytes.
 * @param {string} path
 * @param {Record<string, string | number | undefined | null>} [params]
 */
export const getBlob = async (path, params) => (await ask(apiURL(path, params))).blob();

/**
 * What an API call answers; undefined until it did. Asked again when path, params or `again` change: what was there stays meanwhile.
 * @template T
 * @param {string | null} path null asks nothing
 * @param {Record<string, string | number | undefined | null>} [params]
 * @param {unknown} [again]
 * @returns {{data?: T, error?: Error, loading: boolean}}
 */
export function useGet(path, params = {}, again) {
  const url = path === null ? null : apiURL(path, params);
  const [state, set] = useState(/** @type {{url?: string | null, data?: any, error?: Error}} */ ({}));
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    get(path, params, stop.signal).then(
      (data) => set({ url, data }),
      (error) => stop.signal.aborted || set((old) => ({ url, error, data: old.url === url ? old.data : undefined })),
    );
    return () => stop.abort();
  }, [url, again]);
  return { data: state.data, error: state.url === url ? state.error : undefined, loading: state.url !== url };
}

/**
 * Listens to server-sent events until the returned function is called; comes back after an interruption. EventSource cannot send a
 * token, so the stream is read by hand. A page that nobody looks at does not listen: browsers open six connections to a server, for all
 * pages together. A session that is not there is event "gone".
 * @param {string} path
 * @param {Record<string, string | undefined>} params
 * @param {(event: string, data: any) => void} heard
 * @param {(connected: boolean) => void} [changed]
 */
export function listen(path, params, heard, changed) {
  const stop = new AbortController();
  const shown = () => /** @type {Promise<void>} */ (new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !stop.signal.aborted) return;
      document.removeEventListener('visibilitychange', look);
      resolve();
    };
    document.addEventListener('visibilitychange', look);
    stop.signal.addEventListener('abort', look);
    look();
  }));
  const run = async () => {
    let absent = 0;
    for (let wait = 500; !stop.signal.aborted; wait = Math.min(wait * 2, 15000)) {
      await shown();
      if (stop.signal.aborted) return;
      const connection = new AbortController();
      const close = () => void ((stop.signal.aborted || document.hidden) && connection.abort());
      stop.signal.addEventListener('abort', close);
      document.addEventListener('visibilitychange', close);
      try {
        const answer = await ask(apiURL(path, params), connection.signal);
        const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
        const decoder = new TextDecoder();
        let rest = '';
        changed?.(true);
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          wait = 500;
          rest += decoder.decode(value, { stream: true });
          const events = rest.split(/\r?\n\r?\n/);
          rest = events.pop() ?? '';
          for (const e of events) dispatch(e, heard);
        }
      } catch (e) {
        if (stop.signal.aborted) return;
        if (e instanceof ApiError && e.status === 404) heard('gone', undefined);
        if (e instanceof ApiError && (e.status === 401 || (e.status === 404 && ++absent > 5))) return; // a page may be open before its session is there
      } finally {
        stop.signal.removeEventListener('abort', close);
        document.removeEventListener('visibilitychange', close);
      }
      if (stop.signal.aborted) return;
      changed?.(false);
      if (document.hidden) wait = 250; // it was closed for that
      else await new Promise((r) => setTimeout(r, wait));
    }
  };
  void run();
  return () => stop.abort();
}

/**
 * Whether one of some sessions was there and is no more: it was erased, and what was said in it must leave the screen. It is asked for, two
 * seconds after the last answer, while somebody looks: a connection for each such page would be too many of the six that a browser opens.
 * @param {string[]} sessions
 */
export function useErased(sessions) {
  const all = JSON.stringify(sessions);
  const [erased, set] = useState(/** @type {string | undefined} */ (undefined));
  useEffect(() => {
    const stop = new AbortController();
    // Which session each is: a path takes the beginning of an id too, and "last", and may mean another one when that one is gone.
    /** @type {Map<string, string>} */
    const ids = new Map();
    let timer = 0;
    let busy = false;
    const look = async () => {
      if (busy || document.hidden) return;
      busy = true;
      clearTimeout(timer);
      for (const session of sessions) {
        const id = ids.get(session);
        try {
          const status = await get('status' + join(id ?? session), {}, stop.signal);
          if (id !== undefined && status.session !== id) return set(all);
          ids.set(session, status.session);
        } catch (e) {
          if (stop.signal.aborted) return;
          if (e instanceof ApiError && e.status === 404 && id !== undefined) return set(all);
        }
      }
      busy = false;
      timer = setTimeout(() => void look(), 2000);
    };
    document.addEventListener('visibilitychange', look);
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', look);
    };
  }, [all, tenant()]);
  return erased === all;
}

/**
 * @param {string} text
 * @param {(event: string, data: any) => void} heard
 */
function dispatch(text, heard) {
  let event = 'message';
  let data = '';
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('event:')) event = line.slice(6).trim();
    else if (line.startsWith('data:')) data += line.slice(5).trim();
  }
  if (!data && event === 'message') return; // a ping
  let value;
  try {
    value = data ? JSON.parse(data) : undefined;
  } catch {
    return;
  }
  heard(event, value);
}
