// Agents overview: how all agents do, from the adapter's metrics in Prometheus. What single turns did is in Tempo.
import { either, increase, label, of, orZero, quantile, share, sum } from './metrics.mjs';
import {
  bars, buckets, byThresholds, coloured, columns, dataSource, fixed, gauged, histogram, joined, labelValues, lines, now, page, ranking, rows, series, thresholds,
  tile, traceql,
} from './panels.mjs';
import { between, tempo, to, uid } from './links.mjs';
import * as style from './style.mjs';

const agent = 'gen_ai.agent.name', model = 'gen_ai.request.model', tool = 'gen_ai.tool.name', error = 'error.type', kind = 'otelagent.token.class';
const turns = 'otelagent.turn.duration', tokens = 'otelagent.turn.tokens', calls = 'otelagent.tool.calls', evaluations = 'otelagent.permission.evaluations';

const tokensOf = (c) => of(tokens, 'sum', { [kind]: c });
const range = '$__range';
// Classes that add up: the cached parts are taken out of input, reasoning out of output.
const rest = (whole, ...parts) => `clamp_min(\n${sum(increase(tokensOf(whole)))}\n${parts.map((p) => `- ${orZero(sum(increase(tokensOf(p))))}`).join('\n')}\n, 0)`;
const modelCall = ['gen_ai.client.operation.duration', 'gen_ai.client.inference.duration'];
const firstChunk = ['gen_ai.client.operation.time_to_first_chunk', 'gen_ai.client.inference.time_to_first_chunk'];

const slowTurns = '{ span.otelagent.kind = "session.turn" && duration > 10s } | select(span.gen_ai.agent.name, span.gen_ai.request.model, span.gen_ai.usage.input_tokens, span.gen_ai.usage.output_tokens)';
const failedTurns = '{ span.otelagent.kind = "session.turn" && status = error } | select(span.gen_ai.agent.name, span.gen_ai.request.model, span.error.type)';
const badTools = '{ span.otelagent.kind = "tool.call" && status = error } | select(span.gen_ai.tool.name, span.gen_ai.agent.name, span.otelagent.tool.outcome)';
const denied = '{ span.otelagent.kind = "permission.evaluate" && span.otelagent.permission.action = "deny" } | select(span.gen_ai.tool.name, span.otelagent.permission.source, span.session.id)';
const compactions = '{ span.otelagent.kind = "compaction.run" } | select(span.otelagent.compaction.kind, span.otelagent.compaction.input_tokens, span.otelagent.compaction.output_tokens)';
const runs = '{ span.otelagent.kind = "session.run" } | select(span.gen_ai.agent.name, span.otelagent.run.status)';
const inTempo = {
  turns: tempo('Turns of this time in Tempo', '{ span.otelagent.kind = "session.turn" } | select(span.gen_ai.request.model, span.gen_ai.usage.input_tokens, span.gen_ai.usage.output_tokens)'),
  slow: tempo('Slow turns in Tempo', slowTurns),
  failed: tempo('Failed turns in Tempo', failedTurns),
  tools: tempo('Failed tool calls in Tempo', badTools),
  denied: tempo('Denied in Tempo', denied),
  compactions: tempo('Compactions in Tempo', compactions),
  runs: tempo('Runs in Tempo', runs),
  missed: tempo('Turns without cached input in Tempo', '{ span.otelagent.kind = "session.turn" && span.gen_ai.usage.cache_read.input_tokens = 0 && span.gen_ai.usage.input_tokens > 4096 } | select(span.gen_ai.request.model, span.session.id, span.otelagent.turn.index)'),
};
const money = { 'USD.*': { unit: 'currencyUSD' }, 'EUR.*': { unit: 'currencyEUR' }, 'GBP.*': { unit: 'currencyGBP' } };

