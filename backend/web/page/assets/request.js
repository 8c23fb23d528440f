// The request inspector: exactly what the model was sent on a turn, piece by piece, with where each piece came from and what is new.
import { html, useEffect, useMemo, useRef, useState } from './vendor/preact-htm.js';
import { getBlob, useGet } from './api.js';
import { bytes, clean, exact, plural, short, words } from './format.js';
import { useKeys } from './keys.js';
import { join, link, navigate, pathOf, withQuery } from './router.js';
import { linesOf, Unified } from './difftext.js';
import { Chip, Content, copyJSON, CopyJSON, Empty, Failure, Icon, Loading, useTitle, say } from './ui.js';
import { Virtual } from './virtual.js';

/** @import {Change, Diff, MissingPart, Outline, OutlineTurn, Provenance, RequestJSON, RequestPart} from '../types.d.ts' */
/** @import {Place} from './router.js' */
/** @import {VirtualHandle} from './virtual.js' */

// Provenance has a colour, and a sign besides, since colour alone is not seen by everybody.
/** @type {Record<string, [sign: string, name: string]>} */
const kinds = {
  'loop-turn': ['↻', 'turns of the loop'], 'steering': ['→', 'steering'], 'follow-up': ['⤷', 'follow-up'], 'memory-tier': ['M', 'memory'], 'identity-block': ['I', 'identity'],
  'system-prompt': ['S', 'system prompt'], 'unknown': ['?', 'unknown'], '': ['·', 'not reported'],
};
const other = /** @type {[string, string]} */ (['◦', 'other']);

/** @param {RequestPart} m */
const kindOf = (m) => {
  const kind = typeof m.provenance === 'object' ? (m.provenance.kind ?? 'unknown') : (m.provenance ?? '');
  return Object.hasOwn(kinds, kind) ? kind : 'other';
};

/** @param {RequestPart} m */
function fromWords(m) {
  if (typeof m.provenance === 'string') return clean(m.provenance);
  const p = /** @type {Provenance} */ (m.provenance ?? {});
  if (p.kind === 'loop-turn') return `turn ${p.turn_index}:${p.message_index} ${clean(p.role)}`;
  if (p.kind === 'identity-block') return `identity block ${clean(p.name)}:${p.order}`;
  if (p.kind === 'memory-tier') return `memory ${clean(p.tier)}:${clean(p.record_id)}`;
  return words(p.kind) || 'not reported';
}

/**
 * A body as the text that Content shows.
 * @param {unknown} body
 */
const textOf = (body) => (body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body));

/** @param {RequestPart} p */
const asBody = (p) => ({ text: textOf(p.body), bytes: p.bytes, block: p.block, state: p.state });

/**
 * One line of what a message says.
 * @param {unknown} body
 * @returns {string}
 */
function gist(body) {
  if (typeof body === 'string') return clean(body.slice(0, 300));
  if (!body || typeof body !== 'object') return '';
  const content = /** @type {{content?: unknown}} */ (body).content;
  if (typeof content === 'string') return clean(content.slice(0, 300));
  if (!Array.isArray(content)) return clean(JSON.stringify(body).slice(0, 300));
  return clean(content.map((c) => {
    if (typeof c === 'string') return c;
    const x = /** @type {Record<string, unknown>} */ (c ?? {});
    if (typeof x['text'] === 'string') return x['text'];
    if (typeof x['thinking'] === 'string') return '(thinks) ' + x['thinking'];
    if (typeof x['name'] === 'string') return `${x['name']}(${JSON.stringify(x['arguments'] ?? x['input'] ?? {})})`;
    return typeof x['content'] === 'string' ? x['content'] : `[${x['type'] ?? 'part'}]`;
  }).join(' ').slice(0, 300));
}

/**
 * @typedef {object} Line a row of the inspector
 * @property {string} key
 * @property {string} what
 * @property {RequestPart} part
 * @property {string} kind its provenance, or what it is
 */

