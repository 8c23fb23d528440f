// Ways out of a panel: to Tempo by TraceQL, to Jaeger by trace id, to the other dashboards.
import * as dashboard from '@grafana/grafana-foundation-sdk/dashboard';

// What Grafana fills in must stay readable to it; all else is encoded.
const encode = (text) => text.split(/(\$\{[^}]*\})/).map((s, i) => (i % 2 ? s : encodeURIComponent(s))).join('');

export const uid = { agents: 'otelagent-agents', session: 'otelagent-session', clickhouse: 'otelagent-session-clickhouse', pipeline: 'otelagent-pipeline' };

// plain leaves out what the SDK adds by itself: links that hide in a menu of Grafana's newest versions.
const plain = (builder) => ({
  build() {
    const { placement, ...link } = builder.build();
    return link;
  },
});
const link = (title, url, blank = false) => plain(new dashboard.DashboardLinkBuilder(title).url(url).targetBlank(blank));

// explore opens Grafana's Explore on the data source of the variable tempo, with a TraceQL query or a trace id. In a query of a panel Grafana
// puts quotes around a value; here they would end the JSON string around the query, so they are ours, and the value is encoded as
// the address is.
function explore(asked, range) {
  const query = asked.replaceAll(/\$\{([\w.]+):doublequote\}/g, '"${$1:percentencode}"');
  const panes = {
    a: {
      datasource: '${tempo}',
      queries: [{ refId: 'A', datasource: { type: 'tempo', uid: '${tempo}' }, queryType: 'traceql', query, limit: 50, tableType: 'spans' }],
      range,
    },
  };
  return `/explore?schemaVersion=1&orgId=1&panes=${encode(JSON.stringify(panes))}`;
}

export const tempo = (title, query, range = { from: '${__from}', to: '${__to}' }) => link(title, explore(query, range));
export const jaegerTrace = (title, field) => link(title, `\${jaeger}/trace/\${__data.fields.${field}}`, true);
export const to = (title, id, query = '${__url_time_range}') => link(title, `/d/${id}?${query}`);

// between are the links that stand at the top of every dashboard.
export const between = () => [
  plain(new dashboard.DashboardLinkBuilder('Dashboards of otelagent').type(dashboard.DashboardLinkType.Dashboards).tags(['otelagent']).icon('apps')
    .tooltip('Agents overview, one session, pipeline health').asDropdown(false).keepTime(true).includeVars(false)),
];
