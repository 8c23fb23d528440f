// Pipeline health: whether what agents send arrives, is kept, and how much of it is lost on the way. From the Collector's own metrics, those
// of the agent_session exporter, and those of the adapter.
import { increase, label, of, ofCollector, ofExporter, orZero, rate, share, sum } from './metrics.mjs';
import { bars, dataSource, fixed, labelValues, lines, now, page, ranking, series, tile } from './panels.mjs';
import { between, tempo, to, uid } from './links.mjs';
import * as style from './style.mjs';

const range = '$__range';
const c = style.colour;
const inTempo = {
  spans: tempo('What arrived, in Tempo', '{ span.otelagent.kind =~ "session.run|session.turn|tool.call|compaction.run|permission.evaluate" } | select(span.session.id)'),
  withheld: tempo('Spans with content withheld, in Tempo', '{ span.otelagent.capture.withheld > 0 } | select(span.session.id, span.otelagent.capture.withheld)'),
  dropped: tempo('Spans with events left out, in Tempo', '{ span.otelagent.events.dropped > 0 } | select(span.session.id, span.otelagent.events.dropped)'),
  redacted: tempo('Spans that were redacted, in Tempo', '{ span.otelagent.redacted > 0 } | select(span.session.id, span.otelagent.redacted)'),
};
const overview = to('Agents overview', uid.agents);
const x = (name, matchers) => ofExporter(`exporter_agent_session_${name}`, '', matchers);
const put = (part, matchers) => ofExporter('exporter_agent_session_put_duration', part, matchers);
const rejected = ['spans_rejected', 'log_records_rejected', 'blocks_rejected'];
// count is how often something happened per bar, 0 where it never did: counters of what goes wrong are not there before it does.
const count = (selector) => orZero(sum(increase(selector)));
const all = (names, f) => names.map((n) => orZero(sum(f(x(n))))).join('\n+ ');

