// One turn: what was new, what the model said, which tools ran under which permission, and what they cost.
import { html, useMemo, useState } from './vendor/preact-htm.js';
import { get, useGet } from './api.js';
import { between, bytes, classOf, clean, clock, count, duration, exact, inOut, money, plural, short, stamp, tokens, tookOf, usageKnown, words } from './format.js';
import { join, link, parts, pathOf } from './router.js';
import { TextDiff } from './difftext.js';
import { Chip, Content, CopyJSON, Findings, Foreign, Icon, Loading, memo, parseJSON, Status, say, wholeText } from './ui.js';

/** @import {About, CallView, CompactionView, EventView, Outline, OutlineTurn, PermissionView, Said, TurnView} from '../types.d.ts' */

/**
 * @typedef {object} TurnProps
 * @property {string} session
 * @property {Outline} outline
 * @property {number} index in the outline
 * @property {TurnView} [view] what was said, once it is here
 * @property {Error} [error] why it is not
 * @property {boolean} selected
 * @property {boolean} open whether everything is unfolded
 * @property {() => void} toggle
 * @property {() => void} select
 * @property {About} about
 * @property {number} now
 */

/** @param {TurnProps} p */
function Card({ session, outline, index, view, error, selected, open, toggle, select, about, now }) {
  const o = /** @type {OutlineTurn} */ (outline.turns?.[index]);
  const path = pathOf(o.address);
  const isOpen = o.state === 'open' || o.live;
  const took = isOpen ? (now - Date.parse(o.start ?? '')) * 1e6 : tookOf(o, outline.summary.start);
  const u = o.usage;
  const title = `Turn ${o.index} of run ${o.run}`;
  return html`<article class=${'turn' + (selected ? ' selected' : '') + (o.failed ? ' failed' : '')} aria-label=${title} aria-current=${selected ? 'true' : undefined} data-testid="turn" data-turn-address=${o.address}>
    <header onClick=${select}>
      <h3><a href=${link('/s' + path)} data-testid="turn-link">Turn ${o.index}</a></h3>
      <${State} o=${o} partial=${view?.partial} waiting=${view ? waitsFor(view) : undefined} />
      <span class="turn-model">${clean(o.model)}${view?.variant ? ' · ' + clean(view.variant) : ''}</span>
      ${o.stop_reason ? html`<${Chip} kind=${o.failed ? 'bad' : ''} title="why the model stopped">${words(o.stop_reason)}<//>` : null}
      ${o.purpose ? html`<${Chip} title="no part of the conversation; its tokens count">${words(o.purpose)}<//>` : null}
      ${(o.attempts ?? 0) > 1 && !isOpen ? html`<${Chip} kind="warn">${o.attempts} attempts<//>` : null}
      <span class="grow"></span>
      <span class="figures num">
        <span title="took, of which the model">
          ${duration(took)}${o.model_call_ns ? html` <span class="faint">model ${duration(o.model_call_ns)}</span>` : null}</span>
        <span title=${!usageKnown(o) ? undefined : `input ${exact(u.input)} tokens: ${exact(u.cache_read)} read from cache, ${exact(u.cache_write)} written to it\noutput ${exact(u.output)}: ${exact(u.reasoning)} of it reasoning`}>
          ${usageKnown(o) ? html`${tokens(u, u.input)} in${u.cache_read ? html` <span class="faint">
          ${count(u.cache_read)} cached</span>` : null} · ${tokens(u, u.output)} out${u.reasoning ? html` <span class="faint">
          ${count(u.reasoning)} thought</span>` : null}` : html`<span class="faint">tokens not reported</span>`}</span>
        ${o.cost !== undefined ? html`<span>${money(o.cost, o.currency)}</span>` : null}
      </span>
    </header>
    ${view ? html`<${Said_} session=${session} outline=${outline} o=${o} index=${index} v=${view} path=${path} open=${open} toggle=${toggle} about=${about} now=${now} />`
      : error ? html`<p class="bad" role="alert">This turn did not come: ${error.message}</p>` : html`<div class="ghost-turn" aria-busy="true"><p>
        ${clean(o.text)}</p><i></i><i></i></div>`}
  </article>`;
}

// What the functions among its properties do does not change.
export const Turn = memo(Card, ['session', 'outline', 'index', 'view', 'error', 'selected', 'open', 'about', 'now']);

/** @param {TurnView} v */
const waitsFor = (v) => [...(v.permissions ?? []), ...(v.tool_calls ?? []).flatMap((c) => c.permissions ?? [])].find((p) => p.waiting);

/** @param {{o: OutlineTurn, partial?: boolean, waiting?: PermissionView}} p */
function State({ o, partial, waiting }) {
  const out = [];
  if (waiting) out.push(html`<${Chip} kind="wait live" title="somebody was asked and has not answered">waiting for approval<//>`);
  else if (o.state === 'open' || o.live) out.push((o.attempts ?? 0) > 1 ? html`<${Chip} kind="warn live">retrying, attempt ${o.attempts}<//>` : html`<${Chip} kind="info live">running<//>`);
  if (o.state === 'closed') out.push(html`<${Chip} kind="warn" title="its end did not arrive">no end seen<//>`);
  if (o.state === 'missing') out.push(html`<${Chip} kind="warn" title="its span did not arrive">missing<//>`);
  if (o.failed) out.push(html`<${Chip} kind="bad">failed<//>`);
  if (partial) out.push(html`<${Chip} kind="warn" title="the reply stops where it was last seen">partial<//>`);
  if (o.trigger && o.trigger !== 'continuation') out.push(html`<${Chip} title="what made the turn begin">${words(o.trigger)}<//>`);
  if (o.hidden) out.push(html`<${Chip} kind="warn" title="hidden history, not deleted">rewound<//>`);
  if (o.prompt_changed) out.push(html`<${Chip} kind="info">prompt changed<//>`);
  if (o.tools_changed) out.push(html`<${Chip} kind="info">tools changed<//>`);
  return html`${out}`;
}