const glance = [
  [
    tile({
      title: 'How many runs are active right now?', unit: 'short', decimals: 0, min: 0, sparkline: true, none: '0',
      targets: series({ 'active runs': orZero(sum(of('otelagent.run.active'))) }),
      means: 'Runs that have started and not ended, as the processes that hold them report.',
      bad: 'a number that only grows is a loop that starts runs and does not end them. A process that was killed keeps its runs until the Collector forgets it, an hour by our configuration.',
      links: [inTempo.runs],
    }),
    tile({
      title: 'How many turns ran?', unit: 'short', decimals: 0, none: '0',
      targets: now({ turns: sum(increase(of(turns, 'count'), range)) }),
      means: 'Model requests with their replies in the time that is shown. Turns of which only the order is known, not the time, are not in it.',
      bad: 'none although agents work: see whether their metrics arrive at all (pipeline health).',
      links: [inTempo.turns, to('Pipeline health', uid.pipeline)],
    }),
    tile({
      title: 'How many tokens were used?', unit: 'short', none: '0', colours: style.direction,
      targets: now({ input: sum(increase(tokensOf('input'), range)), output: sum(increase(tokensOf('output'), range)) }),
      means: 'Input includes what came from cache, output includes reasoning: these two may be added, and are what providers count.',
      bad: 'input that grows faster than turns is history that nobody compacts. See the heat map of request sizes.',
      links: [inTempo.turns],
    }),
    tile({
      title: 'What did it cost?', unit: 'locale', decimals: 2, none: 'not reported', patterns: money,
      targets: now({ [`{{${label('otelagent.turn.cost.currency')}}}`]: sum(increase(of('otelagent.turn.cost'), range), 'otelagent.turn.cost.currency') }),
      means: 'What loops reported, by currency. Nothing is computed here: `otelagent stats` computes costs from a price list of yours.',
      bad: '"not reported" is a loop that reports no costs. Otherwise see which model and agent it is, below.',
      links: [inTempo.turns],
    }),
  ],
  [
    tile({
      title: 'What share of turns failed?', unit: 'percentunit', decimals: 1, thresholds: style.shareOfFailures, none: 'no turns',
      targets: now({ failed: share(orZero(sum(increase(of(turns, 'count', { [error]: ['!=', ''] }), range))), sum(increase(of(turns, 'count'), range))) }),
      means: 'Turns that ended with an error, of all turns in the time that is shown. Yellow from 1 %, red from 5 %.',
      bad: 'see below which model it is and why, then open one of the turns in Tempo.',
      links: [inTempo.failed],
    }),
    tile({
      title: 'How slow are the slowest turns?', unit: 's', decimals: 1, none: 'no turns',
      targets: now({ p95: quantile(0.95, of(turns, 'bucket'), range) }),
      means: 'One turn in twenty of the time that is shown takes longer than this, its tools and waits for permissions included.',
      bad: 'compare with the time of the model alone, and of tools, below: what is left is waiting for people or the loop itself.',
      links: [inTempo.slow],
    }),
    tile({
      title: 'How much input came from cache?', unit: 'percentunit', decimals: 0, min: 0, max: 1, thresholds: style.cacheShare, none: 'no input',
      targets: now({ cached: share(sum(increase(tokensOf('cache_read'), range)), sum(increase(tokensOf('input'), range))) }),
      means: 'Tokens read from cache, of all input tokens. Loops send the whole history with each turn, so most of it should come from cache: green from 50 %.',
      bad: 'red is no hit at all. Something at the beginning of requests changes (a clock in the prompt, tools in another order), or the provider has no cache. One session shows from which turn on.',
      links: [inTempo.missed],
    }),
    tile({
      title: 'How often was something denied?', unit: 'short', decimals: 0, thresholds: [[null, style.colour.green], [1, style.colour.darkOrange]], none: '0',
      targets: now({ denied: orZero(sum(increase(of(evaluations, '', { 'otelagent.permission.action': 'deny' }), range))) }),
      means: 'Permission checks that said no in the time that is shown.',
      bad: 'a few are the rules at work. Many of one tool are an agent that runs against a wall: see which rule it is, below.',
      links: [inTempo.denied],
    }),
  ],
];

