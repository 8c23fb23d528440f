// One session: what it did turn by turn, from the store's tables, and its traces in Tempo.
import * as dashboard from '@grafana/grafana-foundation-sdk/dashboard';
import {
  byThresholds, coloured, dataSource, filled, fixed, gauged, numberedBars, numberedLines, page, ranking, rows, spread, text, thresholds, tile, timeline, traceql,
  traceqlMetrics, words, histogram,
} from './panels.mjs';
import { between, jaegerTrace, tempo, to, uid } from './links.mjs';
import * as style from './style.mjs';

// TraceQL takes a session id as a string; a quote in it is escaped by Grafana.
const ours = 'span.session.id = ${session:doublequote}';
const spansOf = (kind, more = '', select = '') => `{ span.otelagent.kind = "${kind}" && ${ours}${more && ` && ${more}`} }${select && ` | select(${select})`}`;
const turnSpans = spansOf('session.turn', '', 'span.otelagent.turn.index, span.gen_ai.request.model, span.gen_ai.usage.input_tokens, span.gen_ai.usage.output_tokens');
const inTempo = {
  turns: tempo('Its turns in Tempo', turnSpans),
  tools: tempo('Its tool calls in Tempo', spansOf('tool.call', '', 'span.gen_ai.tool.name, span.otelagent.tool.outcome')),
  failed: tempo('What failed, in Tempo', `{ ${ours} && status = error }`),
  permissions: tempo('Its permission checks in Tempo', spansOf('permission.evaluate', '', 'span.gen_ai.tool.name, span.otelagent.permission.action, span.otelagent.permission.source')),
  compactions: tempo('Its compactions in Tempo', spansOf('compaction.run', '', 'span.otelagent.compaction.input_tokens, span.otelagent.compaction.output_tokens')),
  runs: tempo('Its runs in Tempo', spansOf('session.run', '', 'span.gen_ai.agent.name, span.otelagent.run.status')),
};
// The turn of a row of a table, which has the run in a hidden column: turns are counted anew in each.
const turnLink = [{
  title: 'This turn in Tempo',
  url: tempo('', `{ ${ours} && span.otelagent.run.id = \${__data.fields.run:doublequote} && span.otelagent.turn.index = \${__data.fields.turn} }`).build().url,
}];
const moment = { unit: 'dateTimeAsIso' };
// Numbers that links take: as they are, without thousands made into K.
const exact = { unit: 'none', decimals: 0 };
// By the word of older versions and by that of newer ones.
const hidden = { ...exact, 'custom.hidden': true, 'custom.hideFrom': { viz: true, legend: false, tooltip: false } };

