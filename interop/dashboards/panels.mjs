// Panels as all three dashboards have them: each is made from one object that must say what it asks, in which unit, what an answer means,
// what to do about a bad one, and where to go from there.
import * as common from '@grafana/grafana-foundation-sdk/common';
import * as dashboard from '@grafana/grafana-foundation-sdk/dashboard';
import * as prometheus from '@grafana/grafana-foundation-sdk/prometheus';
import * as tempo from '@grafana/grafana-foundation-sdk/tempo';
import * as bargauge from '@grafana/grafana-foundation-sdk/bargauge';
import * as heatmap from '@grafana/grafana-foundation-sdk/heatmap';
import * as stat from '@grafana/grafana-foundation-sdk/stat';
import * as statetimeline from '@grafana/grafana-foundation-sdk/statetimeline';
import * as table from '@grafana/grafana-foundation-sdk/table';
import * as timeseries from '@grafana/grafana-foundation-sdk/timeseries';
import * as trend from '@grafana/grafana-foundation-sdk/trend';
import { colour, plain } from './style.mjs';

const reduce = (calc) => new common.ReduceDataOptionsBuilder().calcs([calc]).values(false);
const steps = (list) => new dashboard.ThresholdsConfigBuilder().mode(dashboard.ThresholdsMode.Absolute).steps(list.map(([value, c]) => ({ value, color: c })));
const mode = (m, fixed) => {
  const b = new dashboard.FieldColorBuilder().mode(m);
  return fixed ? b.fixedColor(fixed) : b;
};
const palette = () => mode(dashboard.FieldColorModeId.PaletteClassicByName);

// dress puts on a panel what every panel has, and throws where it is missing.
function dress(b, p) {
  for (const key of ['title', 'unit', 'means', 'bad', 'links', 'targets']) if (!p[key]) throw new Error(`${p.title}: no ${key}`);
  b.title(p.title).description(`${p.means}\n\n**When it looks bad:** ${p.bad}`).links(p.links).unit(p.unit).noValue(p.none ?? 'none');
  if (p.decimals !== undefined) b.decimals(p.decimals);
  if (p.min !== undefined) b.min(p.min);
  if (p.max !== undefined) b.max(p.max);
  if (p.interval) b.interval(p.interval);
  if (p.dataLinks) b.dataLinks(p.dataLinks);
  const uses = [...new Set(p.targets.map((t) => JSON.stringify(t.build().datasource)))];
  if (uses.length !== 1) throw new Error(`${p.title}: ${uses.length} data sources`);
  b.datasource(JSON.parse(uses[0]));
  b.targets(p.targets);
  // Colours by the name of the series, where there may be one of that name.
  const names = p.targets.map((t) => t.build().legendFormat ?? '{{column}}');
  const open = names.some((n) => n.includes('{{'));
  for (const [name, c] of Object.entries(p.colours ?? {}).filter(([name]) => open || names.includes(name))) b.overrideByName(name, [{ id: 'color', value: { mode: 'fixed', fixedColor: c } }]);
  for (const [name, properties] of Object.entries(p.fields ?? {})) b.overrideByName(name, Object.entries(properties).map(([id, value]) => ({ id, value })));
  for (const [pattern, properties] of Object.entries(p.patterns ?? {})) b.overrideByRegexp(pattern, Object.entries(properties).map(([id, value]) => ({ id, value })));
  if (p.transformations) b.transformations(p.transformations);
  return b;
}

// words maps text to colours, as value mappings do it.
export const words = (colours) => [{ type: 'value', options: Object.fromEntries(Object.entries(colours).map(([word, c], index) => [word, { color: c, index }])) }];

// Targets.

const prom = (refId, expr) => new prometheus.DataqueryBuilder().refId(refId).expr(expr).datasource({ type: 'prometheus', uid: '${prometheus}' })
  .editorMode(prometheus.QueryEditorMode.Code);
