// How numbers, times and foreign text are written; the same as in the terminal (inspect/humanise.go).

/**
 * A duration: 412µs, 159ms, 4.2s, 3m07s, 2h05m, 3d04h.
 * @param {number | undefined} ns
 * @returns {string}
 */
export function duration(ns) {
  if (ns === undefined || Number.isNaN(ns)) return '';
  if (ns < 0) return '-' + duration(-ns);
  if (ns === 0) return '0s';
  if (ns < 1e3) return '<1µs';
  if (ns < 1e6) return Math.floor(ns / 1e3) + 'µs';
  if (ns < 1e9) return Math.floor(ns / 1e6) + 'ms';
  if (ns < 1e10) return (Math.floor(ns / 1e8) / 10).toFixed(1) + 's';
  const s = Math.floor(ns / 1e9);
  if (s < 60) return s + 's';
  if (s < 3600) return Math.floor(s / 60) + 'm' + two(s % 60) + 's';
  if (s < 86400) return Math.floor(s / 3600) + 'h' + two(Math.floor((s % 3600) / 60)) + 'm';
  return Math.floor(s / 86400) + 'd' + two(Math.floor((s % 86400) / 3600)) + 'h';
}

/** @param {number} n */
const two = (n) => String(n).padStart(2, '0');

/**
 * A count: exact below ten thousand, then 12.3k, 123k, 1.2M.
 * @param {number | undefined} n
 */
export function count(n) {
  if (n === undefined) return '';
  for (const [from, unit, name] of /** @type {[number, number, string][]} */ ([[1e12, 1e12, 'T'], [1e9, 1e9, 'G'], [1e6, 1e6, 'M'], [1e4, 1e3, 'k']])) {
    if (n < from) continue;
    return n / unit < 100 ? (Math.floor((n / unit) * 10) / 10).toFixed(1) + name : Math.floor(n / unit) + name;
  }
  return String(n);
}

const grouped = new Intl.NumberFormat('en-US', { useGrouping: 'min2' });
/** @param {number | undefined} n */
export const exact = (n) => (n === undefined ? '' : grouped.format(n));

/** @param {number | undefined} n */
export function bytes(n) {
  if (n === undefined) return '';
  for (const [unit, name] of /** @type {[number, string][]} */ ([[1e9, ' GB'], [1e6, ' MB'], [1e3, ' kB']])) {
    if (n < unit || n < 1e4) continue;
    return n < 100 * unit ? (Math.floor((n / unit) * 10) / 10).toFixed(1) + name : Math.floor(n / unit) + name;
  }
  return n + ' B';
}

/**
 * @param {number | undefined} amount
 * @param {string | undefined} currency
 */
export function money(amount, currency) {
  if (amount === undefined || amount === null) return '';
  const size = Math.abs(amount);
  const digits = size < 0.01 && size > 0 ? 6 : size < 1 ? 4 : 2;
  const text = amount.toFixed(digits);
  return currency === 'USD' ? '$' + text : currency === 'EUR' ? '€' + text : text + (currency ? ' ' + clean(currency) : '');
}

/** @param {number} part */
export function percent(part) {
  if (!part) return '0 %';
  if (part < 0.001) return '<0.1 %';
  if (part < 0.0995) return (part * 100).toFixed(1) + ' %';
  if (part < 1 && part > 0.99) return (Math.floor(part * 1000) / 10).toFixed(1) + ' %';
  return Math.round(part * 100) + ' %';
}

/**
 * Milliseconds since 1970, with what is beyond them behind the point; NaN for a time that is not known.
 * @param {string | undefined} time
 */
export function ms(time) {
  if (!time || time.startsWith('0001-')) return NaN;
  const beyond = /\.\d{3}(\d+)/.exec(time);
  return Date.parse(time) + (beyond ? Number('0.' + beyond[1]) : 0);
}

/**
 * Whether a time is known. Recordings without times stand in the first years from 1970 on.
 * @param {string | undefined} time
 */
export const timeKnown = (time) => ms(time) >= 1e12;

/**
 * Whether tokens were reported; where not, the counts are zero and say nothing. A summary does not keep which zeros were.
 * @param {{usage_told?: boolean, usage: import('../types.d.ts').Usage}} x
 */
export const usageKnown = (x) => x.usage_told || Object.values(x.usage).some((n) => n > 0);

/**
 * Tokens in and out in a few words.
 * @param {{usage_told?: boolean, usage: import('../types.d.ts').Usage}} x
 */
export const inOut = (x) => (usageKnown(x) ? `${tokens(x.usage, x.usage.input)} in · ${tokens(x.usage, x.usage.output)} out` : 'tokens not reported');

/**
 * A count of tokens of some usage: behind ≥ where the true one may be more.
 * @param {{lower_bound?: boolean}} usage
 * @param {number | undefined} n
 */
export const tokens = (usage, n) => (usage.lower_bound ? '≥' : '') + count(n);

