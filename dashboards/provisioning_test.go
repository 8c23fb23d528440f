package dashboards

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What the data sources of provisioning say of each other holds, and every type that a dashboard asks for is among
// them. Addresses, paths and passwords are held to docker-compose.yaml by interop/compose.
func TestProvisioning(t *testing.T) {
	files, err := filepath.Glob("provisioning/datasources/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v", files, err)
	}
	type source struct {
		UID, Type string
		JSONData  struct {
			ExemplarTraceIDDestinations []struct {
				Name          string
				DatasourceUID string `yaml:"datasourceUid"`
			} `yaml:"exemplarTraceIdDestinations"`
			TracesToMetrics struct {
				DatasourceUID string `yaml:"datasourceUid"`
				Tags          []struct{ Key, Value string }
				Queries       []struct{ Name, Query string }
			} `yaml:"tracesToMetrics"`
		} `yaml:"jsonData"`
	}
	types := map[string]string{} // by uid
	var all []source
	for _, file := range files {
		var d struct{ Datasources []source }
		readYAML(t, file, &d)
		for _, s := range d.Datasources {
			if types[s.UID] != "" || s.UID == "" {
				t.Errorf("%s: uid %q", file, s.UID)
			}
			types[s.UID] = s.Type
			all = append(all, s)
		}
	}
	known := metrics(t)
	exemplars, queries := 0, 0
	for _, s := range all {
		for _, to := range s.JSONData.ExemplarTraceIDDestinations {
			exemplars++
			// The names that OpenTelemetry gives exemplars in Prometheus are trace_id and span_id.
			if kind := types[to.DatasourceUID]; to.Name != "trace_id" || kind != "tempo" && kind != "jaeger" {
				t.Errorf("%s: exemplars lead by %s to %s", s.UID, to.Name, to.DatasourceUID)
			}
		}
		m := s.JSONData.TracesToMetrics
		for _, q := range m.Queries {
			queries++
			if types[m.DatasourceUID] != "prometheus" || !strings.HasSuffix(q.Name, "?") ||
				!strings.Contains(q.Query, "{$$__tags}") {
				t.Errorf("%s: %q asks %s of %s", s.UID, q.Name, q.Query, m.DatasourceUID)
			}
			var matchers []string
			for _, tag := range m.Tags {
				if tag.Value != strings.ReplaceAll(tag.Key, ".", "_") {
					t.Errorf("%s: tag %s becomes %s", s.UID, tag.Key, tag.Value)
				}
				matchers = append(matchers, tag.Value+`="x"`)
			}
			wrong, _ := problems(strings.ReplaceAll(q.Query, "$$__tags", strings.Join(matchers, ", ")), known)
			for _, w := range wrong {
				t.Errorf("%s: %s in %s", s.UID, w, q.Query)
			}
		}
	}
	if exemplars == 0 || queries == 0 {
		t.Errorf("%d ways from exemplars, %d from spans", exemplars, queries)
	}
	for variable, kinds := range plugins {
		for _, kind := range kinds {
			if !slices.ContainsFunc(all, func(s source) bool { return s.Type == kind }) {
				t.Errorf("no data source is a %s, which dashboards ask for as %s", kind, variable)
			}
		}
	}
}
