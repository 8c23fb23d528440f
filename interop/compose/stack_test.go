//go:build linux

package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// A stack is the services of a project as processes on this machine: the programs that CI can have instead of images,
// with the arguments, environment and files of docker-compose.yaml. A method below says how a service differs from its
// container.
type stack struct {
	t       *testing.T
	project *types.Project
	data    string              // instead of volumes, one folder each
	user    *syscall.Credential // of the collector; nil: ours
	at      map[string]string   // addresses, by the service and what it serves there
}

func newStack(t *testing.T, v variant) *stack {
	s := &stack{t: t, project: mustLoad(t, v), data: t.TempDir(), at: map[string]string{}}
	names := strings.Fields("grpc http agents own health jaeger-grpc jaeger-http jaeger-query jaeger-health prometheus " +
		"clickhouse tempo-grpc tempo-http")
	for i, address := range free(t, len(names)) {
		s.at[names[i]] = address
	}
	return s
}

// mounted returns an argument or value of a service with the path of this machine in place of the mounted one.
func (s *stack) mounted(service types.ServiceConfig, text string) string {
	for _, v := range service.Volumes {
		source := v.Source
		if v.Type == types.VolumeTypeVolume {
			source = filepath.Join(s.data, v.Source)
			if err := os.MkdirAll(source, 0o700); err != nil {
				s.t.Fatal(err)
			}
		}
		flag, path, ok := strings.Cut(text, "=")
		if !ok {
			flag, path = "", text
		} else {
			flag += "="
		}
		if rest, ok := strings.CutPrefix(path, v.Target); ok && (rest == "" || rest[0] == '/') {
			return flag + source + rest
		}
	}
	return text
}

func (s *stack) args(service types.ServiceConfig) (args []string) {
	for _, arg := range service.Command {
		args = append(args, s.mounted(service, arg))
	}
	return args
}

// env is the environment of a service, with what the test adds: addresses.
func (s *stack) env(service types.ServiceConfig, more ...string) (env []string) {
	for _, k := range slices.Sorted(maps.Keys(service.Environment)) {
		if v := service.Environment[k]; v != nil {
			env = append(env, k+"="+s.mounted(service, *v))
		}
	}
	return append(env, more...)
}

// healthy waits until the health check of docker-compose.yaml passes, by the programs of this machine and at the
// address of the process instead of that inside of the container.
func (s *stack) healthy(name, inside, here string, p *process) {
	s.t.Helper()
	test := s.project.Services[name].HealthCheck.Test
	if test[0] != "CMD" {
		s.t.Fatalf("%s: the health check wants a shell: %q", name, test)
	}
	path := map[string]string{"/healthcheck": healthcheck, "promtool": promtool, "wget": wget, "/tempo": tempo}[test[1]]
	if path == "" {
		s.t.Fatalf("%s: %s is no program that the test knows", name, test[1])
	}
	args := strings.Split(replace(s.t, strings.Join(test[2:], "\n"), inside, here), "\n")
	begin := time.Now()
	eventually(s.t, name+" becomes healthy", func() error {
		_, err := run(s.t, nil, program(s.t, path), args...)
		return err
	}, p)
	s.t.Logf("%s is healthy after %.1f s", name, time.Since(begin).Seconds())
}

// jaeger starts the real Jaeger, of the version that its Go module has.
func (s *stack) jaeger() *process {
	service := s.project.Services["jaeger"]
	env := s.env(service, "OTLP_GRPC="+s.at["jaeger-grpc"], "JAEGER_HTTP="+s.at["jaeger-query"],
		"JAEGER_GRPC="+free(s.t, 1)[0], "HEALTH="+s.at["jaeger-health"],
		"JAEGER_UI="+s.mounted(service, "/etc/jaeger/ui.json"))
	p := start(s.t, "jaeger", nil, env, program(s.t, jaeger), s.args(service)...)
	s.healthy("jaeger", "127.0.0.1:13133", s.at["jaeger-health"], p)
	return p
}

// tempo starts Tempo, where somebody has built one.
func (s *stack) tempo() *process {
	service := s.project.Services["tempo"]
	env := s.env(service, "TEMPO_HOST=127.0.0.1", "TEMPO_HTTP_PORT="+port(s.at["tempo-http"]),
		"TEMPO_GRPC_PORT="+port(free(s.t, 1)[0]), "TEMPO_OTLP="+s.at["tempo-grpc"],
		"TEMPO_DATA="+s.mounted(service, "/var/tempo"))
	p := start(s.t, "tempo", nil, env, program(s.t, tempo), s.args(service)...)
	p.lingers = true
	s.healthy("tempo", "127.0.0.1:3200", s.at["tempo-http"], p)
	return p
}