const glance = [
  [
    tile({
      title: 'Is the store open?', unit: 'short', min: 0, max: 1, none: 'no data', thresholds: [[null, c.red], [1, c.green]],
      mappings: [{ type: 'value', options: { 0: { text: 'no', color: c.red, index: 0 }, 1: { text: 'yes', color: c.green, index: 1 } } }],
      targets: now({ open: `min(${x('store_open')})` }),
      means: 'Whether every agent_session exporter has its store open and its last write did not fail.',
      bad: 'the Collector logs why, once a minute: a full disk, a locked file, a database that is away. Senders are asked to retry, or the queue holds it. No data: the Collector is down, or Prometheus does not reach it.',
      links: [inTempo.spans],
    }),
    tile({
      title: 'How much was rejected?', unit: 'short', decimals: 0, none: '0', thresholds: style.goodWhenNone,
      targets: now({ rejected: all(rejected, (s) => increase(s, range)) }),
      means: 'Spans, log records and blocks that could not be stored because of what is in them, in the time that is shown. They do not come again.',
      bad: 'the log names the first of each reason.',
      links: [inTempo.spans],
    }),
    tile({
      title: 'How full is the fullest queue?', unit: 'percentunit', decimals: 0, min: 0, max: 1, none: 'no queue', sparkline: true, thresholds: [[null, c.green], [0.5, c.yellow], [0.8, c.red]],
      targets: series({ full: `max(\n${ofCollector('otelcol_exporter_queue_size', {})}\n/ ${ofCollector('otelcol_exporter_queue_capacity', {})}\n)` }),
      means: 'What waits in the queue of an exporter, of what fits into it. agent_session works without a queue unless configured.',
      bad: 'it fills when the store or backend is slower than what comes. Full, data is refused or dropped.',
      links: [inTempo.spans],
    }),
    tile({
      title: 'How large is the store?', unit: 'bytes', decimals: 1, none: 'not a file', sparkline: true,
      targets: series({ size: sum(x('store_size')) }),
      means: 'All files of the store, or what its tables take.',
      bad: 'it grows for ever without `retention`. With it, it stays at a level.',
      links: [inTempo.spans],
    }),
  ],
  [
    tile({
      title: 'How many sessions wait for their summary?', unit: 'short', decimals: 0, none: 'no data', thresholds: [[null, c.green], [100, c.yellow], [10000, c.red]],
      targets: now({ behind: sum(x('sessions_unprojected')) }),
      means: 'Sessions whose summary, and tables for SQL, are behind what is stored. Some are normal while sessions run.',
      bad: 'a number that stays is projections that fail: see projection failures. `otelagent ls` and the dashboard of one session show old figures meanwhile.',
      links: [inTempo.spans],
    }),
    tile({
      title: 'How often did a write fail?', unit: 'short', decimals: 0, none: '0', thresholds: style.goodWhenNone,
      targets: now({ failures: orZero(sum(increase(x('write_failures'), range))) }),
      means: 'Attempts to write a batch that failed because of the store. Unless queue or sender give up, the batch comes again.',
      bad: 'see by which cause, below.',
      links: [inTempo.spans],
    }),
    tile({
      title: 'What did agents drop?', unit: 'short', decimals: 0, none: '0', thresholds: [[null, c.green], [1, c.yellow]],
      targets: now({ dropped: orZero(sum(increase(of('otelagent.dropped'), range))) }),
      means: 'What adapters left out at a bound or could not deliver, in the time that is shown.',
      bad: 'see which kind, below: `span` and `late` are losses, `event` is the bound on extra events.',
      links: [inTempo.dropped],
    }),
    tile({
      title: 'How much content was not sent twice?', unit: 'percentunit', decimals: 0, min: 0, max: 1, none: 'no content', thresholds: [[null, c.blue]],
      targets: now({ saved: share(sum(increase(of('otelagent.capture.known_bytes'), range)), `(${sum(increase(of('otelagent.capture.new_bytes'), range))} + ${sum(increase(of('otelagent.capture.known_bytes'), range))})`) }),
      means: 'Content that adapters referred to because it was sent before, of all content of requests and replies.',
      bad: 'near 0 % with long sessions: each request differs in all its messages, or each turn is a process of its own.',
      links: [inTempo.spans],
    }),
  ],
];

const incoming = [
  [
    bars({
      title: 'How many spans arrive at the Collector?', w: 8, unit: 'short', decimals: 0, colours: style.flow,
      targets: series({
        accepted: sum(increase(ofCollector('otelcol_receiver_accepted_spans'))), refused: count(ofCollector('otelcol_receiver_refused_spans')),
        failed: count(ofCollector('otelcol_receiver_failed_spans')),
      }),
      means: 'Spans by what the receiver did with them. `refused` were not taken by what is behind it: senders are asked to retry.',
      bad: 'refused spans are the memory limiter or a store that is away. `failed` ones are wrong in themselves.',
      links: [inTempo.spans, overview],
    }),
    bars({
      title: 'What became of spans in the exporter?', w: 8, unit: 'short', decimals: 0, colours: style.flow,
      targets: series({ stored: sum(increase(x('spans_stored'))), foreign: count(x('spans_foreign')), rejected: count(x('spans_rejected')) }),
      means: 'Spans of agents are stored. `foreign` are spans of other kinds, which agent_session passes over.',
      bad: 'foreign alone: no adapter sends here. Rejected: see the reasons in the next panel.',
      links: [inTempo.spans],
    }),
    ranking({
      title: 'Why was something rejected?', w: 8, unit: 'short', decimals: 0, none: 'nothing was', fixed: style.flow.rejected,
      targets: now(Object.fromEntries(rejected.map((n) => [`${n.replace('_rejected', '').replace('_', ' ')}: {{reason}}`, `${sum(increase(x(n), range), 'reason')} > 0`]))),
      means: 'Spans, log records and blocks that were not stored in the time that is shown, by reason.',
      bad: 'the log names the first of each reason, with service and session.',
      links: [inTempo.spans],
    }),
  ],
  [
    bars({
      title: 'How many log records come, and what becomes of them?', w: 8, unit: 'short', decimals: 0, colours: style.flow,
      targets: series({ stored: count(x('log_records_stored')), foreign: count(x('log_records_foreign')), rejected: count(x('log_records_rejected')) }),
      means: 'Other programs send what they do as log records.',
      bad: 'none is normal with the adapter. Foreign ones are logs of something else.',
      links: [inTempo.spans],
    }),
    bars({
      title: 'What was cut or left out?', w: 8, unit: 'short', decimals: 0, none: '0', colours: { pieces: c.orange },
      targets: series({ pieces: count(x('pieces_cut')) }),
      means: 'Attributes, lists, events and blocks that the exporter left out or shortened at a bound, or because they are malformed.',
      bad: 'a processor in between cuts attributes, or a producer sends what is too large.',
      links: [inTempo.withheld],
    }),
    bars({
      title: 'What did redaction find late?', w: 8, unit: 'short', decimals: 0, none: '0',
      targets: series({ '{{where}}': sum(increase(x('redactions')), 'where') }),
      means: 'Places in which the rules of the exporter found what the producer should have taken out, by where it was.',
      bad: 'secrets leave the agents: give the adapter the same rules (docs/redaction.md).',
      links: [inTempo.redacted],
    }),
  ],
];