// series are expressions over time: {name: expr}; a name may hold {{labels}}. Exemplars are asked for where histograms are.
export const series = (byName) => Object.entries(byName).map(([name, expr], i) =>
  prom(String.fromCharCode(65 + i), expr).legendFormat(name).range().exemplar(expr.includes('_bucket{')));
// now are expressions of the end of the time range.
export const now = (byName) => Object.entries(byName).map(([name, expr], i) => prom(String.fromCharCode(65 + i), expr).legendFormat(name).instant());
// columns are the same as a table: one row for each label set.
export const columns = (exprs) => exprs.map((expr, i) => prom(String.fromCharCode(65 + i), expr).instant().format(prometheus.PromQueryFormat.Table));
export const buckets = (expr) => [prom('A', expr).legendFormat('{{le}}').range().exemplar(true).format(prometheus.PromQueryFormat.Heatmap)];
export const traceql = (query) => [new tempo.DataqueryBuilder().refId('A').queryType('traceql').query(query).limit(20).filters([])
  .tableType(tempo.SearchTableType.Spans).datasource({ type: 'tempo', uid: '${tempo}' })];
export const traceqlMetrics = (query) => [new tempo.DataqueryBuilder().refId('A').queryType('traceql').query(query).filters([]).exemplars(50)
  .metricsQueryType(tempo.MetricsQueryType.Range).datasource({ type: 'tempo', uid: '${tempo}' })];

// joined makes one table of several: rows of equal labels are put together, columns named and ordered.
export const joined = (names) => [
  { id: 'merge', options: {} },
  {
    id: 'organize',
    options: {
      excludeByName: { Time: true },
      includeByName: {},
      indexByName: Object.fromEntries(Object.keys(names).map((n, i) => [n, i])),
      renameByName: names,
    },
  },
];

// Visualisations. Width is in 24ths, height in grid units of 30 pixels.

export const tile = (p) => dress(new stat.PanelBuilder(), p).span(p.w ?? 6).height(p.h ?? 4)
  .reduceOptions(p.rows ? new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']).values(true).fields(p.rows) : reduce('lastNotNull'))
  .graphMode(p.sparkline ? common.BigValueGraphMode.Area : common.BigValueGraphMode.None)
  .colorMode(p.thresholds || p.mappings ? common.BigValueColorMode.Background : common.BigValueColorMode.Value)
  .justifyMode(common.BigValueJustifyMode.Auto).textMode(p.text ?? common.BigValueTextMode.Auto).wideLayout(true)
  .orientation(common.VizOrientation.Auto)
  .thresholds(steps(p.thresholds ?? plain)).colorScheme(mode(dashboard.FieldColorModeId.Thresholds)).mappings(p.mappings ?? []);

const legend = (calcs) => new common.VizLegendOptionsBuilder().showLegend(true).placement(common.LegendPlacement.Bottom)
  .displayMode(calcs ? common.LegendDisplayMode.Table : common.LegendDisplayMode.List).calcs(calcs ?? []);
const tooltip = () => new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Multi).sort(common.SortOrder.Descending);

export const lines = (p) => {
  const b = dress(new timeseries.PanelBuilder(), { min: 0, interval: '2m', ...p }).span(p.w ?? 8).height(p.h ?? 8)
    .drawStyle(common.GraphDrawStyle.Line).lineWidth(2).fillOpacity(p.fill ?? 8).gradientMode(common.GraphGradientMode.Opacity)
    .lineInterpolation(common.LineInterpolation.Linear).showPoints(common.VisibilityMode.Auto).pointSize(4).spanNulls(600000)
    .colorScheme(palette()).legend(legend(p.calcs)).tooltip(tooltip());
  if (p.thresholds) b.thresholds(steps(p.thresholds)).thresholdsStyle(new common.GraphThresholdsStyleConfigBuilder().mode(common.GraphThresholdsStyleMode.Dashed));
  return b;
};