// collectorEnv has addresses of this machine.
func (s *stack) collectorEnv() []string {
	host, port := strings.Split(s.at["own"], ":")[0], port(s.at["own"])
	return []string{"OTLP_GRPC=" + s.at["grpc"], "OTLP_HTTP=" + s.at["http"], "AGENT_METRICS=" + s.at["agents"],
		"OWN_METRICS_HOST=" + host, "OWN_METRICS_PORT=" + port, "HEALTH=" + s.at["health"],
		"JAEGER_OTLP=" + s.at["jaeger-grpc"], "TEMPO_OTLP=" + s.at["tempo-grpc"]}
}

// collectorArgs are those of the container; the first file is in the image.
func (s *stack) collectorArgs(service types.ServiceConfig) []string {
	return strings.Split(replace(s.t, strings.Join(s.args(service), "\n"), "/etc/otelcol-agent/config.yaml",
		filepath.Join(root, "collector-exporter/distribution/config.container.yaml")), "\n")
}

func (s *stack) collector(env ...string) *process {
	service := s.project.Services["collector"]
	env = append(s.env(service, s.collectorEnv()...), env...)
	p := start(s.t, "collector", s.user, env, program(s.t, otelcol), s.collectorArgs(service)...)
	s.healthy("collector", "127.0.0.1:13133", s.at["health"], p)
	return p
}

// prometheus starts Debian's server of 2.42, which has no receiver of OTLP yet. Addresses and intervals are replaced in
// its file, as Prometheus reads none from its environment.
func (s *stack) prometheus() *process {
	service := s.project.Services["prometheus"]
	text, err := os.ReadFile(filepath.Join(root, "compose/prometheus.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "prometheus.yaml")
	changed := replace(s.t, string(text), "collector:8889", s.at["agents"], "collector:8888", s.at["own"],
		"tempo:3200", s.at["tempo-http"], "127.0.0.1:9090", s.at["prometheus"],
		"scrape_interval: 15s", "scrape_interval: 1s", "scrape_timeout: 10s", "scrape_timeout: 1s")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		s.t.Fatal(err)
	}
	args := slices.DeleteFunc(s.args(service), func(a string) bool { return a == "--web.enable-otlp-receiver" })
	lines := replace(s.t, strings.Join(args, "\n"), filepath.Join(root, "compose/prometheus.yaml"), file)
	args = append(strings.Split(lines, "\n"), "--web.listen-address="+s.at["prometheus"])
	p := start(s.t, "prometheus", nil, s.env(service), program(s.t, prometheus), args...)
	s.healthy("prometheus", "127.0.0.1:9090", s.at["prometheus"], p)
	return p
}

const recording = "dialects/phi/testdata/phi-core-0.15.2/plain-multi-turn.events.ndjson"

// send lets `otelagent send` send a recorded session.
func (s *stack) send() {
	s.t.Helper()
	env := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + s.at["grpc"]}
	out, err := run(s.t, env, program(s.t, otelagentBin), "send", "--capture", "content", filepath.Join(root, recording))
	if err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
}

// agent is a loop of our own that sends spans and metrics: one run of three turns, one of which calls a tool.
func (s *stack) agent(ctx context.Context) error {
	providers, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("agent-of-the-test"),
		otelsetup.WithEndpoint("http://"+s.at["grpc"]))
	if err != nil {
		return err
	}
	tracer := otelagent.NewTracer()
	ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{SessionID: "session-of-the-test", Agent: "tester", Model: "m"})
	for range 3 {
		ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: spans.TriggerUser})
		_, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c1", Name: "bash"})
		call.End(otelagent.ToolResult{})
		turn.End(otelagent.TurnResult{StopReason: "stop", Usage: &otelagent.Usage{Input: 900, Output: 100}})
	}
	run.End(otelagent.RunResult{})
	return errors.Join(providers.Shutdown(ctx), providers.Stats().LastError, providers.MetricsError())
}