const storing = [
  [
    lines({
      title: 'How long does a write take?', w: 8, unit: 's', colours: style.quantile,
      targets: series(Object.fromEntries([0.5, 0.95, 0.99].map((q) => [`p${q * 100}`, `histogram_quantile(${q}, ${sum(rate(put('bucket')), 'le')})`]))),
      means: 'One write to the store, waiting for the commit included. Senders wait as long when there is no queue.',
      bad: 'slow disks, or another process that holds the file.',
      links: [inTempo.spans],
    }),
    bars({
      title: 'How do writes end?', w: 8, unit: 'short', decimals: 0, colours: { ok: c.green, retryable: c.yellow, permanent: c.red },
      targets: series({ '{{outcome}}': sum(increase(put('count')), 'outcome') }),
      means: 'Writes by outcome. `retryable` ones come again, `permanent` is that the store refuses what is in the batch.',
      bad: 'retryable for minutes: queue and senders fill up. Permanent: data is lost, see the log.',
      links: [inTempo.spans],
    }),
    bars({
      title: 'Why did writes fail?', w: 8, unit: 'short', decimals: 0, none: 'none did', colours: { away: c.orange, full: c.darkRed, store: c.red },
      targets: series({ '{{reason}}': sum(increase(x('write_failures')), 'reason') }),
      means: 'Failed attempts by cause: `away` is a store that was never open, `full` the bound `limits::store_mib`.',
      bad: 'full: raise the bound or set `retention`. Away: path, rights, or the database server.',
      links: [inTempo.spans],
    }),
  ],
  [
    bars({
      title: 'How much content is new, how much was there?', w: 8, unit: 'bytes', colours: { written: c.blue, 'there already': c.green },
      targets: series({ written: sum(increase(x('block_bytes_stored'))), 'there already': count(x('block_bytes_deduplicated')) }),
      means: 'Bytes of bodies before compression: written, and found to be there already.',
      bad: 'much that was there already was sent twice: agents send again after a restart, or a retry repeats batches.',
      links: [inTempo.spans],
    }),
    bars({
      title: 'How many blocks come, and how many are known?', w: 8, unit: 'short', decimals: 0, colours: { 'in writes': c.blue, 'known before': c.green },
      targets: series({ 'in writes': `clamp_min(${sum(increase(x('blocks_stored')))} - ${orZero(sum(increase(x('blocks_deduplicated'))))}, 0)`, 'known before': sum(increase(x('blocks_deduplicated'))) }),
      means: 'Pieces of requests and replies in writes: new ones, and those that the store had.',
      bad: 'as with bytes, in the next panel.',
      links: [inTempo.spans],
    }),
    lines({
      title: 'How does the store grow?', w: 8, unit: 'bytes',
      targets: series({ '{{exporter}}': sum(x('store_size'), 'exporter') }),
      means: 'Size of the store, by exporter.',
      bad: 'a slope that does not end: set `retention`, or capture less.',
      links: [inTempo.spans],
    }),
  ],
  [
    lines({
      title: 'How far are summaries behind?', w: 8, unit: 'short', decimals: 0,
      targets: series({ '{{exporter}}': sum(x('sessions_unprojected'), 'exporter') }),
      means: 'Sessions whose summary and tables are behind what is stored, 10,000 for more of them.',
      bad: 'a line that does not come down: see failures in the next panel.',
      links: [inTempo.spans],
    }),
    bars({
      title: 'What goes wrong in the background?', w: 8, unit: 'short', decimals: 0, none: 'nothing',
      colours: { 'projections': c.orange, 'sweeps of retention': c.yellow },
      targets: series({
        'projections': count(x('projection_failures')), 'sweeps of retention': count(x('retention_failures')),
      }),
      means: 'Work that is done behind the writes and tried again when it fails.',
      bad: 'the Collector logs why.',
      links: [inTempo.spans],
    }),
    bars({
      title: 'Which sessions come and go?', w: 8, unit: 'short', decimals: 0, colours: { touched: c.blue, 'deleted: age': c.grey, 'deleted: sessions': c.yellow, 'deleted: size': c.orange },
      targets: series({ 'touched': sum(increase(x('sessions_touched'))), 'deleted: {{cause}}': sum(increase(x('retention_sessions_deleted')), 'cause') }),
      means: 'Sessions in writes, each once a write, and those that `retention` deleted, by the bound that they were beyond.',
      bad: 'deletions by size every few minutes: the bound is too small for what comes, and sessions go while people look at them.',
      links: [inTempo.spans],
    }),
  ],
];

