// Metrics by their OpenTelemetry names, from the files that define them, and what Prometheus calls them. A dashboard cannot
// name a metric or a label that does not exist: it throws here.
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

const root = new URL('../../', import.meta.url);
const read = (path) => parse(readFileSync(new URL(path, root), 'utf8'), { maxAliasCount: -1 });

const registry = new Map(read('spans/registry.yaml').metrics.map((m) => [m.name, m]));
const exporter = read('collector-exporter/agentsessionexporter/metadata.yaml');

// What Prometheus makes of a name: dots become underscores, the unit comes behind unless the name has it, and _total behind that.
// Units in braces are comments.
const suffixes = { s: 'seconds', By: 'bytes' };
export const label = (key) => key.replaceAll('.', '_');
function prometheusName({ name, unit, instrument }) {
  const words = name.replaceAll('.', '_').split('_');
  const suffix = suffixes[unit];
  if (suffix && !words.includes(suffix)) words.push(suffix);
  if (instrument === 'counter') words.push('total');
  return words.join('_');
}

// Labels by which the variables of a dashboard filter.
const filters = { 'gen_ai.agent.name': 'agent', 'gen_ai.provider.name': 'provider', 'gen_ai.request.model': 'model' };

// of returns a selector of one of our metrics: of('otelagent.turn.tokens', 'count', {'otelagent.token.class': 'input'}). A value
// may be [operator, value]. Labels that variables filter by are added.
export function of(name, part, matchers = {}) {
  const m = registry.get(name);
  if (!m) throw new Error(`spans/registry.yaml has no metric ${name}`);
  if ((m.instrument === 'histogram') !== ['bucket', 'sum', 'count'].includes(part)) throw new Error(`${name} is a ${m.instrument}`);
  const all = [];
  for (const [key, value] of Object.entries(matchers)) {
    if (!m.attributes.includes(key)) throw new Error(`${name} has no label ${key}`);
    const [op, v] = Array.isArray(value) ? value : ['=', value];
    all.push(`${label(key)}${op}"${v}"`);
  }
  for (const [key, variable] of Object.entries(filters)) {
    if (m.attributes.includes(key) && !(key in matchers)) all.push(`${label(key)}=~"$${variable}"`);
  }
  return `${prometheusName(m)}${part ? `_${part}` : ''}{${all.join(', ')}}`;
}

// ofExporter returns a selector of a metric of agent_session, by its name in metadata.yaml. The Collector's own endpoint for
// Prometheus writes names without unit and _total; so does what comes here.
export function ofExporter(name, part, matchers = {}) {
  const m = exporter.telemetry.metrics[name];
  if (!m) throw new Error(`metadata.yaml has no metric ${name}`);
  if (Boolean(m.histogram) !== Boolean(part)) throw new Error(`${name}: part ${part}`);
  for (const key of Object.keys(matchers)) if (!m.attributes.includes(key)) throw new Error(`${name} has no label ${key}`);
  return ofCollector(`${m.prefix ?? 'otelcol_'}${name}${part ? `_${part}` : ''}`, { exporter: ['=~', '$exporter'], ...matchers });
}

// ofCollector is the same for metrics of the Collector itself, which dashboards/otelcol-metrics.yaml lists.
export function ofCollector(name, matchers = {}) {
  const all = Object.entries({ instance: ['=~', '$instance'], ...matchers }).map(([key, value]) => {
    const [op, v] = Array.isArray(value) ? value : ['=', value];
    return `${key}${op}"${v}"`;
  });
  return `${name}{${all.join(', ')}}`;
}

// Shorthands of PromQL. Windows: a bar is one step wide ($__interval, with a least step); lines and tiles say theirs.
export const sum = (expr, ...by) => (by.length ? `sum by (${by.map(label).join(', ')}) (${expr})` : `sum(${expr})`);
export const increase = (selector, window = '$__interval') => `increase(${selector}[${window}])`;
export const rate = (selector, window = '$__rate_interval') => `rate(${selector}[${window}])`;
export const quantile = (q, selector, window = '$__rate_interval', ...by) =>
  `histogram_quantile(${q}, ${sum(rate(selector, window), 'le', ...by)})`;
// either is for metrics that have one name in one profile of the conventions and another in the other.
export const either = (make, ...names) => names.map(make).join('\nor ');
// share divides, and says nothing where there is nothing to divide by.
export const share = (part, whole) => `(${part})\n/\n(${whole} > 0)`;
export const orZero = (expr) => `(${expr} or vector(0))`;
