// A session as the page holds it: its outline, and of its turns the pages that were looked at. Both follow the store.
import { useEffect, useRef, useState } from './vendor/preact-htm.js';
import { ApiError, get, listen } from './api.js';
import { join } from './router.js';

/** @import {Outline, Status, TurnPage, TurnView} from '../types.d.ts' */

const pageSize = 25;
// Text of a body that a list of turns brings along; the rest comes on demand.
const textBytes = 4096;
// Milliseconds until turns that did not come are asked for again.
const retryAfter = 3000;

/**
 * @typedef {object} SessionData
 * @property {Outline} [outline]
 * @property {Error} [error]
 * @property {Status} [status] as the server said it last
 * @property {boolean} [erased] whether the session was there and is no more: nothing of it is kept here then
 * @property {boolean} connected whether changes are listened for
 * @property {(index: number) => TurnView | undefined} turn
 * @property {(index: number) => Error | undefined} failed why a turn is not there
 * @property {(first: number, last: number) => void} need asks for turns that will be shown
 * @property {() => void} reload
 */

/** Whether something of a session may still go on. @param {Status | undefined} status */
export const goesOn = (status) => status !== undefined && !['idle', 'error', 'aborted'].includes(status);

/**
 * What was open when the process died stays as it was seen last: no end was seen, and nothing is waited for any more.
 * @template {{state?: string, live?: boolean}} T
 * @param {T} x
 * @returns {T}
 */
const freeze = (x) => (x.state === 'open' || x.live ? { ...x, state: 'closed', live: undefined } : x);

/** @param {import('../types.d.ts').PermissionView[] | undefined} list */
const unanswered = (list) => list?.map((p) => (p.waiting ? { ...p, waiting: undefined } : p));

/** @param {Outline} o @returns {Outline} */
const freezeOutline = (o) => ({ ...o, turns: (o.turns ?? []).map((t) => (t.state || t.live ? { ...freeze(t), calls: t.calls?.map(freeze) } : t)) });

/** @param {TurnView} t @returns {TurnView} */
const freezeTurn = (t) => ({ ...freeze(t), calls: t.calls?.map(freeze), permissions: unanswered(t.permissions), tool_calls: t.tool_calls?.map((c) => ({ ...freeze(c), permissions: unanswered(c.permissions) })) });

/**
 * @param {string} session
 * @returns {SessionData}
 */
