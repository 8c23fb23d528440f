// Command ask asks a real Tempo every query, those of the dashboards too, and writes what it answered to runs.yaml.
// The last run had three afternoons of interop/prometheus and recordings of phi-core and clark-agent:
//
//	tempo -config.file=compose/tempo.yaml -config.expand-env=true # with ingestion_time_range_slack: 24h
//	OTEL_METRICS_EXPORTER=none go -C interop/prometheus run . -endpoint http://127.0.0.1:4317 -afternoons 3
//	go -C interop/prometheus run . -move /tmp/moved RECORDING...
//	OTEL_METRICS_EXPORTER=none otelagent send --capture content /tmp/moved/*
//	go -C dashboards run ./tempo/ask -tempo http://127.0.0.1:3200 -since 1h
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/dashboards/tempo"
)

func main() {
	a := asker{}
	flag.StringVar(&a.tempo, "tempo", "http://127.0.0.1:3200", "`URL` of a Tempo")
	dashboards := flag.String("dashboards", ".", "`folder` of the dashboards whose queries are asked too")
	flag.DurationVar(&a.since, "since", time.Hour, "how far back")
	file := flag.String("o", "tempo/runs.yaml", "`file` to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := a.run(ctx, *dashboards, *file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type asker struct {
	tempo string
	since time.Duration
}

func (a *asker) run(ctx context.Context, dashboards, file string) error {
	panels, err := tempo.Panels(dashboards)
	if err != nil {
		return err
	}
	var build struct{ Version, Revision string }
	if err := a.get(ctx, "/api/status/buildinfo", nil, &build); err != nil {
		return err
	}
	session, err := a.session(ctx)
	if err != nil {
		return err
	}
	today := time.Now().UTC().Format(time.DateOnly)
	runs := map[string]tempo.Run{}
	var silent []string
	for _, q := range slices.Concat(tempo.Queries(), panels) {
		result, err := a.ask(ctx, q.Kind, strings.ReplaceAll(q.Query, tempo.SessionVariable, session))
		if err != nil {
			return fmt.Errorf("%s: %w", q.ID, err)
		}
		if result == "" {
			silent = append(silent, q.ID)
		}
		fmt.Printf("%-26s %s\n", q.ID, result)
		runs[q.ID] = tempo.Run{Query: q.Query, Version: build.Version, Commit: build.Revision, Date: today, Result: result}
	}
	if silent != nil {
		return fmt.Errorf("nothing was found by %s; nothing is written", strings.Join(silent, ", "))
	}
	text, err := yaml.Marshal(runs)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("# Written by dashboards/tempo/ask.\n"), text...), 0o644)
}

// session is the id of a session that ran.
func (a *asker) session(ctx context.Context) (string, error) {
	var answer struct {
		Traces []struct {
			SpanSets []struct {
				Spans []struct {
					Attributes []struct {
						Key   string
						Value struct{ StringValue string }
					}
				}
			}
		}
	}
	err := a.get(ctx, "/api/search", a.times(url.Values{"q": {`{ name = "session.run" } | select(span.session.id)`},
		"limit": {"1"}}), &answer)
	if err != nil {
		return "", err
	}
	for _, t := range answer.Traces {
		for _, at := range t.SpanSets[0].Spans[0].Attributes {
			if at.Key == "session.id" {
				return at.Value.StringValue, nil
			}
		}
	}
	return "", fmt.Errorf("there is no session of the last %v", a.since)
}

func (a *asker) ask(ctx context.Context, kind tempo.Kind, query string) (string, error) {
	if kind == tempo.KindMetrics {
		return a.metrics(ctx, query)
	}
	return a.search(ctx, query)
}

// search says how many traces and spans were found.
func (a *asker) search(ctx context.Context, query string) (string, error) {
	var answer struct {
		Traces []struct {
			SpanSets []struct{ Matched int }
		}
	}
	if err := a.get(ctx, "/api/search", a.times(url.Values{"q": {query}, "limit": {"1000"}, "spss": {"100"}}),
		&answer); err != nil {
		return "", err
	}
	spans := 0 // Tempo shows some of each trace, and says how many match
	for _, t := range answer.Traces {
		for _, s := range t.SpanSets {
			spans += s.Matched
		}
	}
	if len(answer.Traces) == 0 {
		return "", nil
	}
	return fmt.Sprintf("%d spans of %d traces", spans, len(answer.Traces)), nil
}

// metrics says how many series came and, of the first, the labels and the largest value.
func (a *asker) metrics(ctx context.Context, query string) (string, error) {
	var answer struct {
		Series []struct {
			Labels []struct {
				Key   string
				Value map[string]any
			}
			Samples   []struct{ Value float64 }
			Exemplars []json.RawMessage
		}
	}
	if err := a.get(ctx, "/api/metrics/query_range", a.times(url.Values{"q": {query}, "step": {"60s"}}),
		&answer); err != nil {
		return "", err
	}
	if len(answer.Series) == 0 {
		return "", nil
	}
	exemplars, largest, of := 0, 0.0, ""
	for _, s := range answer.Series {
		exemplars += len(s.Exemplars)
		for _, sample := range s.Samples {
			if of != "" && sample.Value <= largest {
				continue
			}
			var labels []string
			for _, l := range s.Labels {
				for _, value := range l.Value {
					labels = append(labels, fmt.Sprintf("%s=%v", l.Key, value))
				}
			}
			slices.Sort(labels)
			largest, of = sample.Value, "{"+strings.Join(labels, ", ")+"}"
		}
	}
	return fmt.Sprintf("%d series, %d exemplars; the largest value is %s of %s", len(answer.Series), exemplars,
		strconv.FormatFloat(largest, 'g', 6, 64), cmp.Or(of, "none")), nil
}

func (a *asker) times(v url.Values) url.Values {
	now := time.Now()
	v.Set("start", strconv.FormatInt(now.Add(-a.since).Unix(), 10))
	v.Set("end", strconv.FormatInt(now.Unix(), 10))
	return v
}

func (a *asker) get(ctx context.Context, path string, query url.Values, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.tempo+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return json.Unmarshal(body, answer)
}