function queries(store) {
  const { time, text: str } = store;
  const order = 'start_ns, run_start_ns, turn';
  // Turns are counted through over all runs of the session: an index stands in each run anew.
  const turns = `(SELECT *, ROW_NUMBER() OVER (ORDER BY ${order}) AS n FROM ${store.of('turns')} AS all_turns)`;
  // lane is one line of the timeline: what begins, with its label, and NULL where the last of what overlaps ends. A moment stands in it
  // once, so what took no time is left out.
  const lane = (name, from, start, end, label) => `WITH edges AS (
  SELECT ${start} AS at, 1 AS step, ${label} AS label FROM ${from} AS b WHERE ${end} > ${start}
  UNION ALL
  SELECT ${end} AS at, -1 AS step, NULL AS label FROM ${from} AS e WHERE ${end} > ${start}
), moments AS (
  SELECT at, SUM(step) AS change, MAX(label) AS begins FROM edges GROUP BY at
), counted AS (
  SELECT at, begins, SUM(change) OVER (ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS depth FROM moments
)
SELECT ${time('at')} AS time, CASE WHEN depth > 0 THEN begins END AS "${name}"
FROM counted WHERE begins IS NOT NULL OR depth = 0 ORDER BY at`;
  const summary = (what) => `SELECT ${what} FROM ${store.sessions} AS s WHERE s.tenant = ${store.tenant} AND s.id = ${store.session}`;
  // A provider and model that ever had to do with a cache has one, so a turn without any hit is one that could have had one. Either may
  // not be told. 1 tells what was found: where nothing was, it is NULL to one store and 0 to the other.
  const caching = `(SELECT DISTINCT COALESCE(provider, '') AS cp, COALESCE(model, '') AS cm, 1 AS found FROM turns
  WHERE (cache_read > 0 OR cache_write > 0) AND COALESCE(model, '') IN (SELECT COALESCE(model, '') FROM ${store.of('turns')} AS mine))`;
  return {
    tenants: `SELECT DISTINCT CASE tenant WHEN '' THEN '(default)' ELSE tenant END AS tenant FROM ${store.sessions} AS s ORDER BY tenant`,
    sessionIDs: `SELECT id FROM ${store.sessions} AS s
WHERE tenant = ${store.tenant} AND last_ns >= $__from * 1000000 AND start_ns <= $__to * 1000000
ORDER BY last_ns DESC LIMIT 500`,
    list: `SELECT id AS "session", NULLIF(parent, '') AS "spawned by", agent, model, status, ${time('start_ns')} AS "started", (last_ns - start_ns) / 1e9 AS "took", runs, turns, tool_calls AS "tool calls", errors AS "failed", denied,
  input AS "input", output AS "output", CASE WHEN input > 0 THEN 1.0 * cache_read / input END AS "from cache",
  ${store.milliseconds('start_ns')} - 1000 AS "from", ${store.milliseconds('last_ns')} + 1000 AS "to"
FROM ${store.sessions} AS s
WHERE tenant = ${store.tenant} AND last_ns >= $__from * 1000000 AND start_ns <= $__to * 1000000
ORDER BY last_ns DESC LIMIT 100`,
    status: summary('status AS "status"'),
    took: summary('(last_ns - start_ns) / 1e9 AS "took"'),
    turnCount: summary('turns AS "turns", tool_calls AS "tool calls"'),
    tokens: summary('input AS "input", output AS "output"'),
    cost: `SELECT t.currency AS "currency", SUM(t.cost) AS "cost" FROM ${turns} AS t WHERE t.cost IS NOT NULL GROUP BY t.currency ORDER BY t.currency`,
    cached: summary('CASE WHEN input > 0 THEN 1.0 * cache_read / input END AS "from cache"'),
    failed: summary('errors AS "failed"'),
    denied: summary('denied AS "denied"'),
    runLane: lane('run', `(SELECT run, run_start_ns, MIN(start_ns) AS first_ns, MAX(COALESCE(end_ns, start_ns)) AS last_ns, MAX(agent) AS name FROM ${store.of('turns')} AS all_turns GROUP BY run, run_start_ns)`,
      'first_ns', 'last_ns', "COALESCE(name, 'run')"),
    turnLane: lane('turn', turns, 'start_ns', 'end_ns', `${str('n')} || CASE WHEN failed = 1 THEN ' failed' ELSE '' END`),
    toolLane: lane('tool', store.of('tool_calls'), 'start_ns', 'end_ns', "COALESCE(tool, 'tool') || CASE WHEN outcome IN ('error', 'denied', 'cancelled') THEN ': ' || outcome ELSE '' END"),
    waitLane: lane('waits for', store.of('permission_evaluations'), 'at_ns', 'at_ns + wait_ns', "COALESCE(tool, 'permission')"),
    compactionLane: lane('compaction', store.of('compactions'), 'start_ns', 'end_ns', "COALESCE(kind, 'compaction')"),
    classes: `SELECT n AS "turn", input - cache_read - cache_write AS "new input", cache_write AS "cache write", cache_read AS "cache read",
  output - reasoning AS "reply", reasoning AS "reasoning"
FROM ${turns} AS t WHERE input IS NOT NULL ORDER BY n`,
    sizes: `SELECT ${time('start_ns')} AS time, input + output AS "tokens" FROM ${turns} AS t WHERE input IS NOT NULL ORDER BY start_ns`,
    requests: `SELECT n AS "turn", request_bytes AS "bytes", request_messages AS "messages" FROM ${turns} AS t WHERE request_bytes IS NOT NULL ORDER BY n`,
    cacheRate: `SELECT n AS "turn",
  CASE WHEN c.found = 1 AND input > 0 THEN 1.0 * cache_read / input END AS "from cache",
  CASE WHEN c.found = 1 AND input > 0 AND cache_read = 0 THEN 0.0 END AS "no hit at all"
FROM ${turns} AS t LEFT JOIN ${caching} AS c ON c.cp = COALESCE(t.provider, '') AND c.cm = COALESCE(t.model, '') ORDER BY n`,
    durations: `SELECT n AS "turn", model_call_ns / 1e9 AS "model", (end_ns - start_ns - COALESCE(model_call_ns, 0)) / 1e9 AS "tools and loop"
FROM ${turns} AS t WHERE end_ns IS NOT NULL ORDER BY n`,
    firstChunk: `SELECT n AS "turn", first_chunk_ns / 1e9 AS "first piece" FROM ${turns} AS t WHERE first_chunk_ns IS NOT NULL ORDER BY n`,
    turnRows: `SELECT n AS "no.", turn AS "turn", ${time('start_ns')} AS "started", (end_ns - start_ns) / 1e9 AS "took", agent AS "agent", COALESCE(response_model, model) AS "model",
  COALESCE(error_type, stop_reason) AS "ended with", attempts AS "attempts", input AS "input", output AS "output",
  CASE WHEN input > 0 THEN 1.0 * cache_read / input END AS "from cache", tool_calls AS "tool calls", cost AS "cost", currency AS "currency", failed AS "failed", run AS "run"
FROM ${turns} AS t ORDER BY n`,
    runRows: `SELECT r.run AS "run", MAX(r.agent) AS "agent", ${time('MIN(r.start_ns)')} AS "started", (MAX(r.end_ns) - MIN(r.start_ns)) / 1e9 AS "took", COUNT(*) AS "turns",
  SUM(r.input) AS "input", SUM(r.output) AS "output", SUM(r.failed) AS "failed turns", MAX(r.trace) AS "trace"
FROM ${store.of('turns')} AS r
GROUP BY r.run, r.run_start_ns ORDER BY MIN(r.start_ns)`,
    toolRows: `SELECT COALESCE(tool, '(no name)') AS "tool", COUNT(*) AS "calls", SUM(CASE WHEN outcome = 'ok' THEN 1 ELSE 0 END) AS "ok", SUM(CASE WHEN outcome = 'error' THEN 1 ELSE 0 END) AS "error",
  SUM(CASE WHEN outcome = 'denied' THEN 1 ELSE 0 END) AS "denied", SUM(CASE WHEN outcome IN ('skipped', 'cancelled') THEN 1 ELSE 0 END) AS "not run",
  AVG(end_ns - start_ns) / 1e9 AS "mean", MAX(end_ns - start_ns) / 1e9 AS "longest"
FROM ${store.of('tool_calls')} AS c GROUP BY tool ORDER BY COUNT(*) DESC`,
    toolTime: `SELECT COALESCE(tool, '(no name)') AS "tool", SUM(end_ns - start_ns) / 1e9 AS "took" FROM ${store.of('tool_calls')} AS c
WHERE end_ns IS NOT NULL GROUP BY tool ORDER BY SUM(end_ns - start_ns) DESC LIMIT 12`,
    badCalls: `SELECT ${time('start_ns')} AS "at", turn AS "turn", tool AS "tool", outcome AS "outcome", (end_ns - start_ns) / 1e9 AS "took", run AS "run"
FROM ${store.of('tool_calls')} AS c WHERE outcome IS NULL OR outcome <> 'ok' ORDER BY start_ns`,
    permissionRows: `SELECT tool AS "tool", action AS "action", source AS "source", COUNT(*) AS "checks", SUM(wait_ns) / 1e9 AS "waited" FROM ${store.of('permission_evaluations')} AS p
GROUP BY tool, action, source ORDER BY COUNT(*) DESC`,
    compactionRows: `SELECT ${time('start_ns')} AS "at", turn AS "turn", kind AS "kind", "trigger" AS "cause", input_tokens AS "tokens before", output_tokens AS "tokens after",
  CASE WHEN input_tokens > 0 THEN 1.0 - 1.0 * output_tokens / input_tokens END AS "freed", messages_before AS "messages before", messages_after AS "messages after", (end_ns - start_ns) / 1e9 AS "took", run AS "run"
FROM ${store.of('compactions')} AS c ORDER BY start_ns`,
  };
}

