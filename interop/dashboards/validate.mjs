// Judges dashboards by the types that Grafana's SDK ships, as JSON Schema: the dashboard, and for each panel its options, field settings
// and queries, which the type of a dashboard leaves open. The SDK knows the queries of Prometheus and Tempo; those of the SQL plugins
// are held to what the plugins read.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';
import { createGenerator } from 'ts-json-schema-generator';

const panels = ['bargauge', 'heatmap', 'stat', 'statetimeline', 'table', 'timeseries', 'trend'];
const withoutFields = ['stat', 'bargauge']; // these have no field settings of their own
const queries = ['prometheus', 'tempo'];

function schema() {
  const types = join(dirname(fileURLToPath(import.meta.resolve('@grafana/grafana-foundation-sdk/cog'))), '..');
  const dir = mkdtempSync(join(tmpdir(), 'dashboards-'));
  try {
    const entry = join(dir, 'judged.ts');
    const has = (p) => [`${p}Options: ${p}.Options;`, withoutFields.includes(p) ? '' : `${p}Fields: ${p}.FieldConfig;`].join(' ');
    writeFileSync(entry, [
      ...['dashboard', ...panels, ...queries].map((name) => `import * as ${name} from '${join(types, name, 'types.gen')}';`),
      `export interface Judged { dashboard: dashboard.Dashboard; ${panels.map(has).join(' ')} ${queries.map((q) => `${q}Query: ${q}.Dataquery;`).join(' ')} }`,
    ].join('\n'));
    return createGenerator({ path: entry, type: 'Judged', skipTypeCheck: true, functions: 'hide', additionalProperties: false, expose: 'none' }).createSchema('Judged');
  } finally {
    rmSync(dir, { recursive: true });
  }
}

const { definitions } = schema();
const types = definitions.Judged.properties;
// Each panel's queries are judged by the type of their data source.
types.dashboard.properties.panels.items.anyOf[0].properties.targets.items = { type: 'object', required: ['refId', 'datasource'] };
const ajv = new Ajv({ strict: false, allErrors: true });
const judges = new Map(Object.entries(types).map(([what, type]) => [what, ajv.compile({ definitions, ...type })]));

const sql = {
  'frser-sqlite-datasource': { rawQueryText: 'string', queryText: 'string', queryType: 'string', timeColumns: 'object' },
  'grafana-clickhouse-datasource': { rawSql: 'string', editorType: 'string', format: 'number' },
};

let bad = 0;
let checked = 0;
function ask(where, what, value) {
  const ok = judges.get(what);
  if (!ok) throw new Error(`the SDK was not asked for the type ${what}`);
  checked++;
  if (ok(value)) return;
  bad++;
  for (const e of ok.errors.slice(0, 5)) console.error(`${where}: ${what}${e.instancePath} ${e.message} ${JSON.stringify(e.params)}`);
}
for (const file of process.argv.slice(2)) {
  const dashboard = JSON.parse(readFileSync(file, 'utf8'));
  ask(file, 'dashboard', dashboard);
  for (const p of dashboard.panels.filter((x) => x.type !== 'row')) {
    const where = `${file}: ${p.title}`;
    const module = p.type.replace('-', ''); // state-timeline
    ask(where, `${module}Options`, p.options);
    if (!withoutFields.includes(module)) ask(where, `${module}Fields`, p.fieldConfig.defaults.custom ?? {});
    for (const t of p.targets) {
      const kind = t.datasource.type;
      if (queries.includes(kind)) {
        ask(where, `${kind}Query`, t);
        continue;
      }
      for (const [key, type] of Object.entries(sql[kind] ?? { 'a data source that this check knows': 'object' })) {
        checked++;
        if (typeof t[key] === type) continue;
        bad++;
        console.error(`${where}: query ${t.refId} of ${kind} has no ${key}`);
      }
    }
  }
}
console.log(`${process.argv.length - 2} dashboards, ${checked} parts judged by Grafana's types, ${bad} wrong`);
if (bad || !checked) process.exit(1);
