// Whether a turn can be asked again, what is missing for it, and the request as a provider would take it. Nothing is sent from here.
import { html, useState } from './vendor/preact-htm.js';
import { useGet } from './api.js';
import { clean, exact, short, words } from './format.js';
import { useKeys } from './keys.js';
import { join, link, navigate } from './router.js';
import { missingWords } from './request.js';
import { Chip, Content, copy, copyJSON, CopyJSON, Failure, Foreign, Icon, Loading, useTitle } from './ui.js';

/** @import {Outline, Replay} from '../types.d.ts' */
/** @import {Place} from './router.js' */

const forms = [['anthropic', 'Anthropic'], ['openai-chat', 'OpenAI chat'], ['openai-responses', 'OpenAI responses'], ['as-sent', 'As it was sent']];

/** @param {{at: Place, session: string, run: string, turn: string}} p */
export function ReplayPage({ session, run, turn }) {
  const path = join(session, run, turn);
  const back = link('/s' + path);
  const request = link('/s' + path + '/request');
  useTitle(`Replay of turn ${turn}`);
  const [form, setForm] = useState('');
  const first = useGet('replay' + path);
  const outline = /** @type {Outline | undefined} */ (useGet('outline' + join(session)).data);
  const base = /** @type {Replay | undefined} */ (first.data);
  const chosen = form || base?.suggested_form || '';
  const { data, error, loading } = useGet(base && chosen ? 'replay' + path : null, { form: chosen });
  const r = /** @type {Replay | undefined} */ (data);
  useKeys({ c: () => void copyJSON('replay' + path, { form: chosen }), r: () => navigate(request), Escape: () => navigate(back) });
  if (!base) return first.error ? html`<${Failure} error=${first.error} />` : html`<${Loading} what="Looking at the turn" />`;
  const text = r?.body ? JSON.stringify(r.body.json, null, 2) : '';
  const save = () => {
    const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
    const a = document.createElement('a');
    a.href = url;
    a.download = `replay-run${base.run_number}-turn${base.turn}-${chosen}.json`;
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return html`<div class="page narrow replay-page"><header class="page-head"><p class="crumbs">
    <a href=${link('/s' + join(session))}>${clean(outline?.summary.title) || short(session, 12)}</a> <span aria-hidden="true">/</span> <a href=${back}>run ${base.run_number}, turn ${base.turn}</a></p>
    <div class="session-title"><h1>Replay</h1><${Chip} kind=${base.eligible ? 'good' : 'bad'}>
      <span data-testid="verdict">${base.eligible ? 'eligible' : 'not eligible'}</span><//><span class="grow"></span><a class="button" href=${request}>Request</a>
      <${CopyJSON} path=${'replay' + path} params=${{ form: chosen }} /></div>
    <p class="faint">${base.eligible ? 'What the model was given on this turn is here, so it can be asked again.' : 'Not all that the model was given is here, so it cannot be asked again.'} ${base.eligible ? html`Nothing is sent from this page: <code>otelagent request ${clean(base.address)} --send …</code> does.` : null}</p></header>
    <table class="table inputs" data-testid="replay-inputs"><tbody>
      ${base.reasons?.map((text) => html`<tr><td>Missing</td><td><${Foreign} text=${text} /></td></tr>`)}
      ${base.inputs.map((i) => html`<tr><td>${words(i.input)}</td><td><${Foreign} text=${i.detail} /></td></tr>`)}</tbody></table>
    ${base.missing?.length || base.notes?.length || base.defects?.length ? html`<section class="note warn"><ul>${base.missing?.map((m) => html`<li>
      ${missingWords(m)}</li>`)}${base.notes?.map((n) => html`<li><${Foreign} text=${n} /></li>`)}${base.defects?.map((d) => html`<li>
      ${words(d.code)} ${clean(d.detail)}</li>`)}</ul></section>` : null}
    <h2 class="section">As a request</h2>
    <div class="buttons" role="group" aria-label="Wire form">
      ${forms.map(([v, n]) => html`<button class=${'button seg' + (chosen === v ? ' on' : '')} aria-pressed=${chosen === v} data-testid=${'form-' + v} onClick=${() => setForm(v ?? '')}>
      ${n}${v === base.suggested_form ? html` <span class="faint">suggested</span>` : null}</button>`)}</div>
    ${error ? html`<p class="bad-line" role="alert">${error.message}</p>` : loading || !r ? html`<${Loading} />` : r.body ? html`
      <p class="session-sub num"><span>${exact(r.body.bytes)} bytes</span>
        ${r.body.unchanged ? html`<span>unchanged, as it was captured</span>` : html`<span>converted from the recorded request</span>`}
        <span class="grow"></span><button class="button" onClick=${() => copy(text, 'Request')} data-testid="copy-body">
        <${Icon} name="copy" />Copy</button><button class="button" onClick=${save}><${Icon} name="down2" />Download</button></p>
      ${r.body.notes?.length ? html`<ul class="note">${r.body.notes.map((n) => html`<li><${Foreign} text=${n} /></li>`)}</ul>` : null}
      <${Content} session=${session} body=${{ text, bytes: r.body.bytes }} open=${text.length < 40_000} lines=${20} label="request" />` : html`<p class="absent">There is no body: the request of this turn is not whole, or cannot be put into this form.</p>`}
  </div>`;
}