export function session(store) {
  const q = queries(store);
  const ask = (sql, time) => [store.target('A', sql, time)];
  const self = store.name === 'SQLite' ? uid.session : uid.clickhouse;

  const which = [[
    rows({
      title: 'Which sessions ran in this time?', w: 24, h: 8, unit: 'short', decimals: 0, targets: ask(q.list, ['started']), none: 'none',
      fields: {
        'session': { links: [{ title: 'Look at this session', url: `/d/${self}?var-store=\${store}&var-tenant=\${tenant:percentencode}&var-session=\${__value.raw:percentencode}&from=\${__data.fields.from}&to=\${__data.fields.to}` }] },
        'spawned by': { links: [{ title: 'Look at the session that spawned it', url: `/d/${self}?var-store=\${store}&var-tenant=\${tenant:percentencode}&var-session=\${__value.raw:percentencode}&\${__url_time_range}` }] },
        'status': { 'mappings': words(style.sessionStatus), 'custom.cellOptions': coloured },
        'started': moment, 'took': { unit: 's' },
        'failed': { 'thresholds': thresholds(style.goodWhenNone), 'color': byThresholds, 'custom.cellOptions': coloured },
        'denied': { 'thresholds': thresholds([[null, style.colour.green], [1, style.colour.darkOrange]]), 'color': byThresholds, 'custom.cellOptions': coloured },
        'input': { 'color': fixed(style.direction.input), 'custom.cellOptions': gauged, 'min': 0 },
        'output': { 'color': fixed(style.direction.output), 'custom.cellOptions': gauged, 'min': 0 },
        'from cache': { 'unit': 'percentunit', 'thresholds': thresholds(style.cacheShare), 'color': byThresholds, 'custom.cellOptions': coloured },
        'from': hidden, 'to': hidden,
      },
      means: 'Sessions that were at work in the time that is shown, the newest first, at most 100. A click on one shows it in all panels below, and its time. "spawned by" is the session of the agent whose sub-agent it is.',
      bad: 'nothing here: choose a longer time, another tenant, or see whether anything is stored (pipeline health). A `busy` session that is old was killed.',
      links: [to('Pipeline health', uid.pipeline), inTempo.runs],
    }),
  ]];

  const small = (p) => tile({ w: 3, ...p });
  const glance = [[
    small({
      title: 'How is it?', unit: 'string', rows: '/^status$/', targets: ask(q.status), mappings: words(style.sessionStatus), none: 'unknown',
      means: 'What the session is doing as far as its spans say: `idle` when no run is open.',
      bad: '`aborted` is a run whose end was never reported; `waiting_on_approval` a question that nobody answered.', links: [inTempo.runs],
    }),
    small({
      title: 'How long?', unit: 's', targets: ask(q.took), none: 'unknown', means: 'From the first to the last that is known of it, waits for people and nights included.',
      bad: 'compare with the timeline: gaps are nobody at work.', links: [inTempo.runs],
    }),
    small({
      title: 'How many turns?', unit: 'short', decimals: 0, targets: ask(q.turnCount), none: '0', colours: { 'turns': style.lane.turn, 'tool calls': style.lane.tool },
      means: 'Turns and tool calls of all its runs, each counted once.', bad: 'as many tool calls as turns is an agent that takes one small step at a time.', links: [inTempo.turns],
    }),
    small({
      title: 'How many tokens?', unit: 'short', targets: ask(q.tokens), none: '0', colours: style.direction,
      means: 'Sums over all turns: input with what came from cache, output with reasoning.', bad: 'input is sent again with each turn: it grows with the square of a session that is not compacted.', links: [inTempo.turns],
    }),
    small({
      title: 'What did it cost?', unit: 'locale', decimals: 4, rows: '/^cost$/', targets: ask(q.cost), none: 'not reported',
      means: 'What the loop reported, by currency. `otelagent stats` computes costs from a price list of yours.', bad: '"not reported" is a loop that reports none.', links: [inTempo.turns],
    }),
    small({
      title: 'How much from cache?', unit: 'percentunit', decimals: 0, min: 0, max: 1, thresholds: style.cacheShare, targets: ask(q.cached), none: 'no input',
      means: 'Tokens read from cache, of all input tokens. Green from 50 %.', bad: 'red is no hit at all: see from which turn on, below, and what changed at the beginning of its request (`otelagent request`).', links: [inTempo.turns],
    }),
    small({
      title: 'What failed?', unit: 'short', decimals: 0, thresholds: style.goodWhenNone, targets: ask(q.failed), none: '0',
      means: 'Runs, turns and tool calls that ended with an error.', bad: 'see the tables of turns and tool calls below.', links: [inTempo.failed],
    }),
    small({
      title: 'What was denied?', unit: 'short', decimals: 0, thresholds: [[null, style.colour.green], [1, style.colour.darkOrange]], targets: ask(q.denied), none: '0',
      means: 'Permission checks that said no.', bad: 'see by which rule, below.', links: [inTempo.permissions],
    }),
  ]];

  const when = [[
    timeline({
      title: 'What was it doing, and when?', unit: 'string', none: 'nothing with a known time',
      targets: [['A', q.runLane], ['B', q.turnLane], ['C', q.toolLane], ['D', q.waitLane], ['E', q.compactionLane]].map(([id, sql]) => store.target(id, sql, ['time'])),
      colours: style.lane,
      mappings: [
        { type: 'regex', options: { pattern: '/( failed|: error)$/', result: { color: style.outcome.error, index: 0 } } },
        { type: 'regex', options: { pattern: '/: denied$/', result: { color: style.outcome.denied, index: 1 } } },
        { type: 'regex', options: { pattern: '/: cancelled$/', result: { color: style.outcome.cancelled, index: 2 } } },
      ],
      means: 'Runs, turns by their number, tools by name, waits for an answer, and compactions, each in a lane. Red failed, orange was denied. What overlaps is drawn one behind the other in its lane. What has no measured end, or took no time, is left out.',
      bad: 'long stretches of yellow are waits for people; of blue without a tool below, of the model. A gap in all lanes is nobody at work.',
      links: [inTempo.turns],
    }),
  ]];

  const byTurn = [
    [
      numberedBars({
        title: 'How many tokens did each turn take?', x: 'turn', unit: 'short', colours: style.token, targets: ask(q.classes), calcs: ['sum', 'max'], none: 'not reported',
        means: 'Tokens by turn, in parts that add up: blue is input at full price, green came from or went to cache, orange was written, purple thought.',
        bad: 'blue that grows is history that no cache holds. A turn that is all blue among green ones broke the cache: something at the beginning of its request changed.',
        links: [inTempo.turns],
      }),
      spread({
        title: 'How large were the turns, and when?', unit: 'short', targets: ask(q.sizes, ['time']), none: 'not reported',
        means: 'Turns by their tokens, on a scale on which each step is twice the one below: the brighter a cell, the more turns of that size at that time.',
        bad: 'a stair that climbs and drops is compaction at work. One that only climbs ends at the context window.',
        links: [inTempo.turns],
      }),
    ],
    [
      numberedLines({
        title: 'How much of each request came from cache?', x: 'turn', unit: 'percentunit', max: 1, targets: ask(q.cacheRate), none: 'no provider with a cache',
        colours: { 'from cache': style.token['cache read'] },
        fields: { 'no hit at all': { 'color': fixed(style.colour.red), 'custom.drawStyle': 'points', 'custom.pointSize': 12, 'custom.showPoints': 'always' } },
        means: 'Tokens read from cache, of the input tokens of the turn. Only where provider and model ever used a cache: without one there is no line.',
        bad: 'a red dot is a turn without any hit although there is a cache. It is normal on the first turn and after a compaction or a long pause; elsewhere something at the beginning of the request changed.',
        links: [tempo('Turns without a hit in Tempo', spansOf('session.turn', 'span.gen_ai.usage.cache_read.input_tokens = 0', 'span.otelagent.turn.index, span.gen_ai.usage.input_tokens'))],
      }),
      numberedLines({
        title: 'How do requests grow?', x: 'turn', unit: 'bytes', targets: ask(q.requests), none: 'not reported',
        colours: { bytes: style.colour.blue },
        fields: { messages: { 'unit': 'short', 'color': fixed(style.colour.orange), 'custom.axisPlacement': 'right', 'custom.fillOpacity': 0, 'decimals': 0 } },
        means: 'Size of what the model was sent on each turn, and the number of messages in it (right).',
        bad: 'bytes that jump while messages grow by one or two: one tool result is huge. `otelagent request` shows what was sent.',
        links: [inTempo.turns],
      }),
    ],
    [
      numberedBars({
        title: 'How long did each turn take?', x: 'turn', unit: 's', targets: ask(q.durations), calcs: ['sum', 'max'], none: 'not known',
        colours: { 'model': style.lane.turn, 'tools and loop': style.lane.tool },
        means: 'Time of each turn, the model call and the rest, where the loop reports the model call alone; all of it is "tools and loop" where not.',
        bad: 'tall in the colour of tools: see which tool, below; waits for permissions are in it.',
        links: [inTempo.turns],
      }),
      numberedLines({
        title: 'How long until each reply began?', x: 'turn', unit: 's', targets: ask(q.firstChunk), none: 'not reported', colours: { 'first piece': style.colour.blue },
        means: 'Time to the first piece of the reply, where the loop streams and reports it.',
        bad: 'it grows with input that does not come from cache.',
        links: [inTempo.turns],
      }),
    ],
    [
      rows({
        title: 'What happened on each turn?', w: 24, h: 10, unit: 'short', decimals: 0, targets: ask(q.turnRows, ['started']),
        fields: {
          'no.': { ...exact, links: turnLink }, 'turn': { ...exact, links: turnLink }, 'started': moment, 'took': { 'unit': 's', 'decimals': 1 },
          'ended with': { mappings: words({ provider_error: style.colour.red, aborted: style.colour.darkRed, cancelled: style.colour.yellow, rejected: style.colour.darkOrange, tool_error: style.colour.orange }), 'custom.cellOptions': coloured },
          'attempts': { 'thresholds': thresholds([[null, 'text'], [2, style.colour.yellow]]), 'color': byThresholds, 'custom.cellOptions': coloured },
          'input': { 'color': fixed(style.direction.input), 'custom.cellOptions': gauged, 'min': 0 }, 'output': { 'color': fixed(style.direction.output), 'custom.cellOptions': gauged, 'min': 0 },
          'from cache': { 'unit': 'percentunit', 'thresholds': thresholds(style.cacheShare), 'color': byThresholds, 'custom.cellOptions': coloured },
          'cost': { decimals: 4 }, 'run': hidden,
          'failed': { 'mappings': [{ type: 'value', options: { 0: { text: '', index: 0 }, 1: { text: 'failed', color: style.outcome.error, index: 1 } } }], 'custom.cellOptions': filled },
        },
        means: 'All turns in their order. "no." counts through the session, "turn" is the index in its run as `otelagent show` and `otelagent request` take it. A click leads to the turn in Tempo.',
        bad: 'sort by the column that worries you.',
        links: [inTempo.turns],
      }),
    ],
  ];

  const runsAndTools = [
    [
      rows({
        title: 'Which runs does it have?', w: 24, h: 7, unit: 'short', decimals: 0, targets: ask(q.runRows, ['started']),
        fields: {
          'started': moment, 'took': { unit: 's', decimals: 1 },
          'failed turns': { 'thresholds': thresholds(style.goodWhenNone), 'color': byThresholds, 'custom.cellOptions': coloured },
          'trace': { links: [{ title: 'Trace in Tempo', url: tempo('', '${__data.fields.trace}').build().url }, jaegerTrace('Trace in Jaeger', 'trace').build()].map(({ title, url, targetBlank = false }) => ({ title, url, targetBlank })) },
        },
        means: 'Runs of the session that had a turn, with the trace that each run is. A click on a trace leads to Tempo or Jaeger.',
        bad: 'a run without a trace is one whose own span has not arrived: it is open, or was lost.',
        links: [inTempo.runs],
      }),
    ],
    [
      rows({
        title: 'Which tools were called, and how did it go?', w: 12, unit: 'short', decimals: 0, targets: ask(q.toolRows), none: 'none',
        fields: {
          ...Object.fromEntries(['ok', 'error', 'denied'].map((o) => [o, { 'color': fixed(style.outcome[o]), 'custom.cellOptions': coloured }])),
          'not run': { 'color': fixed(style.outcome.skipped), 'custom.cellOptions': coloured }, 'mean': { unit: 's', decimals: 2 }, 'longest': { unit: 's', decimals: 2 },
        },
        means: 'Tool calls by tool and outcome. "not run" were skipped or cancelled.',
        bad: 'a tool with as many errors as calls was never of use, and each call cost a turn.',
        links: [inTempo.tools],
      }),
      ranking({
        title: 'Which tools took the time?', w: 12, unit: 's', decimals: 1, rows: '/^took$/', fixed: style.lane.tool, targets: ask(q.toolTime), none: 'none with a known time',
        means: 'Time by tool, waits for permission included; calls that ran at the same time are added.',
        bad: 'the longest bar is what to make faster.',
        links: [inTempo.tools],
      }),
    ],
    [
      rows({
        title: 'Which calls did not go well?', w: 24, h: 7, unit: 'short', decimals: 0, targets: ask(q.badCalls, ['at']), none: 'all went well',
        fields: {
          'at': moment, 'turn': { ...exact, links: turnLink }, 'took': { unit: 's', decimals: 2 }, 'run': hidden,
          'outcome': { 'mappings': [...words(style.outcome), { type: 'special', options: { match: 'null', result: { text: 'no end seen', color: style.outcome['no end seen'], index: 9 } } }], 'custom.cellOptions': filled },
        },
        means: 'Tool calls that failed, were denied, skipped or cancelled, or of which no end was seen. A click on the turn leads to Tempo.',
        bad: 'the same call again and again is an agent that goes in circles.',
        links: [inTempo.tools, inTempo.failed],
      }),
    ],
  ];

  const guards = [[
    rows({
      title: 'Who decided what?', w: 10, unit: 'short', decimals: 0, targets: ask(q.permissionRows), none: 'nothing was asked',
      fields: { action: { 'mappings': words(style.action), 'custom.cellOptions': filled }, waited: { unit: 's', decimals: 1 } },
      means: 'Permission checks by tool, decision and where the rule stands, and how long an answer was waited for.',
      bad: '`ask` without an answer is where the agent stands still.',
      links: [inTempo.permissions],
    }),
    rows({
      title: 'What did compaction do?', w: 14, unit: 'short', decimals: 0, targets: ask(q.compactionRows, ['at']), none: 'there was none',
      fields: {
        'at': moment, 'turn': { ...exact, links: turnLink }, 'kind': { 'mappings': words(style.compaction), 'custom.cellOptions': coloured },
        'freed': { 'unit': 'percentunit', 'thresholds': thresholds([[null, style.colour.red], [0.2, style.colour.yellow], [0.5, style.colour.green]]), 'color': byThresholds, 'custom.cellOptions': coloured },
        'took': { unit: 's', decimals: 1 }, 'run': hidden,
      },
      means: 'Each compaction with its cause and what it freed, as the loop estimates tokens.',
      bad: 'little freed, and again a few turns later: what is kept is too much.',
      links: [inTempo.compactions],
    }),
  ]];

  const traces = [[
    rows({
      title: 'Which turns does Tempo have?', w: 12, h: 9, unit: 'short', filterable: false, none: 'none found', targets: traceql(turnSpans),
      means: 'Turns of the session as Tempo has them. A click opens the trace.',
      bad: 'fewer than above: Tempo cuts traces at 5 MB and attributes at 2,048 bytes by default, and forgets sooner than the store.',
      links: [inTempo.turns],
    }),
    histogram({
      title: 'How large are its requests, as Tempo counts?', w: 12, h: 9, unit: 'short', none: 'none found',
      targets: traceqlMetrics(`{ span.otelagent.kind = "session.turn" && ${ours} } | histogram_over_time(span.gen_ai.usage.input_tokens)`),
      means: 'Input tokens of single turns in powers of two, computed by Tempo from spans. Its newest half minute is not in it.',
      bad: 'see the panels by turn above.',
      links: [inTempo.turns],
    }),
  ]];

  return page({
    uid: self, title: `One session (${store.name})`, refresh: '', time: { from: 'now-24h', to: 'now' }, links: between(),
    description: `What one session did: turns, tokens, cache, tools, permissions, compactions. From the tables of the ${store.name} store (docs/stats.md), and traces in Tempo.`,
    variables: [
      dataSource('store', 'Store', store.plugin, `${store.name} data source on the store of agent_session.`),
      dataSource('tempo', 'Traces', 'tempo', 'Tempo that has the traces of the agents.'),
      pick('tenant', 'Tenant', store, q.tenants, 'Owner of sessions; (default) is the empty tenant.'),
      pick('session', 'Session', store, q.sessionIDs, 'Sessions that were at work in the time that is shown, the newest first.'),
      text('jaeger', 'Jaeger', 'http://127.0.0.1:16686', 'Where the Jaeger UI is, for links to traces.'),
    ],
  }, {
    'Which session?': which, 'At a glance': glance, 'Timeline': when, 'Turn by turn': byTurn, 'Runs and tools': runsAndTools, 'Permissions and compactions': guards,
    'From the traces': traces,
  });
}

function pick(name, label, store, sql, description) {
  return new dashboard.QueryVariableBuilder(name).label(label).description(description).datasource({ type: store.plugin, uid: '${store}' })
    .query(store.variable(sql)).definition(sql).refresh(dashboard.VariableRefresh.OnTimeRangeChanged).sort(dashboard.VariableSort.Disabled)
    .multi(false).includeAll(false);
}
