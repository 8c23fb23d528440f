// Package tempo is what people ask of agent sessions, as TraceQL, and what is needed to hold such queries to the
// vocabulary.
package tempo

import (
	_ "embed"
	"fmt"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Kind says which part of Tempo answers a query.
type Kind string

// The kinds.
const (
	// KindSearch is answered by /api/search with traces and spans.
	KindSearch Kind = "search"
	// KindMetrics is answered by /api/metrics/query_range with series.
	KindMetrics Kind = "metrics"
)

// Query is one question and its TraceQL. SessionVariable in it stands for the id of a session.
type Query struct {
	ID, Question string
	Kind         Kind
	Query, Note  string
	// LastRun is when the query was last asked of a real Tempo; the zero Run when it never was.
	LastRun Run `yaml:"-"`
}

// Run is one query asked of a real Tempo.
type Run struct {
	Query   string // as it was then
	Version string // of Tempo
	Commit  string
	Date    string // 2006-01-02
	Result  string // in short
}

// SessionVariable stands in queries for the id of a session, as a variable of a Grafana dashboard does.
const SessionVariable = "$session"

//go:embed queries.yaml
var queriesYAML []byte

//go:embed runs.yaml
var runsYAML []byte

// Queries returns all queries in the order of queries.yaml. The slice is shared and must not be changed. Safe for
// concurrent use.
var Queries = sync.OnceValue(func() []Query {
	var queries []Query
	if err := yaml.Unmarshal(queriesYAML, &queries); err != nil {
		panic(fmt.Sprintf("queries.yaml: %v", err)) // a test reads it
	}
	for i := range queries {
		queries[i].LastRun = runs()[queries[i].ID]
	}
	return queries
})

var runs = sync.OnceValue(func() map[string]Run {
	var runs map[string]Run
	if err := yaml.Unmarshal(runsYAML, &runs); err != nil {
		panic(fmt.Sprintf("runs.yaml: %v", err)) // a test reads it
	}
	return runs
})
