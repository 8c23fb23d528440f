// The tables of the store (docs/stats.md) as the two plugins of Grafana ask for them. Statements are the same for both but for what
// stands here. What comes from a variable is put in so that no session id can end a statement: SQLite takes quotes that are doubled,
// ClickHouse reads backslashes too and gets it percent-encoded.
const one = (tenant, session, decode) => ({ tenant: `CASE ${decode(tenant)} WHEN '(default)' THEN '' ELSE ${decode(tenant)} END`, session: decode(session) });

const quoted = (name) => `\${${name}:sqlstring}`;
const lite = one('tenant', 'session', quoted);
export const sqlite = {
  name: 'SQLite',
  plugin: 'frser-sqlite-datasource',
  target: (refId, sql, time = []) => ({
    build: () => ({ refId, datasource: { type: 'frser-sqlite-datasource', uid: '${store}' }, queryType: 'table', queryText: sql, rawQueryText: sql, timeColumns: time }),
  }),
  variable: (sql) => sql,
  // Rows of the session that is looked at.
  of: (table) => `(SELECT * FROM ${table} WHERE session = (SELECT session FROM sessions WHERE tenant = ${lite.tenant} AND id = ${lite.session}))`,
  // Sessions of the tenant with their summaries.
  sessions: `(SELECT s.tenant, s.id, m.* FROM sessions s JOIN summaries m ON m.session = s.session)`,
  tenant: lite.tenant,
  session: lite.session,
  time: (ns) => `${ns} / 1e9`,
  milliseconds: (ns) => `${ns} / 1000000`,
  text: (expr) => `CAST(${expr} AS TEXT)`,
  traceOf: 'lower(hex(trace))',
};

const encoded = (name) => `decodeURLComponent('\${${name}:percentencode}')`;
const house = one('tenant', 'session', encoded);
export const clickhouse = {
  name: 'ClickHouse',
  plugin: 'grafana-clickhouse-datasource',
  target: (refId, sql) => ({
    build: () => ({ refId, datasource: { type: 'grafana-clickhouse-datasource', uid: '${store}' }, editorType: 'sql', queryType: 'table', format: 1, pluginVersion: '4.20.0', rawSql: sql }),
  }),
  variable: (sql) => ({ editorType: 'sql', queryType: 'table', format: 1, pluginVersion: '4.20.0', rawSql: sql, refId: 'A' }),
  of: (table) => `(SELECT * FROM ${table}${table === 'rows' ? ' FINAL' : ''} WHERE tenant = ${house.tenant} AND session = ${house.session})`,
  sessions: '(SELECT *, session AS id FROM summaries FINAL)',
  tenant: house.tenant,
  session: house.session,
  time: (ns) => `fromUnixTimestamp64Nano(${ns})`,
  milliseconds: (ns) => `intDiv(${ns}, 1000000)`,
  text: (expr) => `toString(${expr})`,
  traceOf: 'lower(hex(trace))',
};