export function useSession(session) {
  const [state, set] = useState(/** @type {{outline?: Outline, error?: Error, status?: Status, erased?: boolean, connected: boolean}} */ ({ connected: false }));
  const [, redraw] = useState(0);
  const [attempt, setAttempt] = useState(0);
  const turns = useRef(/** @type {Map<number, TurnView>} */ (new Map()));
  const stale = useRef(/** @type {Set<number>} */ (new Set()));
  const pages = useRef(/** @type {Map<number, Error | 'asked'>} */ (new Map()));
  const outline = useRef(/** @type {Outline | undefined} */ (undefined));
  const alive = useRef(true);
  const wanted = useRef(/** @type {[number, number]} */ ([0, -1]));

  const fetchPage = async (/** @type {number} */ page) => {
    pages.current.set(page, 'asked');
    try {
      const got = /** @type {TurnPage} */ (await get('turns' + join(outline.current?.summary.id ?? session), { from: page * pageSize, count: pageSize, text: textBytes }));
      const now = outline.current;
      if (!alive.current || !now) return;
      const behind = got.mark < now.mark; // the outline came while the turns were on their way: these are asked for again
      (got.turns ?? []).forEach((t, i) => {
        const at = page * pageSize + i;
        if (now.turns?.[at]?.address !== t.address) return; // another turn stands here now
        turns.current.set(at, goesOn(now.status) ? t : freezeTurn(t));
        if (!behind) stale.current.delete(at);
      });
      pages.current.delete(page);
      if (behind) need(...wanted.current);
    } catch (e) {
      pages.current.set(page, /** @type {Error} */ (e));
      setTimeout(() => {
        if (!alive.current || pages.current.get(page) !== e) return;
        pages.current.delete(page);
        need(...wanted.current);
      }, retryAfter);
    }
    if (alive.current) redraw((n) => n + 1);
  };
  const need = (/** @type {number} */ first, /** @type {number} */ last) => {
    wanted.current = [first, last];
    const n = outline.current?.turns?.length ?? 0;
    for (let i = Math.max(0, first); i <= Math.min(last, n - 1); i++) {
      const page = Math.floor(i / pageSize);
      if ((!turns.current.has(i) || stale.current.has(i)) && !pages.current.has(page)) void fetchPage(page);
    }
  };

  const take = (/** @type {Outline} */ got) => {
    const next = goesOn(got.status) ? got : freezeOutline(got);
    const before = outline.current?.turns ?? [];
    (next.turns ?? []).forEach((t, i) => {
      const was = before[i];
      if (was?.address !== t.address) {
        turns.current.delete(i); // another turn stands here now
        return;
      }
      // What was said of a turn can change while its outline does not: those that are open or last are always asked anew.
      if (t.state || t.live || was.live || next.status !== outline.current?.status || i >= before.length - 1 || JSON.stringify(was) !== JSON.stringify(t)) stale.current.add(i);
    });
    outline.current = next;
    set((old) => ({ ...old, outline: next, status: next.status, error: undefined }));
    need(...wanted.current);
  };

  useEffect(() => {
    alive.current = true;
    let busy = false;
    let again = false;
    let mark = 0;
    let absent = 0;
    let erased = false;
    // What was open already and is not in the store any more was erased, and must not stay on a screen either.
    const drop = () => {
      if (!outline.current) return;
      erased = true;
      outline.current = undefined;
      turns.current.clear();
      stale.current.clear();
      pages.current.clear();
      set({ connected: false, erased: true });
      end();
    };
    const load = async () => {
      if (busy) return void (again = true);
      busy = true;
      const began = performance.now();
      try {
        // A path takes the beginning of an id too, and may mean another session when this one is gone.
        const id = outline.current?.summary.id;
        const next = /** @type {Outline} */ (await get('outline' + join(id ?? session)));
        if (!alive.current || erased) return;
        if (id !== undefined && next.summary.id !== id) return drop();
        mark = next.mark;
        take(next);
      } catch (error) {
        if (!alive.current || erased) return;
        if (error instanceof ApiError && error.status === 404 && outline.current) return drop();
        set((old) => ({ ...old, error: /** @type {Error} */ (error) }));
        // A page may be open before the first of its session arrives.
        if (error instanceof ApiError && error.status === 404 && !outline.current && ++absent <= 5) setTimeout(() => alive.current && load(), 2000);
      }
      // A large session is asked for less often, so that following it costs the server a part of its time only.
      setTimeout(() => {
        busy = false;
        if (again && alive.current) {
          again = false;
          void load();
        }
      }, Math.max(120, 2 * (performance.now() - began)));
    };
    void load();
    const end = listen('events', { session }, (event, data) => {
      if (event === 'gone') drop();
      if (event !== 'mark' || !data) return;
      if (data.status) set((old) => ({ ...old, status: data.status }));
      if (data.mark !== mark || data.status !== outline.current?.status) void load();
    }, (connected) => alive.current && !erased && set((old) => ({ ...old, connected })));
    return () => {
      alive.current = false;
      end();
    };
  }, [session, attempt]);

  return {
    ...state,
    turn: (i) => turns.current.get(i),
    failed: (i) => {
      const p = pages.current.get(Math.floor(i / pageSize));
      return p instanceof Error ? p : undefined;
    },
    need,
    reload: () => {
      pages.current.clear();
      setAttempt((n) => n + 1);
    },
  };
}