// bars are amounts per step of time, one on the other.
export const bars = (p) => dress(new timeseries.PanelBuilder(), { min: 0, interval: '2m', ...p }).span(p.w ?? 8).height(p.h ?? 8)
  .drawStyle(common.GraphDrawStyle.Bars).lineWidth(0).fillOpacity(80).barAlignment(common.BarAlignment.Center).barWidthFactor(0.85)
  .stacking(new common.StackingConfigBuilder().mode(common.StackingMode.Normal).group('A'))
  .showPoints(common.VisibilityMode.Never).colorScheme(palette()).legend(legend(p.calcs ?? ['sum'])).tooltip(tooltip());

const scheme = () => new heatmap.HeatmapColorOptionsBuilder().mode(heatmap.HeatmapColorMode.Scheme).scheme('Turbo').fill('dark-orange')
  .scale(heatmap.HeatmapColorScale.Exponential).exponent(0.5).steps(64).reverse(false);
const heat = (p) => dress(new heatmap.PanelBuilder(), p).span(p.w ?? 12).height(p.h ?? 8).color(scheme()).cellGap(1).showLegend()
  .showValue(common.VisibilityMode.Never).exemplarsColor('rgba(255,255,255,0.8)')
  .tooltip(new heatmap.HeatmapTooltipBuilder().mode(common.TooltipDisplayMode.Single).yHistogram(true).showColorScale(true))
  .filterValues(new heatmap.FilterValueRangeBuilder().le(1e-9));
// histogram shows buckets that the data source counted.
export const histogram = (p) => heat({ interval: '2m', ...p }).calculate(false)
  .yAxis(new heatmap.YAxisConfigBuilder().unit(p.unit).axisPlacement(common.AxisPlacement.Left))
  .cellValues(new heatmap.CellValuesBuilder().unit('short').decimals(0));
// spread counts single values into cells, on a scale of powers of two.
export const spread = (p) => heat(p).calculate(true)
  .calculation(new common.HeatmapCalculationOptionsBuilder()
    .xBuckets(new common.HeatmapCalculationBucketConfigBuilder().mode(common.HeatmapCalculationMode.Count).value('48'))
    .yBuckets(new common.HeatmapCalculationBucketConfigBuilder()
      .scale(new common.ScaleDistributionConfigBuilder().type(common.ScaleDistribution.Log).log(2))))
  .yAxis(new heatmap.YAxisConfigBuilder().unit(p.unit).axisPlacement(common.AxisPlacement.Left))
  .cellValues(new heatmap.CellValuesBuilder().unit('short').decimals(0));

// steps over a number, such as the turns of a session: as many as there are, without a gap for the night between two of them.
const numbered = (p) => dress(new trend.PanelBuilder(), { min: 0, ...p }).span(p.w ?? 12).height(p.h ?? 8).xField(p.x).colorScheme(palette())
  .legend(legend(p.calcs)).tooltip(tooltip());
export const numberedBars = (p) => numbered(p).drawStyle(common.GraphDrawStyle.Bars).lineWidth(0).fillOpacity(80).barWidthFactor(0.85)
  .barAlignment(common.BarAlignment.Center).stacking(new common.StackingConfigBuilder().mode(common.StackingMode.Normal).group('A'))
  .showPoints(common.VisibilityMode.Never);
export const numberedLines = (p) => numbered(p).drawStyle(common.GraphDrawStyle.Line).lineWidth(2).fillOpacity(p.fill ?? 8)
  .gradientMode(common.GraphGradientMode.Opacity).showPoints(common.VisibilityMode.Always).pointSize(5).spanNulls(true);