// TestStack starts the services of compose: a session by otelagent and one by a loop in Go arrive in the store, in
// Jaeger and in Prometheus. Without a built Tempo, as in CI, its address is closed all the time.
func TestStack(t *testing.T) {
	s := newStack(t, variantNamed("default"))
	if os.Getenv(jaeger) != "" || os.Getenv("CI") != "" { // else the rest is tested, as Jaeger takes minutes to build
		s.jaeger()
	}
	tempoUp := "0"
	if os.Getenv(tempo) != "" {
		s.tempo()
		tempoUp = "1"
	}
	collector := s.collector()
	s.prometheus()
	s.send()
	must.Do(t, s.agent(t.Context()))

	t.Run("store", func(t *testing.T) {
		db := filepath.Join(s.data, "sessions", "sessions.db")
		if got := sessions(t, nil, db); len(got) != 2 || !slices.Contains(got, "session-of-the-test") {
			t.Errorf("the store has the sessions %q", got)
		}
		if info, err := os.Stat(db); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file's mode is %v, %v", info.Mode(), err)
		}
	})
	var trace string // of an exemplar
	t.Run("prometheus", func(t *testing.T) {
		for query, want := range map[string]string{
			`sum(otelagent_turn_tokens_sum{job="agent-of-the-test",otelagent_token_class="input"})`:    "2700",
			`sum(otelagent_turn_tokens_count{job="agent-of-the-test",otelagent_token_class="output"})`: "3",
			`sum(otelagent_tool_calls_total{job="agent-of-the-test",gen_ai_tool_name="bash"})`:         "3",
			`up{job="agents"}`:    "1",
			`up{job="collector"}`: "1",
			`up{job="tempo"}`:     tempoUp,
			`count(count by (exporter) ({__name__=~"otelcol_exporter_sent_spans.*",exporter="agent_session"}))`: "1",
		} {
			eventually(t, query, func() error {
				got, err := ask(t.Context(), s.at["prometheus"], query)
				if err == nil && got != want {
					err = fmt.Errorf("the answer is %q, want %s", got, want)
				}
				return err
			})
		}
		eventually(t, "an exemplar", func() (err error) {
			trace, err = exemplar(t.Context(), s.at["prometheus"], "otelagent_turn_tokens_bucket")
			return err
		})
	})
	t.Run("an exemplar leads to a trace", func(t *testing.T) {
		program(t, jaeger)
		if trace == "" {
			t.Fatal("there is no exemplar")
		}
		eventually(t, "Jaeger has it", func() error {
			_, err := get(t.Context(), "http://"+s.at["jaeger-query"]+"/api/traces/"+trace)
			return err
		})
	})
	t.Run("tempo", func(t *testing.T) {
		if os.Getenv(tempo) == "" {
			t.Skip("TEMPO names no program, and no registry has one: TestTempoWasRun holds its file to the last run by hand")
		}
		eventually(t, "Tempo finds the turns of the Go loop", func() error {
			var answer struct {
				Traces []struct {
					SpanSets []struct{ Matched int }
				}
			}
			query := url.QueryEscape(`{name="session.turn" && resource.service.name="agent-of-the-test"}`)
			if err := getJSON(t.Context(), "http://"+s.at["tempo-http"]+"/api/search?q="+query, &answer); err != nil {
				return err
			}
			if len(answer.Traces) != 1 || len(answer.Traces[0].SpanSets) != 1 || answer.Traces[0].SpanSets[0].Matched != 3 {
				return fmt.Errorf("Tempo finds %+v", answer)
			}
			return nil
		})
	})
	t.Run("stops", func(t *testing.T) {
		begin := time.Now()
		collector.stop(t)
		if bound := time.Duration(*s.project.Services["collector"].StopGracePeriod); time.Since(begin) > bound {
			t.Errorf("the collector takes %v to stop, and compose kills it after %v", time.Since(begin), bound)
		}
		if collector.err != nil {
			t.Errorf("the collector ends with %v", collector.err)
		}
	})
}

// sessions returns the ids of the sessions that `otelagent ls` finds.
func sessions(t *testing.T, env []string, db string) (ids []string) {
	t.Helper()
	out := must.Get(run(t, env, program(t, otelagentBin), "ls", "--db", db, "--output", "json"))(t)
	var list struct{ Sessions []struct{ ID string } }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v in\n%s", err, last(out, 1000))
	}
	for _, s := range list.Sessions {
		ids = append(ids, s.ID)
	}
	return ids
}

// ask returns the one value that Prometheus answers.
func ask(ctx context.Context, addr, query string) (string, error) {
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	err := getJSON(ctx, "http://"+addr+"/api/v1/query?query="+url.QueryEscape(query), &answer)
	if err == nil && len(answer.Data.Result) != 1 {
		err = fmt.Errorf("%d results, want one", len(answer.Data.Result))
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}

// exemplar returns a trace id that Prometheus keeps with a histogram.
func exemplar(ctx context.Context, addr, metric string) (string, error) {
	now := time.Now()
	var answer struct {
		Data []struct {
			Exemplars []struct{ Labels map[string]string }
		}
	}
	err := getJSON(ctx, fmt.Sprintf("http://%s/api/v1/query_exemplars?query=%s&start=%d&end=%d", addr, metric,
		now.Add(-time.Hour).Unix(), now.Add(time.Minute).Unix()), &answer)
	for _, series := range answer.Data {
		for _, e := range series.Exemplars {
			if id := e.Labels["trace_id"]; id != "" {
				return id, nil
			}
		}
	}
	return "", errors.Join(err, errors.New("no exemplar has a trace_id"))
}

func getJSON(ctx context.Context, url string, into any) error {
	body, err := get(ctx, url)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(body), into)
}