const latency = [
  [
    bars({
      title: 'How many turns run, and with which model?', w: 12, unit: 'short', decimals: 0,
      targets: series({ [`{{${label(model)}}}`]: sum(increase(of(turns, 'count')), model) }),
      means: 'Turns that ended, by the model that was asked. `_OTHER` is all models beyond the first 128 of a process.',
      bad: 'a gap is agents that stopped, or metrics that did not arrive. A model that should not be used shows here first.',
      links: [inTempo.turns],
    }),
    lines({
      title: 'How long do turns take?', w: 12, unit: 's', colours: style.quantile, calcs: ['mean', 'max'],
      targets: series(Object.fromEntries([0.5, 0.9, 0.99].map((q) => [`p${q * 100}`, quantile(q, of(turns, 'bucket'))]))),
      means: 'From the request until the last tool of the turn ended, as quantiles. Dots are single turns: a click leads to their trace.',
      bad: 'p99 far above p50 is a few turns that wait: for a person, a slow tool, or a retry. Open a dot.',
      links: [inTempo.slow],
    }),
  ],
  [
    lines({
      title: 'How long does the model alone take?', unit: 's', colours: style.quantile, none: 'not reported',
      targets: series(Object.fromEntries([0.5, 0.95].map((q) => [`p${q * 100}`, either((m) => quantile(q, of(m, 'bucket')), ...modelCall)]))),
      means: 'The model call of a turn without its tools, where the loop reports it.',
      bad: 'a rise with equal request sizes is the provider. With growing requests it is the requests.',
      links: [inTempo.slow],
    }),
    lines({
      title: 'How long until the reply begins?', unit: 's', colours: style.quantile, none: 'not reported',
      targets: series(Object.fromEntries([0.5, 0.95].map((q) => [`p${q * 100}`, either((m) => quantile(q, of(m, 'bucket')), ...firstChunk)]))),
      means: 'Time to the first piece of a reply, where the loop streams and reports it. This is what people feel.',
      bad: 'it grows with input that does not come from cache: compare with the share of cached input.',
      links: [inTempo.slow],
    }),
    histogram({
      title: 'How is the time of turns spread?', w: 8, unit: 's',
      targets: buckets(sum(increase(of(turns, 'bucket')), 'le')),
      means: 'Turns by time: the brighter a cell, the more turns took that long then. Dots lead to traces.',
      bad: 'a second band above the first is another kind of turn: waits for people, or timeouts at one fixed time.',
      links: [inTempo.slow],
    }),
  ],
];

const usage = [
  [
    bars({
      title: 'Where do the tokens go?', w: 12, unit: 'short', colours: style.token,
      targets: series({
        'new input': rest('input', 'cache_read', 'cache_write'), 'cache write': sum(increase(tokensOf('cache_write'))), 'cache read': sum(increase(tokensOf('cache_read'))),
        'reply': rest('output', 'reasoning'), 'reasoning': sum(increase(tokensOf('reasoning'))),
      }),
      means: 'All tokens, in parts that add up. Blue is input at full price, green came from or went to cache, orange is what was written, purple what was thought.',
      bad: 'much blue next to little green is history that is sent again and again at full price. Much purple: the reasoning level is higher than it needs to be.',
      links: [inTempo.turns],
    }),
    histogram({
      title: 'How large are requests?', w: 12, unit: 'short',
      targets: buckets(sum(increase(of(tokens, 'bucket', { [kind]: 'input' })), 'le')),
      means: 'Input tokens of single turns, cached ones included: the brighter a cell, the more turns had that size then. Dots lead to traces.',
      bad: 'a band that climbs to the size of the context window is sessions near compaction, or without one. A jump is a tool with a huge result.',
      links: [inTempo.turns],
    }),
  ],
  [
    lines({
      title: 'How much of the input comes from cache, by model?', unit: 'percentunit', max: 1, thresholds: style.cacheShare,
      targets: series({ [`{{${label(model)}}}`]: share(sum(increase(tokensOf('cache_read'), '$__rate_interval'), model), sum(increase(tokensOf('input'), '$__rate_interval'), model)) }),
      means: 'Tokens read from cache, of all input tokens. A line on the ground is a model without cache, or a cache that is never hit.',
      bad: 'a fall at one time is a change of prompt or tools that went live then.',
      links: [inTempo.missed],
    }),
    bars({
      title: 'What does it cost, by model?', unit: 'locale', decimals: 2, none: 'not reported', patterns: money,
      targets: series({ [`{{${label('otelagent.turn.cost.currency')}}} {{${label(model)}}}`]: sum(increase(of('otelagent.turn.cost')), 'otelagent.turn.cost.currency', model) }),
      means: 'Costs as loops reported them, by currency and model. Currencies are never added.',
      bad: 'look at the same time in the next panels: more turns, larger requests, or less cache.',
      links: [inTempo.turns],
    }),
    lines({
      title: 'How many tokens does a turn take?', unit: 'short', colours: { 'input p50': style.colour.lightBlue, 'input p95': style.colour.darkBlue, 'output p50': style.colour.orange, 'output p95': style.colour.darkOrange },
      targets: series(Object.fromEntries(['input', 'output'].flatMap((c) => [0.5, 0.95].map((q) => [`${c} p${q * 100}`, quantile(q, of(tokens, 'bucket', { [kind]: c }))])))),
      means: 'Half of all turns, and 19 of 20, take fewer.',
      bad: 'an output p95 at the token limit is replies that are cut off.',
      links: [inTempo.turns],
    }),
  ],
];

