// Two texts, as one with marks or side by side. Signs stand beside the colours.
import { html, useMemo } from './vendor/preact-htm.js';
import { hunks, lineDiff } from './linediff.js';
import { Foreign } from './ui.js';

/** @import {Line} from './linediff.js' */
/** @import {TextDiff as Text} from '../types.d.ts' */

/** @type {Record<string, string>} */
const kinds = { '+': 'added', '-': 'removed', ' ': '' };

/** The lines of a text that the server compared. @param {Text} t */
export function linesOf(t) {
  /** @type {(Line | null)[]} */
  const out = [];
  t.hunks?.forEach((h, i) => {
    if (i > 0 || h.a > 1 || h.b > 1) out.push(null);
    for (const l of h.lines) out.push({ kind: l.op === '+' ? '+' : l.op === '-' ? '-' : ' ', text: l.text, words: l.words });
  });
  return out;
}

/** The text of a line; words that the other side has not are marked. @param {{l: Line}} p */
const LineText = ({ l }) => html`${l.words ? l.words.map((w) => (w.op === '=' ? html`<${Foreign} text=${w.text} />` : html`<em>
  <${Foreign} text=${w.text} /></em>`)) : html`<${Foreign} text=${l.text} />`}`;

/** @param {{lines: (Line | null)[]}} p */
export const Unified = ({ lines }) => html`<pre class="diff" data-testid="diff-unified">
  ${lines.map((l) => l === null ? html`<span class="skipped">⋯</span>` : html`<span class=${'l ' + kinds[l.kind]}><b aria-hidden="true">${l.kind}</b>
  ${l.kind !== ' ' ? html`<span class="offscreen">${kinds[l.kind]}: </span>` : null}<${LineText} l=${l} />${'\n'}</span>`)}</pre>`;

/**
 * Side by side where there is room for it.
 * @param {{lines: (Line | null)[]}} p
 */
export function Sides({ lines }) {
  if (matchMedia('(max-width: 860px)').matches) return html`<${Unified} lines=${lines} />`;
  /** @type {([Line | undefined, Line | undefined] | null)[]} */
  const rows = [];
  for (let i = 0; i < lines.length;) {
    const l = lines[i];
    if (l === null) rows.push(null), i++;
    else if (l?.kind === ' ') rows.push([l, l]), i++;
    else {
      const gone = [];
      const come = [];
      for (; lines[i]?.kind === '-'; i++) gone.push(lines[i]);
      for (; lines[i]?.kind === '+'; i++) come.push(lines[i]);
      for (let k = 0; k < Math.max(gone.length, come.length); k++) rows.push([gone[k] ?? undefined, come[k] ?? undefined]);
    }
  }
  /** @param {Line | undefined} l */
  const cell = (l) => (l ? html`<span class=${'l ' + kinds[l.kind]}><b aria-hidden="true">${l.kind}</b>
    <${LineText} l=${l} /></span>` : html`<span class="l none"></span>`);
  return html`<div class="diff sides" data-testid="diff-sides">${rows.map((r) => (r === null ? html`<span class="skipped">⋯</span>
    <span class="skipped">⋯</span>` : html`${cell(r[0])}${cell(r[1])}`))}</div>`;
}

/** @param {{before: string, after: string, sides?: boolean, around?: number}} p */
export function TextDiff({ before, after, sides, around }) {
  const lines = useMemo(() => hunks(lineDiff(before, after), around), [before, after, around]);
  return sides ? html`<${Sides} lines=${lines} />` : html`<${Unified} lines=${lines} />`;
}