/** @param {{session: string, outline: Outline, o: OutlineTurn, index: number, v: TurnView, path: string, open: boolean, toggle: () => void, about: About, now: number}} p */
function Said_({ session, outline, o, index, v, path, open, toggle, about, now }) {
  const nothing = !v.input?.length && !v.output?.length && !v.tool_calls?.length;
  const request = v.requests?.[v.requests.length - 1];
  const links = v.trace_id ? Object.entries(about.links ?? {}).map(([name, t]) => ({ name, href: fill(t, v) })).filter((l) => l.href) : [];
  return html`
    ${v.system ? html`<${System} session=${session} outline=${outline} index=${index} v=${v} open=${open} />` : null}
    ${v.compactions?.map((c) => html`<${Compaction} session=${session} c=${c} open=${open} />`)}
    <div class="said">
      ${v.input?.map((s) => html`<${Line} session=${session} s=${s} open=${open} />`)}
      ${v.output?.map((s, i) => html`<${Line} session=${session} s=${s} open=${open} stops=${v.partial && i === (v.output?.length ?? 0) - 1} live=${o.state === 'open' || o.live} />`)}
      ${nothing ? html`<p class="absent">
        ${v.capture === 'none' || (!v.capture && !outline.captured) ? 'No content was captured of this turn.' : v.capture === 'digests' ? 'Only digests were captured of this turn.' : 'Nothing was said on this turn.'}</p>` : null}
    </div>
    ${v.error && !v.output?.some((s) => s.label === 'error') ? html`<p class="bad-line" role="note"><b>
      ${words(v.error_type) || 'error'}</b> <${Foreign} text=${v.error} /></p>` : null}
    ${v.tool_calls?.length ? html`<div class="calls">
      ${v.tool_calls.map((c) => html`<${Call} key=${c.address} session=${session} outline=${outline} c=${c} v=${v} open=${open} now=${now} />`)}</div>` : null}
    ${v.permissions?.length ? html`<div class="perms">${v.permissions.map((p) => html`<${Permission} p=${p} now=${now} />`)}</div>` : null}
    ${v.events?.length ? html`<div class="events">${v.events.map((e) => html`<${Event_} session=${session} e=${e} open=${open} />`)}</div>` : null}
    <${Findings} findings=${v.findings} />
    <footer>
      <${Facts} v=${v} session=${session} />
      <div class="turn-actions">
        ${request ? html`<a class="button" href=${link('/s' + path + '/request')} data-testid="open-request" title="What the model was sent (r)">Request <span class="faint num">
          ${plural(request.messages, 'message')}${request.bytes ? ' · ' + bytes(request.bytes) : ''} · ${request.new} new${request.missing ? ` · ${request.missing} missing` : ''}</span></a>` : html`<span class="faint small">The loop recorded no request</span>`}
        <a class="button" href=${link('/s' + path + '/replay')} data-testid="open-replay" title="Can it be run again? (p)">Replay</a>
        <button class="button" data-testid="expand" aria-pressed=${open} onClick=${toggle} title="Unfold everything (e)"><${Icon} name="unfold" />
          ${open ? 'Fold' : 'Unfold'}</button>
        <${CopyJSON} path=${'turn' + path} />
        ${links.map((l) => html`<a class="button" href=${l.href} target="_blank" rel="noreferrer noopener" data-testid=${'link-' + l.name}>
          ${l.name[0]?.toUpperCase() + l.name.slice(1)}<${Icon} name="out" /></a>`)}
      </div>
    </footer>`;
}