const failures = [
  [
    bars({
      title: 'Which turns fail, and why?', unit: 'short', decimals: 0, none: '0',
      colours: { provider_error: style.colour.red, aborted: style.colour.darkRed, cancelled: style.colour.yellow, rejected: style.colour.darkOrange, tool_error: style.colour.orange, _OTHER: style.colour.grey },
      targets: series({ [`{{${label(error)}}}`]: sum(increase(of(turns, 'count', { [error]: ['!=', ''] })), error) }),
      means: 'Turns that ended with an error, by its kind.',
      bad: '`provider_error` is the model: limits, outages, requests that are too large. `aborted` is a process that ended in the middle.',
      links: [inTempo.failed],
    }),
    bars({
      title: 'How often must a model be asked again?', unit: 'short', decimals: 0, none: '0',
      targets: series({ [`{{${label(model)}}}`]: sum(increase(of('otelagent.turn.retries')), model) }),
      means: 'Model calls beyond the first of a turn, as far as the loop reports them.',
      bad: 'retries come before failures: rate limits, mostly. Each of them may be billed.',
      links: [tempo('Turns with retries in Tempo', '{ span.otelagent.kind = "session.turn" && span.otelagent.turn.attempts > 1 } | select(span.otelagent.turn.attempts, span.gen_ai.request.model)')],
    }),
    bars({
      title: 'How do runs end?', unit: 'short', decimals: 0, colours: style.runStatus,
      targets: series({ [`{{${label('otelagent.run.status')}}}`]: sum(increase(of('otelagent.run.turns', 'count')), 'otelagent.run.status') }),
      means: 'Runs that ended, by their status. `aborted` is a run whose loop never reported its end, `rejected` and `vetoed` ones that were not let begin.',
      bad: 'see the runs in Tempo: the run says why it ended.',
      links: [inTempo.runs],
    }),
  ],
  [
    lines({
      title: 'How many runs are active, by agent?', unit: 'short', decimals: 0,
      targets: series({ [`{{${label(agent)}}}`]: sum(of('otelagent.run.active'), agent) }),
      means: 'Runs that have started and not ended. A line without a name is of agents that have none.',
      bad: 'a line that only climbs is runs that never end, or ends that are never reported.',
      links: [inTempo.runs],
    }),
    lines({
      title: 'How long do agents work?', unit: 's', colours: style.quantile,
      targets: series(Object.fromEntries([0.5, 0.95].map((q) => [`p${q * 100}`, quantile(q, of('gen_ai.invoke_agent.duration', 'bucket'))]))),
      means: 'Time of whole runs, from the request of a person or an agent until the answer.',
      bad: 'compare with the number of turns: more turns, or slower ones?',
      links: [inTempo.runs],
    }),
    lines({
      title: 'How much does a run take?', unit: 'short', colours: { 'turns': style.colour.blue, 'model calls': style.colour.purple, 'tool calls': style.colour.teal },
      targets: series({
        'turns': quantile(0.95, of('otelagent.run.turns', 'bucket')),
        'model calls': quantile(0.95, of('gen_ai.invoke_agent.inference_calls', 'bucket')),
        'tool calls': quantile(0.95, of('gen_ai.invoke_agent.tool_calls', 'bucket')),
      }),
      means: 'Turns, model calls and tool calls of one run; 19 of 20 runs have fewer.',
      bad: 'more model calls than turns are retries. Many turns with one tool call each are agents that go in circles.',
      links: [inTempo.runs],
    }),
  ],
];