const machine = [
  [
    lines({
      title: 'How full are the queues?', w: 8, unit: 'short', decimals: 0,
      targets: series({ '{{exporter}} {{data_type}}': `max by (exporter, data_type) (${ofCollector('otelcol_exporter_queue_size')})`, 'capacity of {{exporter}} {{data_type}}': `max by (exporter, data_type) (${ofCollector('otelcol_exporter_queue_capacity')})` }),
      patterns: { 'capacity of .*': { 'custom.lineStyle': { fill: 'dash', dash: [6, 6] }, 'custom.fillOpacity': 0, 'color': fixed(c.grey) } },
      means: 'What waits, and how much fits (dashed), for each exporter of the Collector, in the unit of the sizer of its queue: requests, items or bytes.',
      bad: 'a line that reaches the dashed one: what comes then is refused or dropped.',
      links: [inTempo.spans],
    }),
    bars({
      title: 'What do exporters send, and what is lost?', w: 8, unit: 'short', decimals: 0,
      targets: series({
        'sent by {{exporter}}': sum(increase(ofCollector('otelcol_exporter_sent_spans')), 'exporter'), 'failed in {{exporter}}': sum(increase(ofCollector('otelcol_exporter_send_failed_spans')), 'exporter'),
        'no room at {{exporter}}': sum(increase(ofCollector('otelcol_exporter_enqueue_failed_spans')), 'exporter'),
      }),
      patterns: { 'failed in .*': { color: fixed(c.red) }, 'no room at .*': { color: fixed(c.darkRed) } },
      means: 'Spans by exporter: sent, given up after retries, and refused because the queue was full: their senders are asked to retry.',
      bad: 'red is lost, for that backend. The others have it.',
      links: [inTempo.spans],
    }),
    bars({
      title: 'What does the memory limiter let through?', w: 8, unit: 'short', decimals: 0, colours: { accepted: c.green, refused: c.yellow },
      targets: series({ accepted: sum(increase(ofCollector('otelcol_processor_memory_limiter_accepted_spans'))), refused: count(ofCollector('otelcol_processor_memory_limiter_refused_spans')) }),
      means: 'Spans that passed the memory limiter, and those that it sent back to come again later.',
      bad: 'refused for minutes: more memory, fewer senders, or a store that is too slow.',
      links: [inTempo.spans],
    }),
  ],
  [
    lines({
      title: 'How much memory does the Collector take?', w: 8, unit: 'bytes',
      targets: series({ 'resident {{instance}}': `max by (instance) (${ofCollector('otelcol_process_memory_rss')})`, 'heap {{instance}}': `max by (instance) (${ofCollector('otelcol_process_runtime_heap_alloc_bytes')})` }),
      means: 'Memory of the process, and what of it is the heap.',
      bad: 'near the limit of the memory limiter it refuses data.',
      links: [inTempo.spans],
    }),
    lines({
      title: 'How busy is the Collector?', w: 8, unit: 'percentunit',
      targets: series({ '{{instance}}': `sum by (instance) (${rate(ofCollector('otelcol_process_cpu_seconds'))})` }),
      means: 'Processor time of the process; 100 % is one core.',
      bad: 'as many cores as the machine has: add a Collector, or let less through.',
      links: [inTempo.spans],
    }),
    lines({
      title: 'Since when does the Collector run?', w: 8, unit: 's',
      targets: series({ '{{instance}}': `max by (instance) (${ofCollector('otelcol_process_uptime')})` }),
      means: 'Time since the start of the process.',
      bad: 'a saw is a process that ends again and again. What was only in memory is lost each time.',
      links: [inTempo.spans],
    }),
  ],
];