/**
 * A template of the configuration with the turn's ids in it; only links of the web are made.
 * @param {string} template
 * @param {TurnView} v
 */
export function fill(template, v) {
  const url = template.replaceAll('{trace}', encodeURIComponent(v.trace_id ?? '')).replaceAll('{span}', encodeURIComponent(v.span_id ?? ''));
  return /^https?:\/\//.test(url) ? url : '';
}

/** @type {Record<string, string>} */
const labels = { thinking: 'Thinking', reply: 'Reply', result: 'Tool result', user: 'User', system: 'System', error: 'Error', text: 'Text' };

/** @param {{session: string, s: Said, open: boolean, stops?: boolean, live?: boolean}} p */
function Line({ session, s, open, stops, live }) {
  const folded = s.label === 'thinking' || s.label === 'result';
  const [shown, set] = useState(false);
  const is = shown || open || !folded;
  const known = Object.hasOwn(labels, s.label);
  const label = (known && labels[s.label]) || words(s.label);
  const size = s.text.bytes ?? s.text.text?.length;
  const gist = clean((s.text.text ?? '').slice(0, 240));
  return html`<div class=${'line l-' + (known ? s.label : 'other')} data-testid=${'said-' + clean(s.label)}>
    <div class="who"><b>${label}</b>${s.from ? html`<span class="faint"><${Foreign} text=${s.from} /></span>` : null}</div>
    <div class="what">${folded && !open ? html`<button class="fold" aria-expanded=${is} onClick=${() => set(!shown)}>
      <${Icon} name=${is ? 'down' : 'right'} /><span>${is ? label : gist || 'nothing of it is here'}</span>${size ? html`<span class="faint num">
      ${bytes(size)}</span>` : null}</button>` : null}
      ${is ? html`<${Content} session=${session} body=${s.text} open=${open} prose=${s.label === 'user' || s.label === 'reply' || s.label === 'thinking'} label=${label.toLowerCase()} lines=${s.label === 'reply' ? 24 : 14} />` : null}
      ${stops ? html`<p class="stops" data-testid="partial">
        ${live ? html`<span class="caret" aria-hidden="true"></span> still being written` : '■ It stops here: this is the last that was seen of the reply'}</p>` : null}
    </div></div>`;
}