/** @param {{at: Place, session: string, run: string, turn: string}} p */
export function RequestPage({ at, session, run, turn }) {
  const attempt = at.query.get('attempt') ?? undefined;
  const path = join(session, run, turn) + (attempt !== undefined ? '/' + encodeURIComponent(attempt) : '');
  const { data, error, loading } = useGet('request' + path);
  const q = /** @type {RequestJSON | undefined} */ (data);
  const { data: outlineData } = useGet('outline' + join(session));
  const outline = /** @type {Outline | undefined} */ (outlineData);
  useTitle(`Request of turn ${turn}`);
  const onlyNew = at.query.get('new') === '1';
  const only = at.query.get('from');
  const [open, setOpen] = useState(/** @type {Map<string, boolean>} */ (new Map()));
  const [all, setAll] = useState(false);
  const [current, setCurrent] = useState(-1);
  const list = useRef(/** @type {VirtualHandle | null} */ (null));
  useEffect(() => {
    setOpen(new Map());
    setCurrent(-1);
  }, [path]);

  const lines = useMemo(() => {
    /** @type {Line[]} */
    const out = [];
    if (!q) return out;
    const add = (/** @type {string} */ key, /** @type {string} */ what, /** @type {string} */ kind, /** @type {RequestPart | undefined} */ part) => void (part && out.push({ key, what, part, kind }));
    add('system', 'System prompt', 'system-prompt', q.system);
    add('tools', 'Tools', 'tools', q.tools);
    add('params', 'Parameters', 'params', q.params);
    q.messages?.forEach((m, i) => add('m' + i, fromWords(m), kindOf(m), m));
    return out;
  }, [q]);
  const shown = useMemo(() => lines.filter((l) => (!onlyNew || l.part.new !== false) && (!only || l.kind === only)), [lines, onlyNew, only]);
  const counts = useMemo(() => {
    /** @type {Map<string, number>} */
    const c = new Map();
    for (const m of q?.messages ?? []) c.set(kindOf(m), (c.get(kindOf(m)) ?? 0) + 1);
    return c;
  }, [q]);
  const isOpen = (/** @type {Line} */ l) => open.get(l.key) ?? (all || (l.part.new === true && l.key.startsWith('m')));
  const toggle = (/** @type {Line} */ l) => setOpen(new Map(open).set(l.key, !isOpen(l)));

  const turns = outline?.turns ?? [];
  const here = turns.findIndex((t) => q && (t.address === q.address || q.address.startsWith(t.address + '/') || (t.run === q.run_number && t.index === q.turn)));
  const go = (/** @type {number} */ by) => {
    const t = turns[here + by];
    if (here >= 0 && t) navigate('/s' + pathOf(t.address) + '/request' + location.search.replace(/([?&])attempt=[^&]*/, '$1'), { replace: true });
  };
  const move = (/** @type {number} */ by) => {
    const to = Math.max(0, Math.min(shown.length - 1, current + by));
    setCurrent(to);
    list.current?.scrollTo(to, 'nearest');
  };
  const back = link('/s' + join(session, run, turn));
  const filter = (/** @type {Record<string, string | undefined>} */ changes) => navigate(withQuery(changes), { replace: true });
  useKeys({
    j: () => move(1), k: () => move(-1), '[': () => go(-1), ']': () => go(1), e: () => (setAll(!all), setOpen(new Map())), n: () => filter({ new: onlyNew ? undefined : '1' }),
    Enter: () => { const l = shown[current]; if (l) toggle(l); }, c: () => void copyJSON('request' + path), Escape: () => navigate(back),
  });
  const download = async () => {
    if (!q) return;
    try {
      const url = URL.createObjectURL(await getBlob('request' + path, { raw: 1 }));
      const a = document.createElement('a');
      a.href = url;
      a.download = `request-${short(q.session, 8).replace(/[^\w-]/g, '')}-run${q.run_number}-turn${q.turn}.json`;
      a.click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    } catch (e) {
      say('Not downloaded: ' + (e instanceof Error ? e.message : ''));
    }
  };

  if (!q) return error ? html`<${Failure} error=${error} />` : html`<${Loading} what="Loading the request" />`;
  const news = q.messages?.filter((m) => m.new).length ?? 0;
  const before = here > 0 ? turns[here - 1] : undefined;
  const most = Math.max(1, ...lines.map((l) => l.part.bytes ?? 0));
  const attempts = Array.from({ length: q.attempts }, (_, i) => i + (q.attempts > 1 && q.attempt >= q.attempts ? 1 : 0));
  return html`<div class=${'page request-page' + (loading ? ' stale' : '')}>
    <header class="page-head"><p class="crumbs"><a href=${link('/s' + join(session))}>
      ${clean(outline?.summary.title) || short(session, 12)}</a> <span aria-hidden="true">/</span> <a href=${back}>run ${q.run_number}, turn ${q.turn}</a></p>
      <div class="session-title"><h1>Request</h1>
        ${q.exact ? html`<${Chip} kind="good" title="the bytes are those that the loop emitted">byte for byte<//>` : q.bytes ? html`<${Chip} kind="warn" title="put together in a fixed order">put together<//>` : html`<${Chip} kind="bad">not whole<//>`}${q.redacted ? html`<${Chip} kind="warn">redacted<//>` : null}
        <span class="grow"></span>
        <span class="buttons" role="group" aria-label="Turns">
          <button class="button" disabled=${here <= 0} onClick=${() => go(-1)} data-testid="request-previous">
          <${Icon} name="left" />Turn before</button>
          <button class="button" disabled=${here < 0 || here >= turns.length - 1} onClick=${() => go(1)} data-testid="request-next">Turn after<${Icon} name="right" /></button></span>
        <button class="button" disabled=${!q.bytes} onClick=${download} data-testid="download" title="The exact bytes">
          <${Icon} name="down2" />Download</button><${CopyJSON} path=${'request' + path} /></div>
      <p class="session-sub"><span>${clean(q.model)}</span>${q.provider ? html`<span>${clean(q.provider)}</span>` : null}<span class="num"><b>
        ${plural(q.message_count, 'message')}</b>, <b>${news} new</b></span>${q.bytes ? html`<span class="num">
        ${exact(q.bytes)} bytes</span>` : q.stated_bytes ? html`<span class="num">
        ${exact(q.stated_bytes)} bytes when the loop emitted it</span>` : null}${q.sha256 ? html`<span title=${q.sha256}>sha256 <code>
        ${q.sha256.slice(0, 12)}…</code></span>` : null}
        ${q.attempts > 1 ? html`<span class="attempts" role="group" aria-label="Attempts">attempt ${attempts.map((a) => html`<a class=${'seg' + (a === q.attempt ? ' on' : '')} aria-current=${a === q.attempt ? 'true' : undefined} href=${link('/s' + join(session, run, turn) + '/request', { attempt: String(a) })} data-testid="attempt">
          ${a}</a>`)}</span>` : null}</p>
    </header>
    <${Missing} q=${q} />
    ${before && !loading ? html`<${Changes} key=${path} path=${path} before=${before} />` : null}
    <div class="legend-bar" role="group" aria-label="Provenance" data-testid="provenance-legend">
      ${[...counts].map(([k, n]) => { const [sign, name] = kinds[k] ?? other; return html`<button class=${'prov p-' + k + (only === k ? ' on' : '')} aria-pressed=${only === k} onClick=${() => filter({ from: only === k ? undefined : k })}>
        <i aria-hidden="true">${sign}</i>${name} <span class="num faint">${n}</span></button>`; })}
      <span class="grow"></span>
      <button class="button" data-testid="only-new" aria-pressed=${onlyNew} onClick=${() => filter({ new: onlyNew ? undefined : '1' })}>Only what is new</button>
      <button class="button" aria-pressed=${all} onClick=${() => (setAll(!all), setOpen(new Map()))}><${Icon} name="unfold" />
        ${all ? 'Fold all' : 'Unfold all'}</button></div>
    ${shown.length ? html`<${Virtual} label="Parts of the request" testid="request-parts" class="parts" top=${56} count=${shown.length} handle=${list} keyOf=${(/** @type {number} */ i) => path + (shown[i]?.key ?? i)} estimate=${(/** @type {number} */ i) => { const l = shown[i]; return l && isOpen(l) ? 220 : 42; }}
      row=${(/** @type {number} */ i) => { const l = shown[i]; return l ? html`<${Part} session=${session} line=${l} open=${isOpen(l)} all=${all} toggle=${() => toggle(l)} most=${most} current=${i === current} />` : null; }} />` : html`<${Empty} title=${onlyNew || only ? 'Nothing is like that' : 'Nothing of the request is here'}>
        ${q.capture === 'digests' ? html`<p>Only digests were captured.</p>` : null}<//>`}
  </div>`;
}

/** @param {{session: string, line: Line, open: boolean, all: boolean, toggle: () => void, most: number, current: boolean}} p */
function Part({ session, line, open, all, toggle, most, current }) {
  const { part, kind } = line;
  const [sign] = kind === 'tools' ? ['T'] : kind === 'params' ? ['P'] : (kinds[kind] ?? other);
  return html`<section class=${`part p-${kind}` + (part.new ? ' new' : '') + (current ? ' current' : '')} data-testid="part" data-provenance=${kind} data-new=${part.new === undefined ? undefined : String(part.new)}>
    <button class="part-head" aria-expanded=${open} onClick=${toggle}>
      <i class="prov-sign" aria-hidden="true">${sign}</i><span class="part-index num">${part.index ?? ''}</span><span class="part-what"><b>
        ${line.what}</b>${part.role ? html`<span class="faint">${clean(part.role)}</span>` : null}</span>
      <span class="part-gist">${open ? '' : part.state ? html`<em>
        ${part.state === 'missing' ? 'did not arrive' : words(part.state)}</em> ` : null}${open ? '' : gist(part.body)}</span>
      <span class="part-chips">${part.new ? html`<${Chip} kind="new">new<//>` : null}${part.redacted ? html`<${Chip} kind="warn">redacted<//>` : null}${part.state ? html`<${Chip} kind="bad">
        ${words(part.state)}<//>` : null}</span>
      <span class="part-size num"><i style=${{ width: ((part.bytes ?? 0) / most) * 100 + '%' }}></i><span>${bytes(part.bytes)}</span></span></button>
    ${open ? html`<div class="part-body">
      ${kind === 'tools' && Array.isArray(part.body) ? html`<${Tools} tools=${part.body} />` : html`<${Message} session=${session} line=${line} all=${all} />`}
      <p class="faint small num">${part.block ? html`block <code>
        ${clean(part.block)}</code>` : null}</p></div>` : null}
  </section>`;
}

/**
 * The pieces of a message's content as people read them; undefined where it has none that are known, and the JSON says it better.
 * @param {unknown} body
 * @returns {{label: string, text: string, prose: boolean}[] | undefined}
 */
function readable(body) {
  const content = body && typeof body === 'object' ? /** @type {{content?: unknown}} */ (body).content : undefined;
  if (typeof content === 'string') return [{ label: '', text: content, prose: true }];
  if (!Array.isArray(content) || !content.length) return undefined;
  const out = [];
  for (const c of content) {
    const x = /** @type {Record<string, unknown>} */ (typeof c === 'object' && c ? c : { text: c });
    if (typeof x['text'] === 'string') out.push({ label: '', text: x['text'], prose: true });
    else if (typeof x['thinking'] === 'string') out.push({ label: 'thinking', text: x['thinking'], prose: true });
    else if (typeof x['name'] === 'string') out.push({ label: x['name'], text: JSON.stringify(x['arguments'] ?? x['input'] ?? {}), prose: false });
    else if (typeof x['content'] === 'string') out.push({ label: String(x['type'] ?? ''), text: x['content'], prose: false });
    else return undefined;
  }
  return out;
}

/** @param {{session: string, line: Line, all: boolean}} p */
function Message({ session, line, all }) {
  const [raw, setRaw] = useState(false);
  const { part } = line;
  const pieces = useMemo(() => (part.state ? undefined : readable(part.body)), [part]);
  const label = line.what.toLowerCase();
  const prose = line.key === 'system';
  return html`${pieces && !raw ? pieces.map((p) => html`${p.label ? html`<h5>${clean(p.label)}</h5>` : null}
    <${Content} session=${session} body=${{ text: p.text }} open=${all} lines=${20} label=${label} prose=${p.prose} />`) : html`<${Content} session=${session} body=${asBody(part)} open=${all} lines=${20} label=${label} prose=${prose} />`}
    ${pieces ? html`<button class="link" aria-pressed=${raw} data-testid="part-raw" onClick=${() => setRaw(!raw)}>
      ${raw ? 'As people read it' : 'As it was sent'}</button>` : null}`;
}

/** @param {{tools: unknown[]}} p */
const Tools = ({ tools }) => html`<dl class="catalogue">${tools.map((t) => {
  const x = /** @type {Record<string, any>} */ (t ?? {});
  const f = /** @type {Record<string, any>} */ (x['function'] ?? x);
  const schema = f['parameters'] ?? f['input_schema'] ?? f['inputSchema'];
  return html`<div><dt><code>${clean(String(f['name'] ?? '?'))}</code></dt><dd>
    ${clean(String(f['description'] ?? ''))}${schema?.properties ? html`<span class="faint">
    ${Object.keys(schema.properties).map(clean).join(', ')}</span>` : null}</dd></div>`;
})}</dl>`;

/** @param {MissingPart} m */
export function missingWords(m) {
  let what = clean(m.part);
  if (m.part === 'message' && (m.position ?? 0) < 0) return 'the list of messages did not arrive';
  if (m.part === 'message' || m.part === 'provenance') what += ' ' + (m.position ?? 0);
  else if (m.part === 'rest') what = 'parameters';
  if (m.block) what += ` (block ${clean(m.block)})`;
  if (!m.withheld) return what + ' did not arrive';
  return m.have ? `${what} was cut or redacted: ${exact(m.have)} of ${exact(m.bytes)} bytes are there` : `${what} was withheld at the source: ${exact(m.bytes)} bytes`;
}

/** @param {{q: RequestJSON}} p */
function Missing({ q }) {
  const missing = q.missing ?? [];
  const notes = [];
  if (q.capture === 'digests') notes.push('Only digests were captured: sizes and what changed are known, the text is not.');
  if (q.misaligned) notes.push('The producer gave another number of provenances than messages, so no message has one.');
  if (!missing.length && !notes.length && !q.defects?.length) return null;
  return html`<section class="note warn" aria-label="What is missing" data-testid="missing">${notes.map((n) => html`<p>
    ${n}</p>`)}${q.capture === 'digests' ? null : html`<ul>${missing.slice(0, 12).map((m) => html`<li>
    ${missingWords(m)}</li>`)}${missing.length > 12 ? html`<li>and ${missing.length - 12} more</li>` : null}</ul>`}${q.defects?.map((d) => html`<p>
    ${words(d.code)} ${clean(d.detail)}</p>`)}</section>`;
}

/** @param {{path: string, before: OutlineTurn}} p */
function Changes({ path, before }) {
  const { data, error } = useGet('request' + path, { diff: `@${before.run}/${before.index}` });
  const d = /** @type {Diff | undefined} */ (data);
  if (!d) return html`<section class="changes"><h2>What changed from the turn before</h2>${error ? html`<p class="faint">${error.message}</p>` : html`<${Loading} />`}</section>`;
  const turn = d.runs[0]?.turns?.[0];
  const of = (/** @type {string} */ part) => (turn?.changes ?? []).filter((c) => c.part === part);
  const messages = (/** @type {string} */ change) => of('request').filter((c) => c.change === change);
  const size = (/** @type {Change[]} */ l) => bytes(l.reduce((n, c) => n + ((c.b ?? c.a)?.bytes ?? 0), 0));
  const [added, gone, changed, moved] = [messages('added'), messages('removed'), messages('changed'), messages('moved')];
  const unknown = new Set(turn?.not_compared?.map((u) => u.part));
  const range = (/** @type {string} */ what, /** @type {number | undefined} */ a, /** @type {number | undefined} */ b) => (a === undefined || b === undefined ? '' : `, ${exact(a)} → ${plural(b, what)}`);
  const between = (d.compactions ?? []).map((k) => clean(k.kind) + range('message', k.messages_before, k.messages_after) + range('token', k.input_tokens, k.output_tokens)).join('; ');
  const value = (/** @type {string} */ kind, /** @type {Change} */ c, /** @type {unknown} */ v) => (v === undefined ? [] : [{ kind, text: `${c.path.replace(/^(params|tools)\./, '')}: ${JSON.stringify(v)}` }]);
  const show = (/** @type {Change} */ c) => c.text ? html`${c.path.includes('.') ? html`<h5>${clean(c.path)} <span class="faint">${words(c.change)}</span></h5>` : null}
    <${Unified} lines=${linesOf(c.text)} />` : html`<${Unified} lines=${[...value('-', c, c.before), ...value('+', c, c.after)]} />`;
  /** @param {string} part @param {string} name */
  const line = (part, name) => {
    const l = of(part);
    if (l.some((c) => c.digest_a || c.digest_b)) return html`<li class="chg"><b>~</b> ${name} <span class="faint">changed; the text is not here</span></li>`;
    if (l.length) return html`<li class="chg"><details><summary><b>~</b> ${name}</summary>${l.map(show)}</details></li>`;
    return unknown.has(part) ? html`<li class="chg"><b>?</b> ${name} <span class="faint">not known of both requests</span></li>` : html`<li class="same">= ${name}</li>`;
  };
  return html`<section class="changes" aria-label="What changed from the turn before" data-testid="request-changes">
    <h2>What changed from the turn before</h2>
    <ul>
      ${unknown.has('request') ? html`<li class="chg"><b>?</b> messages <span class="faint">not all are known of both requests</span></li>` : html`<li class="add"><b>+</b> ${added.length ? html`${plural(added.length, 'message')}, <span class="num">
        ${size(added)}</span>` : 'no message'}</li>`}
      ${gone.length ? html`<li class="del"><b>−</b> ${plural(gone.length, 'message')} gone, <span class="num">${size(gone)}</span></li>` : null}
      ${changed.length ? html`<li class="chg"><b>~</b> ${plural(changed.length, 'message')} changed</li>` : null}
      ${moved.length ? html`<li class="chg"><b>~</b> ${plural(moved.length, 'message')} moved</li>` : null}
      ${between ? html`<li class="chg"><b>◆</b> compaction between them <span class="faint">${between}</span></li>` : null}
      ${line('system', 'system prompt')}
      ${line('tools', 'tools')}
      ${line('params', 'parameters')}
    </ul></section>`;
}
