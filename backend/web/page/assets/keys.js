// The keyboard: who is on the page says what a key does there; the newest says it first.
import { useEffect, useRef } from './vendor/preact-htm.js';

/** @typedef {Record<string, () => void | boolean>} Keys what a key does; false passes it on. 'g l' is g, then l. */

/** @type {{current: Keys}[]} */
const stack = [];
let prefix = '';
let prefixAt = 0;

/** @param {Keys} keys */
export function useKeys(keys) {
  const ref = useRef(keys);
  ref.current = keys;
  useEffect(() => {
    stack.push(ref);
    return () => void stack.splice(stack.indexOf(ref), 1);
  }, []);
}

addEventListener('keydown', (e) => {
  if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
  const t = /** @type {HTMLElement} */ (e.target);
  const typing = t instanceof HTMLInputElement ? !['checkbox', 'radio', 'button'].includes(t.type) : t instanceof HTMLTextAreaElement || t instanceof HTMLSelectElement;
  if (typing) {
    if (e.key === 'Escape') t.blur();
    return;
  }
  if (e.key === 'Enter' && t.closest?.('a, button, summary, input, [role=button]')) return; // these know themselves
  const chord = prefix && Date.now() - prefixAt < 1500 ? prefix + ' ' + e.key : '';
  prefix = '';
  for (const key of chord ? [chord] : [e.key]) {
    for (let i = stack.length - 1; i >= 0; i--) {
      const act = stack[i]?.current[key];
      if (act && act() !== false) {
        e.preventDefault();
        return;
      }
    }
  }
  if (!chord && e.key === 'g') {
    prefix = e.key;
    prefixAt = Date.now();
  }
});

/** What the help overlay lists. @type {[string, [string, string][]][]} */
export const help = [
  ['Everywhere', [
    ['/', 'search'], ['g l', 'list of sessions'], ['g s', 'statistics'], ['g f', 'find in content'], ['t', 'light or dark'], ['c', 'copy what is shown as JSON'],
    ['?', 'this help'], ['Esc', 'close, or back'],
  ]],
  ['List', [['j k', 'next, previous session'], ['Enter', 'open it'], ['x', 'choose it for a diff'], ['d', 'diff of the two chosen'], ['n', 'more sessions']]],
  ['Session', [
    ['j k', 'next, previous turn'], ['[ ]', 'previous, next run'], ['Home End', 'first, last turn'], ['e', 'unfold everything of the turn'], ['r', 'its request'],
    ['p', 'its replay'], ['c', 'copy the turn as JSON'], ['d', 'diff with another session'], ['h', 'hidden history'], ['o', 'list of turns (small screens)'],
  ]],
  ['Timeline, when focused', [['+ −', 'zoom'], ['← →', 'move'], ['0', 'all of it']]],
  ['Request', [['j k', 'next, previous message'], ['n', 'only what is new'], ['e', 'unfold all'], ['[ ]', 'previous, next turn'], ['Esc', 'back to the turn']]],
];
