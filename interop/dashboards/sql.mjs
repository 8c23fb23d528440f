// The tables of the store (docs/stats.md) as the two plugins of Grafana ask for them. Statements are the same for both but for what
// stands here. What comes from a variable is put in so that no session id can end a statement: SQLite takes quotes that are doubled,
// ClickHouse reads backslashes too and gets it percent-encoded.

// chosen are what the variables hold, as SQL. (default) stands for the empty tenant, which a menu cannot show.
const chosen = (value) => ({ tenant: `CASE ${value('tenant')} WHEN '(default)' THEN '' ELSE ${value('tenant')} END`, session: value('session') });
const inSQLite = chosen((name) => `\${${name}:sqlstring}`);
const inClickHouse = chosen((name) => `decodeURLComponent('\${${name}:percentencode}')`);

export const sqlite = {
  name: 'SQLite',
  plugin: 'frser-sqlite-datasource',
  target: (refId, sql, time = []) => ({
    build: () => ({ refId, datasource: { type: 'frser-sqlite-datasource', uid: '${store}' }, queryType: 'table', queryText: sql, rawQueryText: sql, timeColumns: time }),
  }),
  variable: (sql) => sql,
  // Rows of the session that is looked at.
  of: (table) => `(SELECT * FROM ${table} WHERE session = (SELECT session FROM sessions WHERE tenant = ${inSQLite.tenant} AND id = ${inSQLite.session}))`,
  // All sessions with their summaries.
  sessions: `(SELECT s.tenant, s.id, m.* FROM sessions s JOIN summaries m ON m.session = s.session)`,
  tenant: inSQLite.tenant,
  session: inSQLite.session,
  time: (ns) => `${ns} / 1e9`,
  milliseconds: (ns) => `${ns} / 1000000`,
  text: (expr) => `CAST(${expr} AS TEXT)`,
};

export const clickhouse = {
  name: 'ClickHouse',
  plugin: 'grafana-clickhouse-datasource',
  target: (refId, sql) => ({
    build: () => ({ refId, datasource: { type: 'grafana-clickhouse-datasource', uid: '${store}' }, editorType: 'sql', queryType: 'table', format: 1, pluginVersion: '4.20.0', rawSql: sql }),
  }),
  variable: (sql) => ({ editorType: 'sql', queryType: 'table', format: 1, pluginVersion: '4.20.0', rawSql: sql, refId: 'A' }),
  // The tables of figures are views, which show a thing once; the others are tables of an engine that does so when it is asked to.
  of: (table) => `(SELECT * FROM ${table}${table === 'rows' ? ' FINAL' : ''} WHERE tenant = ${inClickHouse.tenant} AND session = ${inClickHouse.session})`,
  sessions: '(SELECT *, session AS id FROM summaries FINAL)',
  tenant: inClickHouse.tenant,
  session: inClickHouse.session,
  time: (ns) => `fromUnixTimestamp64Nano(${ns})`,
  milliseconds: (ns) => `intDiv(${ns}, 1000000)`,
  text: (expr) => `toString(${expr})`,
};