const tools = [
  [
    bars({
      title: 'How do tool calls end?', unit: 'short', decimals: 0, colours: style.outcome,
      targets: series({
        [`{{${label('otelagent.tool.outcome')}}}`]: sum(increase(of(calls, '', { 'otelagent.tool.outcome': ['!=', ''] })), 'otelagent.tool.outcome'),
        'no end seen': orZero(sum(increase(of(calls, '', { 'otelagent.tool.outcome': '' })))),
      }),
      means: 'Tool calls by outcome. `denied` were not allowed to run, `skipped` were passed over by the loop.',
      bad: 'errors are part of the work, since the model sees them and tries again. A share that grows is a tool that broke.',
      links: [inTempo.tools],
    }),
    lines({
      title: 'Which tools are slow?', unit: 's',
      targets: series({ [`{{${label(tool)}}}`]: `topk(10, ${quantile(0.95, of('gen_ai.execute_tool.duration', 'bucket'), '$__rate_interval', tool)})` }),
      means: 'The ten slowest tools of each moment, so there may be more than ten lines: one call in twenty takes longer than this. Dots lead to traces.',
      bad: 'the loop waits for them. A line at one fixed height is a timeout.',
      links: [tempo('Slow tool calls in Tempo', '{ span.otelagent.kind = "tool.call" && duration > 5s } | select(span.gen_ai.tool.name, span.otelagent.tool.outcome)')],
    }),
    rows({
      title: 'Which tools fail, and how often?', w: 8, unit: 'short', decimals: 0, sort: 'calls',
      targets: columns([
        sum(increase(of(calls, ''), range), tool),
        share(sum(increase(of(calls, '', { 'otelagent.tool.outcome': 'error' }), range), tool), sum(increase(of(calls, ''), range), tool)),
        share(sum(increase(of(calls, '', { 'otelagent.tool.outcome': 'denied' }), range), tool), sum(increase(of(calls, ''), range), tool)),
      ]),
      transformations: joined({ [label(tool)]: 'tool', 'Value #A': 'calls', 'Value #B': 'failed', 'Value #C': 'denied' }),
      fields: {
        failed: { 'unit': 'percentunit', 'decimals': 1, 'thresholds': thresholds(style.shareOfFailures), 'color': byThresholds, 'custom.cellOptions': coloured },
        denied: { 'unit': 'percentunit', 'decimals': 1, 'color': fixed(style.colour.darkOrange), 'custom.cellOptions': coloured },
      },
      means: 'All tools of the time that is shown, with the share of their calls that failed and that were denied.',
      bad: 'a tool that always fails costs a turn each time: fix it, or take it out of the catalogue.',
      links: [inTempo.tools],
    }),
  ],
];