/** @param {{session: string, outline: Outline, c: CallView, v: TurnView, open: boolean, now: number}} p */
function Call({ session, outline, c, v, open, now }) {
  const running = c.state === 'open' || (v.live && !c.end && !c.outcome);
  const waiting = c.permissions?.find((p) => p.waiting);
  const outcome = c.outcome ?? (waiting ? 'waiting' : running ? 'running' : 'no end seen');
  const took = running && !c.outcome && c.start ? (v.live ? (now - Date.parse(c.start)) * 1e6 : undefined) : between(c.start, c.end);
  return html`<section class=${'call ' + classOf('o', outcome)} aria-label=${'Tool call ' + clean(c.name)} data-testid="call" data-call=${c.id} data-outcome=${clean(outcome)}>
    <header><h4>${clean(c.name)}</h4><${Chip} kind=${outcomeKind(outcome)}>${words(outcome)}<//>
      ${c.truncated ? html`<${Chip} kind="warn" title="the result was cut before the model saw it">truncated<//>` : null}${c.state === 'closed' ? html`<${Chip} kind="warn" title="frozen in its last state">frozen<//>` : null}
      <span class="grow"></span><code class="faint">${short(c.id ?? '', 18)}</code><span class="num">${duration(took)}</span></header>
    <div class="call-perm">${c.permissions?.length ? c.permissions.map((p) => html`<${Permission} p=${p} now=${now} />`) : html`<p class="perm p-none">
      <i aria-hidden="true"></i>permission ${words(c.permission_state || 'not recorded')}</p>`}</div>
    <div class="io">
      ${c.input ? html`<div><h5>Input</h5><${Content} session=${session} body=${c.input} open=${open} lines=${10} label="input" /></div>` : null}
      ${c.output || c.error ? html`<div><h5>Output</h5>${c.error ? html`<p class="bad-line">
        <${Foreign} text=${c.error} /></p>` : null}${c.output ? html`<${Content} session=${session} body=${c.output} open=${open} lines=${10} label="output" />` : null}</div>` : c.outcome ? null : html`<div>
        <h5>Output</h5><p class="absent">${waiting ? 'waits for approval' : running ? 'none yet' : 'none was seen'}</p></div>`}
    </div>
    ${c.children?.map((a) => html`<${SubAgent} outline=${outline} address=${a} />`)}
    ${c.events?.map((e) => html`<${Event_} session=${session} e=${e} open=${open} />`)}
    <${Findings} findings=${c.findings} />
  </section>`;
}

/** @param {string} o */
const outcomeKind = (o) => (o === 'ok' ? 'good' : o === 'error' ? 'bad' : o === 'denied' ? 'deny' : o === 'running' ? 'info live' : o === 'waiting' ? 'wait live' : 'warn');

/** @type {Record<string, string>} */
const decisions = { allow: 'allowed', deny: 'denied', ask: 'asked' };

/** @param {{p: PermissionView, now: number}} p */
function Permission({ p, now }) {
  const wait = p.waiting ? (p.at ? (now - Date.parse(p.at)) * 1e6 : undefined) : p.wait_ns;
  return html`<p class=${'perm ' + classOf('p', p.waiting ? 'wait' : (p.action ?? 'none'))} data-testid="permission"><i aria-hidden="true"></i>
    <b>${p.waiting ? 'waiting for an answer' : (decisions[p.action ?? ''] ?? words(p.action))}</b>${p.tool ? html` ${clean(p.tool)}` : null}
    ${p.rule ? html`<span>rule <code>
      <${Foreign} text=${p.rule} /></code></span>` : null}${p.source ? html`<span>from ${words(p.source)}</span>` : null}${p.decided_by ? html`<span>decided by ${words(p.decided_by)}</span>` : null}
    ${p.answer ? html`<span>answer ${words(p.answer)}</span>` : null}${p.reason ? html`<span>
      <${Foreign} text=${p.reason} /></span>` : null}${wait ? html`<span class="num">waited ${duration(wait)}</span>` : null}${p.inferred ? html`<span class="faint">inferred</span>` : null}</p>`;
}

/** @param {{session: string, e: EventView, open: boolean}} p */
const Event_ = ({ session, e, open }) => html`<div class="event"><span class="faint num">${clock(e.at)}</span> <b>${words(e.type)}</b>
  ${e.text ? html`<${Content} session=${session} body=${e.text} open=${open} lines=${4} label="event" />` : null}</div>`;

/**
 * @param {number | undefined} a
 * @param {number | undefined} b
 * @param {string} unit
 */
const change = (a, b, unit) => a === undefined && b === undefined ? null : html`<span class="num"><b>${a === undefined ? '?' : count(a)}</b> → <b>
  ${b === undefined ? '?' : count(b)}</b> ${unit}</span>`;

/** @param {{session: string, c: CompactionView, open: boolean}} p */
const Compaction = ({ session, c, open }) => html`<section class="compaction" aria-label="Compaction" data-testid="compaction"><header>
  <i aria-hidden="true">◆</i><b>Compaction</b> ${words(c.kind)} ${change(c.messages_before, c.messages_after, 'messages')} ${change(c.tokens_before, c.tokens_after, 'tokens')}${c.usage ? html`<span class="num" title="of its own model calls, part of no turn"> used ${inOut({ usage: c.usage, usage_told: true })}</span>` : null}
  ${c.trigger ? html`<span>by ${words(c.trigger)}</span>` : null}${c.reason ? html`<span>
    <${Foreign} text=${c.reason} /></span>` : null}${c.applied === false ? html`<${Chip} kind="warn">not applied<//>` : null}<span class="faint num">
    ${clock(c.at)}</span></header>
  ${c.summary ? html`<${Content} session=${session} body=${c.summary} open=${open} prose label="summary" />` : null}</section>`;

/** @param {{session: string, outline: Outline, index: number, v: TurnView, open: boolean}} p */
function System({ session, outline, index, v, open }) {
  const [shown, set] = useState(false);
  const [compared, setCompared] = useState(/** @type {{was: string, is: string} | undefined} */ (undefined));
  const changed = v.prompt_changed;
  const body = /** @type {import('../types.d.ts').Body} */ (v.system);
  const compare = async () => {
    if (compared) return setCompared(undefined);
    const turns = outline.turns ?? [];
    for (let i = index - 1; i >= 0; i--) { // the prompt stands where it changed, and at the beginning of a run
      const t = turns[i];
      if (!t || !(t.prompt_changed || t.index === 0)) continue;
      try {
        const earlier = /** @type {TurnView} */ (await get('turn' + pathOf(t.address)));
        if (!earlier.system) continue;
        const [was, is] = await Promise.all([wholeText(session, earlier.system), wholeText(session, body)]);
        set(true);
        return setCompared({ was, is });
      } catch (e) {
        return say('The earlier prompt did not come: ' + (e instanceof Error ? e.message : ''));
      }
    }
    say('No earlier system prompt is known');
  };
  return html`<section class=${'system' + (changed ? ' changed' : '')} aria-label="System prompt" data-testid="system">
    <div class="system-head"><button class="fold" aria-expanded=${shown || open} onClick=${() => set(!shown)}>
      <${Icon} name=${shown || open ? 'down' : 'right'} /><b>System prompt${changed ? ' changed' : ''}</b><span class="faint">
      ${clean((body.text ?? '').slice(0, 120))}</span></button>
    ${changed || index > 0 ? html`<button class="link" data-testid="system-diff" aria-pressed=${compared !== undefined} onClick=${compare}>
      ${compared ? 'Whole prompt' : 'What changed'}</button>` : null}</div>
    ${shown || open ? compared ? compared.was === compared.is ? html`<p class="absent">It is the same as the one before.</p>` : html`<${TextDiff} before=${compared.was} after=${compared.is} />` : html`<${Content} session=${session} body=${body} prose open=${open} label="system prompt" />` : null}
  </section>`;
}

/** @param {{v: TurnView, session: string}} p */
function Facts({ v, session }) {
  const offered = v.offered;
  const called = new Set(v.called ?? []);
  const rules = useMemo(() => parseJSON(v.rules?.text), [v.rules]);
  /** @type {[string, unknown][]} */
  const facts = [];
  /** @param {string} name @param {unknown} value */
  const add = (name, value) => void (value !== undefined && value !== '' && facts.push([name, value]));
  add('provider', v.provider && clean(v.provider));
  add('temperature', v.temperature);
  add('reasoning', v.reasoning_level && words(v.reasoning_level));
  add('max output', v.max_tokens && exact(v.max_tokens));
  add('first token', v.first_chunk_ns && duration(v.first_chunk_ns));
  add('started', v.start && stamp(v.start));
  if (v.discarded_usage) add('discarded', inOut({ usage: v.discarded_usage, usage_told: true }));
  add('prompt', v.prompt_digest && html`<code title=${clean(v.prompt_digest)}>${short(v.prompt_digest.replace(/^sha256:/, ''), 10)}</code>`);
  return html`<dl class="facts">${facts.map(([n, value]) => html`<div><dt>${n}</dt><dd class="num">${value}</dd></div>`)}
    <div class="wide"><dt>tools</dt><dd>${offered ? html`<details data-testid="tools"><summary>${called.size} of ${offered.length} called</summary>
      <span class="tools">${offered.map((t) => html`<span class=${'tool' + (called.has(t) ? ' called' : '')}>
      ${called.has(t) ? '● ' : ''}${clean(t)}</span>`)}</span></details>` : html`<span class="faint">what was offered is not known</span>`}</dd></div>
    <div class="wide"><dt>permission rules</dt><dd>${v.rules ? html`<details data-testid="rules"><summary>
      ${rules && rules.value && typeof rules.value === 'object' ? plural(Object.keys(rules.value).length, 'rule') + ' in force' : 'in force'}</summary>
      <${Content} session=${session} body=${v.rules} label="rules" /></details>` : html`<span class="faint">
      ${words(v.rules_state || 'not recorded')}</span>`}</dd></div></dl>`;
}

/**
 * A run that a tool call spawned: its turns in a line each, in place.
 * @param {{outline: Outline, address: string}} p
 */
export function SubAgent({ outline, address }) {
  const [shown, set] = useState(false);
  const own = (outline.runs ?? []).find((r) => r.address === address);
  const child = (outline.children ?? []).find((c) => c.run === address);
  const other = parts(address).session;
  const { data, error } = useGet(shown && !own ? 'outline' + join(other) : null);
  const there = /** @type {Outline | undefined} */ (own ? outline : data);
  const run = own ?? there?.runs?.find((r) => r.address === address);
  const turns = (there?.turns ?? []).filter((t) => !run || t.run === run.number);
  const first = turns[0];
  const name = own?.agent ?? child?.agent ?? run?.agent ?? '';
  return html`<div class="sub" data-testid="sub-agent"><div class="sub-head"><button class="fold" aria-expanded=${shown} onClick=${() => set(!shown)}>
    <${Icon} name=${shown ? 'down' : 'right'} />
    <b>Sub-agent</b> ${clean(name)}${own ? html` <span class="faint">run ${own.number} · ${plural(own.turns, 'turn')} · ${inOut(own)}</span>` : html` <span class="faint">session ${short(other)}</span>`}</button>
    ${own?.status ? html`<${RunStatus} status=${own.status} />` : child?.status ? html`<${Status} status=${child.status} />` : null}
      <a class="link" href=${link('/s' + (own && first ? pathOf(first.address) : join(other)))}>Go there</a></div>
    ${shown ? error ? html`<p class="bad">${error.message}</p>` : !there ? html`<${Loading} />` : html`<ol class="sub-turns">
      ${turns.slice(0, 50).map((t) => html`<li><a href=${link('/s' + pathOf(t.address))}>turn ${t.index}</a> <span>
      ${clean(t.text)}</span> <span class="faint num">
      ${inOut(t)} · ${duration(tookOf(t, there.summary.start))}</span></li>`)}${turns.length > 50 ? html`<li class="faint">and ${turns.length - 50} more</li>` : null}</ol>` : null}</div>`;
}

/** @param {{status: string, word?: string}} p */
export const RunStatus = ({ status, word }) => html`<span class=${'status ' + classOf('r', status)} data-status=${clean(status)}><i aria-hidden="true"></i>
  ${words(status)}${word && word !== status ? html` <span class="faint">${clean(word)}</span>` : null}</span>`;