const adapter = [
  [
    bars({
      title: 'How much content do agents send?', w: 8, unit: 'bytes', colours: { 'new': c.blue, 'known': c.green },
      targets: series({ new: sum(increase(of('otelagent.capture.new_bytes'))), known: sum(increase(of('otelagent.capture.known_bytes'))) }),
      means: 'Content of requests and replies: sent, and referred to because it was sent before.',
      bad: 'blue that grows with the length of sessions: histories are sent whole. None: content is not captured.',
      links: [inTempo.spans],
    }),
    bars({
      title: 'What do adapters drop?', w: 8, unit: 'short', decimals: 0, none: 'nothing', colours: { span: c.red, late: c.orange, event: c.grey, message: c.yellow, request: c.purple },
      targets: series({ [`{{${label('otelagent.dropped.kind')}}}`]: sum(increase(of('otelagent.dropped')), 'otelagent.dropped.kind') }),
      means: 'What the adapter left out at a bound or could not deliver, by kind (docs/metrics.md).',
      bad: '`span`: the Collector is away or too slow. `late`: events of a stream that had no place. The others are bounds.',
      links: [inTempo.dropped],
    }),
    bars({
      title: 'How often is content withheld?', w: 8, unit: 'short', decimals: 0, none: '0', colours: { bodies: c.orange },
      targets: series({ bodies: count(of('otelagent.capture.withheld')) }),
      means: 'Bodies that a bound on size or on the window of a request cut or left out; their size and digest are kept.',
      bad: 'requests cannot be shown whole. Raise the bound, or let tools return less.',
      links: [inTempo.withheld],
    }),
  ],
];

export const pipeline = () => page({
  uid: uid.pipeline, title: 'Pipeline health', refresh: '1m', time: { from: 'now-6h', to: 'now' }, links: between(),
  description: 'Whether what agents send arrives and is kept: adapter, Collector, agent_session exporter. From their own metrics in Prometheus.',
  variables: [
    dataSource('prometheus', 'Metrics', 'prometheus', 'Prometheus that has the metrics of the Collector and of the agents.'),
    dataSource('tempo', 'Traces', 'tempo', 'Tempo that has the traces of the agents.'),
    labelValues('instance', 'Collector', 'otelcol_process_uptime', 'instance', 'Collectors that Prometheus reads.'),
    labelValues('exporter', 'Exporter', 'otelcol_exporter_agent_session_store_open', 'exporter', 'agent_session exporters.'),
  ],
}, {
  'At a glance': glance, 'What comes in': incoming, 'The store': storing, 'Queues, memory and other exporters': machine, 'The adapter in the agents': adapter,
});