const guards = [
  [
    bars({
      title: 'What do permission checks decide?', unit: 'short', decimals: 0, colours: style.action,
      targets: series({ [`{{${label('otelagent.permission.action')}}}`]: sum(increase(of(evaluations)), 'otelagent.permission.action') }),
      means: 'Permission checks by what they decided. `ask` is a question to somebody of which no answer is known.',
      bad: 'many `ask` are agents that stand still. Nothing but `allow` may be a rule that is too wide.',
      links: [inTempo.denied],
    }),
    ranking({
      title: 'What is denied, and by which rules?', unit: 'short', decimals: 0, fixed: style.colour.darkOrange, none: 'nothing',
      targets: now({ [`{{${label(tool)}}} ({{${label('otelagent.permission.source')}}})`]: `topk(10, ${sum(increase(of(evaluations, '', { 'otelagent.permission.action': 'deny' }), range), tool, 'otelagent.permission.source')} > 0)` }),
      means: 'The ten tools that were denied most in the time that is shown, and where the rule stands.',
      bad: 'the same tool again and again: say in the prompt of the agent what it may not do, or widen the rule.',
      links: [inTempo.denied],
    }),
    lines({
      title: 'How long do agents wait for people?', unit: 's', colours: style.quantile, none: 'nobody was waited for',
      targets: series(Object.fromEntries([0.5, 0.95].map((q) => [`p${q * 100}`, quantile(q, of('otelagent.permission.wait', 'bucket'))]))),
      means: 'Time between a question and its answer, of checks that waited.',
      bad: 'agents that wait do nothing else. What is always allowed in the end may be allowed by a rule.',
      links: [tempo('Long waits in Tempo', '{ span.otelagent.kind = "permission.evaluate" && span.otelagent.permission.wait > 60000000000 } | select(span.gen_ai.tool.name, span.otelagent.permission.action, span.session.id)')],
    }),
  ],
  [
    bars({
      title: 'How often is history compacted?', w: 12, unit: 'short', decimals: 0, none: '0',
      targets: series({ [`{{${label('otelagent.compaction.kind')}}} {{${label('otelagent.compaction.trigger')}}}`]: sum(increase(of('otelagent.compactions')), 'otelagent.compaction.kind', 'otelagent.compaction.trigger') }),
      patterns: Object.fromEntries(Object.entries(style.compaction).map(([k, c]) => [`${k}.*`, { color: fixed(c) }])),
      means: 'Compactions by what they did and what caused them. A `summary` replaces messages, a `prune` drops them, a `revert` abandons a stretch.',
      bad: 'every few turns: what is kept is too much, or one tool fills the window.',
      links: [inTempo.compactions],
    }),
    lines({
      title: 'How much does a compaction take away?', w: 12, unit: 'short', colours: { before: style.colour.purple, after: style.colour.green }, none: 'not reported',
      targets: series(Object.fromEntries([['before', 'otelagent.compaction.input_tokens'], ['after', 'otelagent.compaction.output_tokens']].map(([name, m]) =>
        [name, share(sum(increase(of(m, 'sum'), '$__rate_interval')), sum(increase(of(m, 'count'), '$__rate_interval')))]))),
      means: 'Mean tokens before and after a compaction, as loops estimate them.',
      bad: 'lines that nearly touch are compactions that cost a model call and free nothing.',
      links: [inTempo.compactions],
    }),
  ],
];