/**
 * Nanoseconds from one time to another; undefined where one is not known.
 * @param {string | undefined} from
 * @param {string | undefined} to
 */
export function between(from, to) {
  if (!timeKnown(from) || !timeKnown(to)) return undefined;
  const ns = Math.round((ms(to) - ms(from)) * 1e6);
  return Number.isNaN(ns) ? undefined : ns;
}

/**
 * Nanoseconds that a turn took. It cannot have begun before its session: a start that says so is only a bound.
 * @param {{start?: string, end?: string}} turn
 * @param {string} session its start
 */
export const tookOf = (turn, session) => between(ms(turn.start) < ms(session) ? session : turn.start, turn.end);

/**
 * @param {string | undefined} time
 * @param {number} now in milliseconds
 */
export function ago(time, now) {
  if (!timeKnown(time)) return '';
  const d = (now - ms(time)) / 1000;
  if (Number.isNaN(d)) return '';
  if (d < -2) return 'in the future';
  if (d < 1) return 'just now';
  if (d < 60) return Math.floor(d) + 's ago';
  if (d < 3600) return Math.floor(d / 60) + 'm ago';
  if (d < 172800) return Math.floor(d / 3600) + 'h ago';
  return Math.floor(d / 86400) + 'd ago';
}

/**
 * Date and time in the reader's zone.
 * @param {string | undefined} time
 */
export function stamp(time) {
  const t = ms(time);
  if (!timeKnown(time)) return '';
  const d = new Date(t);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(time)}`;
}

/** @param {string | undefined} time */
export function clock(time) {
  if (!timeKnown(time)) return '';
  const t = ms(time);
  if (Number.isNaN(t)) return '';
  const d = new Date(t);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/**
 * @param {number} n
 * @param {string} one
 */
export const plural = (n, one) => (n === 1 ? '1 ' : count(n) + ' ') + one + (n === 1 ? '' : 's');

/** @param {string | undefined} s */
export const words = (s) => (s === 'sub_agent' ? 'sub-agent' : clean(s ?? '').replaceAll('_', ' '));

// What changes how its neighbours look, or looks like nothing: control characters, invisible and private ones, line and paragraph
// separators. Line feed and tab are layout; the joiner that emoji are made with stays.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\p{Co}]|(?!\u200d)\p{Cf}/gu;

/** @param {string} c */
const spell = (c) => {
  const code = /** @type {number} */ (c.codePointAt(0));
  return code < 0x100 ? '\\x' + code.toString(16).padStart(2, '0') : '\\u' + code.toString(16).padStart(4, '0');
};

/**
 * Foreign text with what cannot be seen spelled out, in pieces: [text, whether it is spelled out].
 * @param {string} text
 * @returns {[string, boolean][]}
 */
export function pieces(text) {
  text = text.replaceAll('\r\n', '\n');
  /** @type {[string, boolean][]} */
  const out = [];
  let at = 0;
  for (const m of text.matchAll(hidden)) {
    if (m.index > at) out.push([text.slice(at, m.index), false]);
    out.push([spell(m[0]), true]);
    at = m.index + m[0].length;
  }
  if (at < text.length) out.push([text.slice(at), false]);
  return out;
}

/**
 * Foreign text for one line: runs of white space are one blank, what cannot be seen is spelled out.
 * @param {string | undefined} text
 */
export const clean = (text) => (text ?? '').replace(/\s+/g, ' ').replace(hidden, spell);

/**
 * An id cut to what people can distinguish.
 * @param {string} id
 * @param {number} [n]
 */
export const short = (id, n = 8) => {
  const c = [...clean(id)];
  return c.length > n + 4 ? c.slice(0, n).join('') + '…' : c.join('');
};

/**
 * The classes that app.css draws values of senders with, by their first letter: status of a session, a run, outcome,
 * decision, action and kind of a mark, state of a difference.
 * @type {Record<string, string[]>}
 */
const drawn = {
  s: ['busy', 'retrying', 'waiting_on_approval', 'waiting_on_user_input', 'idle', 'error', 'aborted'],
  r: ['open', 'completed', 'aborted', 'cancelled', 'error', 'rejected', 'vetoed'],
  o: ['ok', 'error', 'denied', 'skipped', 'cancelled', 'running', 'waiting', 'none'],
  p: ['allow', 'deny', 'ask', 'wait', 'none'],
  a: ['allow', 'deny', 'ask'],
  m: ['compaction', 'permission', 'prompt', 'tool_call'],
  d: ['same', 'changed', 'only_a', 'only_b', 'unknown'],
};

/**
 * The class of a value that a sender may have made up: "other" stands for all that app.css does not know.
 * @param {string} letter
 * @param {string | undefined} value
 */
export const classOf = (letter, value) => letter + '-' + (drawn[letter]?.includes(value ?? '') ? value : 'other');