export const ranking = (p) => dress(new bargauge.PanelBuilder(), { min: 0, ...p }).span(p.w ?? 8).height(p.h ?? 8)
  .orientation(common.VizOrientation.Horizontal).displayMode(common.BarGaugeDisplayMode.Basic).valueMode(common.BarGaugeValueMode.Color)
  .namePlacement(common.BarGaugeNamePlacement.Auto).showUnfilled(true).sizing(common.BarGaugeSizing.Auto).minVizWidth(8).minVizHeight(16).maxVizHeight(24)
  .reduceOptions(p.rows ? new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']).values(true).fields(p.rows) : reduce('lastNotNull'))
  .thresholds(steps(p.thresholds ?? plain)).colorScheme(p.fixed ? mode(dashboard.FieldColorModeId.Fixed, p.fixed) : mode(dashboard.FieldColorModeId.Thresholds));

export const rows = (p) => {
  const b = dress(new table.PanelBuilder(), p).span(p.w ?? 12).height(p.h ?? 8).showHeader(true).cellHeight(common.TableCellHeight.Sm)
    .filterable(p.filterable ?? true).align(common.FieldTextAlignment.Auto);
  if (p.sort) b.sortBy([new common.TableSortByFieldStateBuilder().displayName(p.sort).desc(true)]);
  return b;
};
// Cells: coloured text by value, and a bar behind a number.
export const coloured = { type: 'color-text' };
export const filled = { type: 'color-background', mode: 'basic' };
export const gauged = { type: 'gauge', mode: 'basic', valueDisplayMode: 'text' };
export const fixed = (c) => ({ mode: 'fixed', fixedColor: c });
export const thresholds = (list) => ({ mode: 'absolute', steps: list.map(([value, c]) => ({ value, color: c })) });
export const byThresholds = { mode: 'thresholds' };

export const timeline = (p) => dress(new statetimeline.PanelBuilder(), p).span(p.w ?? 24).height(p.h ?? 9)
  .showValue(common.VisibilityMode.Auto).rowHeight(0.8).mergeValues(false).alignValue(common.TimelineValueAlignment.Left).lineWidth(1).fillOpacity(75)
  .colorScheme(mode(dashboard.FieldColorModeId.Fixed, colour.grey)).mappings(p.mappings ?? []).spanNulls(false)
  .legend(new common.VizLegendOptionsBuilder().showLegend(false).placement(common.LegendPlacement.Bottom).displayMode(common.LegendDisplayMode.List).calcs([]))
  .tooltip(new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Single));

// Variables.

export const dataSource = (name, label, type, description) => new dashboard.DatasourceVariableBuilder(name).label(label).type(type).description(description);
export const labelValues = (name, label, selector, key, description) => new dashboard.QueryVariableBuilder(name).label(label)
  .datasource({ type: 'prometheus', uid: '${prometheus}' }).query({ query: `label_values(${selector}, ${key})`, refId: name })
  .definition(`label_values(${selector}, ${key})`).refresh(dashboard.VariableRefresh.OnTimeRangeChanged).sort(dashboard.VariableSort.AlphabeticalAsc)
  // What has no such label at all is part of all.
  .includeAll(true).allValue('.*').multi(true).current({ selected: true, text: ['All'], value: ['$__all'] }).description(description);
export const text = (name, label, value, description) => new dashboard.TextBoxVariableBuilder(name).label(label).defaultValue(value)
  .current({ selected: true, text: value, value }).description(description);

// page lays panels out: sections of lines of panels. Panels of a line have one height and fill 24 columns together.
export function page({ uid, title, description, variables, links, time, refresh }, sections) {
  const b = new dashboard.DashboardBuilder(title).uid(uid).description(description).tags(['otelagent', 'agents', 'opentelemetry']).editable()
    .timezone('browser').tooltip(dashboard.DashboardCursorSync.Crosshair).time(time).refresh(refresh).variables(variables).annotations([]).links(links).version(1);
  let y = 0;
  let id = 0;
  for (const [name, list] of Object.entries(sections)) {
    b.withRow(new dashboard.RowBuilder(name).id(++id).gridPos({ x: 0, y, w: 24, h: 1 }));
    y++;
    for (const line of list) {
      let x = 0;
      const { h } = line[0].build().gridPos;
      for (const panel of line) {
        const at = panel.build().gridPos;
        if (at.h !== h) throw new Error(`${panel.build().title}: height ${at.h} in a line of ${h}`);
        b.withPanel(panel.id(++id).gridPos({ x, y, w: at.w, h }));
        x += at.w;
      }
      if (x !== 24) throw new Error(`${name}: the line of ${line[0].build().title} is ${x} wide`);
      y += h;
    }
  }
  return b.build();
}
