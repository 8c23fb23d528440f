package main

import (
	"strings"
	"testing"
)

// A label is an attribute of the registry with few values; histograms have boundaries that grow; profiles are declared.
func TestMetricsAreChecked(t *testing.T) {
	sound := func() registry {
		return registry{
			Profiles: []profile{{Name: "p", Const: "P"}, {Name: "later", Const: "Later"}},
			Attributes: []attribute{
				{Key: "tool", Const: "Tool", Type: "string", Class: "name", Brief: "x"},
				{Key: "kind", Const: "Kind", Type: "string", Class: "enum", Brief: "x"},
				{Key: "session", Const: "Session", Type: "string", Class: "id", Brief: "x"},
				{Key: "text", Const: "Text", Type: "string", Class: "content", Brief: "x"},
				{Key: "index", Const: "Index", Type: "int", Class: "number", Brief: "x"},
				{Key: "old", Const: "Old", Type: "string", Class: "name", Profiles: []string{"p"}, Brief: "x"},
				{Key: "new", Const: "New", Type: "string", Class: "name", Profiles: []string{"later"}, Brief: "x"},
				{Key: "derived", Const: "Derived", Type: "bool", Class: "enum", Brief: "x"},
			},
			Metrics: []metric{
				{Name: "m", Const: "M", Instrument: "histogram", Type: "int", Unit: "s", Boundaries: []float64{1, 2},
					Attributes: []string{"tool", "kind", "old"}, Profiles: []string{"p"}, Brief: "x", Question: "x"},
			},
		}
	}
	if err := sound().validate(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		change func(*metric)
		want   string
	}{
		{func(m *metric) { m.Attributes = []string{"session"} }, `label "session" is of class id`},
		{func(m *metric) { m.Attributes = []string{"text"} }, `label "text" is of class content`},
		{func(m *metric) { m.Attributes = []string{"index"} }, `label "index" is of class number`},
		{func(m *metric) { m.Attributes = []string{"derived"} }, `label "derived" is of type bool`},
		{func(m *metric) { m.Attributes = []string{"nothing"} }, `label "nothing" is no attribute of the registry`},
		{func(m *metric) { m.Attributes = []string{"tool", "tool"} }, `label "tool" stands twice`},
		{func(m *metric) { m.Attributes = []string{"new"} }, `label "new" is not in all profiles`},
		{func(m *metric) { m.Profiles = nil }, `label "old" is not in all profiles`},
		{func(m *metric) { m.Profiles = []string{"p", "later"} }, `label "old" is not in all profiles`},
		{func(m *metric) { m.Profiles = []string{"q"} }, `profile "q" is not declared`},
		{func(m *metric) { m.Boundaries = nil }, `has boundaries`},
		{func(m *metric) { m.Instrument = "counter" }, `has boundaries`},
		{func(m *metric) { m.Boundaries = []float64{2, 1} }, `boundaries do not grow`},
		{func(m *metric) { m.Boundaries = []float64{1, 1} }, `boundaries do not grow`},
		{func(m *metric) { m.Type = "string" }, `type "string"`},
		{func(m *metric) { m.Question = "" }, `lacks a unit, a brief or a question`},
	} {
		r := sound()
		tt.change(&r.Metrics[0])
		if err := r.validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	r := sound()
	r.Metrics = append(r.Metrics, r.Metrics[0])
	if err := r.validate(); err == nil || !strings.Contains(err.Error(), `metric "m" stands twice`) {
		t.Error(err)
	}
	r = sound()
	other := r.Metrics[0]
	other.Name, other.Const = "m_seconds", "N"
	r.Metrics = append(r.Metrics, other)
	if err := r.validate(); err == nil || !strings.Contains(err.Error(), `metric in Prometheus "m_seconds" stands twice`) {
		t.Error(err)
	}
}