const byAgent = [
  [
    rows({
      title: 'Which agent does what?', w: 24, h: 9, unit: 'short', decimals: 0, sort: 'turns',
      targets: columns([
        sum(of('otelagent.run.active'), agent),
        sum(increase(of(turns, 'count'), range), agent),
        share(sum(increase(of(turns, 'count', { [error]: ['!=', ''] }), range), agent), sum(increase(of(turns, 'count'), range), agent)),
        quantile(0.95, of(turns, 'bucket'), range, agent),
        sum(increase(tokensOf('input'), range), agent),
        sum(increase(tokensOf('output'), range), agent),
        share(sum(increase(tokensOf('cache_read'), range), agent), sum(increase(tokensOf('input'), range), agent)),
        sum(increase(of(calls), range), agent),
        sum(increase(of('otelagent.compactions'), range), agent),
      ]),
      transformations: joined({
        [label(agent)]: 'agent', 'Value #A': 'active runs', 'Value #B': 'turns', 'Value #C': 'failed', 'Value #D': 'turn p95', 'Value #E': 'input tokens', 'Value #F': 'output tokens',
        'Value #G': 'from cache', 'Value #H': 'tool calls', 'Value #I': 'compactions',
      }),
      fields: {
        'agent': { links: [{ title: 'Show this agent alone', url: `/d/${uid.agents}?\${__url_time_range}&var-agent=\${__value.raw:percentencode}` }] },
        'failed': { 'unit': 'percentunit', 'decimals': 1, 'thresholds': thresholds(style.shareOfFailures), 'color': byThresholds, 'custom.cellOptions': coloured },
        'turn p95': { unit: 's', decimals: 1 },
        'input tokens': { 'color': fixed(style.direction.input), 'custom.cellOptions': gauged, 'min': 0 },
        'output tokens': { 'color': fixed(style.direction.output), 'custom.cellOptions': gauged, 'min': 0 },
        'from cache': { 'unit': 'percentunit', 'thresholds': thresholds(style.cacheShare), 'color': byThresholds, 'custom.cellOptions': coloured },
      },
      means: 'All agents of the time that is shown. A click on a name narrows the panels whose metrics know the agent to it; the others show all.',
      bad: 'sort by the column that worries you.',
      links: [inTempo.runs],
    }),
  ],
];

const inTraces = (p) => rows({ w: 12, h: 9, unit: 'short', filterable: false, none: 'none found', ...p });
const traces = [
  [
    inTraces({
      title: 'Which turns were slow?', targets: traceql(slowTurns), links: [inTempo.slow],
      means: 'Turns of more than ten seconds, from Tempo, of all agents. A click opens the trace.',
      bad: 'open one: its tools, permission checks and retries are below it, and what is left is the model.',
    }),
    inTraces({
      title: 'Which turns failed?', targets: traceql(failedTurns), links: [inTempo.failed],
      means: 'Turns that ended with an error, from Tempo, of all agents.',
      bad: 'the span says why in `otelagent.error.message`, where content is captured.',
    }),
  ],
  [
    inTraces({
      title: 'Which tool calls failed?', targets: traceql(badTools), links: [inTempo.tools],
      means: 'Tool calls that ended with an error, from Tempo, of all agents.',
      bad: 'arguments and result are on the span, where content is captured.',
    }),
    inTraces({
      title: 'What was denied?', targets: traceql(denied), links: [inTempo.denied],
      means: 'Permission checks that said no, from Tempo, of all agents.',
      bad: 'the span says by which pattern, where content is captured.',
    }),
  ],
];

export const agents = () => page({
  uid: uid.agents, title: 'Agents overview', refresh: '1m', time: { from: 'now-6h', to: 'now' }, links: between(),
  description: 'How all agents do: turns, tokens, cost, latency, errors, tools, permissions, compactions. From the metrics of otelagent in Prometheus, and traces in Tempo.',
  variables: [
    dataSource('prometheus', 'Metrics', 'prometheus', 'Prometheus that has the metrics of the agents.'),
    dataSource('tempo', 'Traces', 'tempo', 'Tempo that has the traces of the agents.'),
    labelValues('agent', 'Agent', 'otelagent_turn_duration_seconds_count', label(agent), 'Agents that had a turn in this time. Panels of metrics without an agent show all.'),
    labelValues('provider', 'Provider', 'otelagent_turn_duration_seconds_count', label('gen_ai.provider.name'), 'Providers that were asked in this time. Panels of metrics without a provider show all.'),
    labelValues('model', 'Model', 'otelagent_turn_duration_seconds_count', label(model), 'Models that were asked in this time. Panels of metrics without a model show all.'),
  ],
}, {
  'At a glance': glance, 'Turns and latency': latency, 'Tokens and cost': usage, 'Errors and runs': failures, 'Tools': tools, 'Permissions and compactions': guards,
  'Agents': byAgent, 'From the traces': traces,
});
