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
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// A stack is the services of a project as processes on this machine: the programs that CI can have instead of images, with the
// arguments, environment and files of docker-compose.yaml. Where a service differs from its container, a method below says how.
type stack struct {
	t       *testing.T
	project *types.Project
	data    string              // instead of volumes, one folder each
	user    *syscall.Credential // of the collector; nil: ours

	collectorAddrs struct{ grpc, http, agents, own, health string }
	jaegerAddrs    struct{ grpc, http, query, health string }
	tempoAddrs     struct{ grpc, http string }
	prometheusAddr string
	clickhouseAddr string
}

func newStack(t *testing.T, v variant) *stack {
	s := &stack{t: t, project: mustLoad(t, v), data: t.TempDir()}
	a := free(t, 13)
	s.collectorAddrs.grpc, s.collectorAddrs.http, s.collectorAddrs.agents, s.collectorAddrs.own, s.collectorAddrs.health = a[0], a[1], a[2], a[3], a[4]
	s.jaegerAddrs.grpc, s.jaegerAddrs.http, s.jaegerAddrs.query, s.jaegerAddrs.health = a[5], a[6], a[7], a[8]
	s.prometheusAddr, s.clickhouseAddr = a[9], a[10]
	s.tempoAddrs.grpc, s.tempoAddrs.http = a[11], a[12]
	return s
}

// mounted returns a service's argument or value with the path of this machine in place of one that is mounted in the container.
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

// healthy waits until the health check of a service passes: the command of docker-compose.yaml, by the programs of this machine
// and at the address where the process has what the container has inside.
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
	p := start(s.t, "jaeger", nil, s.env(service, "OTLP_GRPC="+s.jaegerAddrs.grpc, "JAEGER_HTTP="+s.jaegerAddrs.query,
		"JAEGER_GRPC="+free(s.t, 1)[0], "HEALTH="+s.jaegerAddrs.health, "JAEGER_UI="+s.mounted(service, "/etc/jaeger/ui.json")), program(s.t, jaeger), s.args(service)...)
	s.healthy("jaeger", "127.0.0.1:13133", s.jaegerAddrs.health, p)
	return p
}

// tempo starts Tempo, where somebody has built one.
func (s *stack) tempo() *process {
	service := s.project.Services["tempo"]
	p := start(s.t, "tempo", nil, s.env(service, "TEMPO_HOST=127.0.0.1", "TEMPO_HTTP_PORT="+port(s.tempoAddrs.http), "TEMPO_GRPC_PORT="+port(free(s.t, 1)[0]),
		"TEMPO_OTLP="+s.tempoAddrs.grpc, "TEMPO_DATA="+s.mounted(service, "/var/tempo")), program(s.t, tempo), s.args(service)...)
	p.lingers = true
	s.healthy("tempo", "127.0.0.1:3200", s.tempoAddrs.http, p)
	return p
}

// collectorEnv has addresses of this machine.
func (s *stack) collectorEnv() []string {
	host, port := strings.Split(s.collectorAddrs.own, ":")[0], port(s.collectorAddrs.own)
	return []string{"OTLP_GRPC=" + s.collectorAddrs.grpc, "OTLP_HTTP=" + s.collectorAddrs.http, "AGENT_METRICS=" + s.collectorAddrs.agents,
		"OWN_METRICS_HOST=" + host, "OWN_METRICS_PORT=" + port, "HEALTH=" + s.collectorAddrs.health,
		"JAEGER_OTLP=" + s.jaegerAddrs.grpc, "TEMPO_OTLP=" + s.tempoAddrs.grpc}
}

// collectorArgs are those of the container; the first file is in the image.
func (s *stack) collectorArgs(service types.ServiceConfig) []string {
	return strings.Split(replace(s.t, strings.Join(s.args(service), "\n"), "/etc/otelcol-agent/config.yaml",
		filepath.Join(root, "collector-exporter/distribution/config.container.yaml")), "\n")
}

func (s *stack) collector(env ...string) *process {
	service := s.project.Services["collector"]
	p := start(s.t, "collector", s.user, append(s.env(service, s.collectorEnv()...), env...), program(s.t, otelcol), s.collectorArgs(service)...)
	s.healthy("collector", "127.0.0.1:13133", s.collectorAddrs.health, p)
	return p
}

// prometheus starts Debian's server: of 2.42, which has no receiver of OTLP yet. The addresses to fetch from are the only thing
// that is changed in its file, as Prometheus reads none from its environment.
func (s *stack) prometheus() *process {
	service := s.project.Services["prometheus"]
	text, err := os.ReadFile(filepath.Join(root, "compose/prometheus.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "prometheus.yaml")
	changed := replace(s.t, string(text), "collector:8889", s.collectorAddrs.agents, "collector:8888", s.collectorAddrs.own,
		"tempo:3200", s.tempoAddrs.http, "127.0.0.1:9090", s.prometheusAddr, "scrape_interval: 15s", "scrape_interval: 1s", "scrape_timeout: 10s", "scrape_timeout: 1s")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		s.t.Fatal(err)
	}
	args := slices.DeleteFunc(s.args(service), func(a string) bool { return a == "--web.enable-otlp-receiver" })
	args = strings.Split(replace(s.t, strings.Join(args, "\n"), filepath.Join(root, "compose/prometheus.yaml"), file), "\n")
	p := start(s.t, "prometheus", nil, s.env(service), program(s.t, prometheus), append(args, "--web.listen-address="+s.prometheusAddr)...)
	s.healthy("prometheus", "127.0.0.1:9090", s.prometheusAddr, p)
	return p
}

const recording = "dialects/phi/testdata/phi-core-0.15.2/plain-multi-turn.events.ndjson"

// send lets `otelagent send` send a recorded session.
func (s *stack) send() {
	s.t.Helper()
	out, err := run(s.t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + s.collectorAddrs.grpc}, program(s.t, otelagentBin), "send", "--capture", "content", filepath.Join(root, recording))
	if err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
}

// agent is a loop of our own that sends spans and metrics: one run of three turns, one of which calls a tool.
func (s *stack) agent(ctx context.Context) error {
	providers, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("agent-of-the-test"), otelsetup.WithEndpoint("http://"+s.collectorAddrs.grpc))
	if err != nil {
		return err
	}
	tracer := otelagent.NewTracer()
	ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{SessionID: "session-of-the-test", Agent: "tester", Model: "model-1", Provider: "provider-1"})
	for range 3 {
		ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: spans.TriggerUser})
		_, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c1", Name: "bash"})
		call.End(otelagent.ToolResult{})
		turn.End(otelagent.TurnResult{StopReason: "stop", Usage: &otelagent.Usage{Input: 900, Output: 100}})
	}
	run.End(otelagent.RunResult{})
	return errors.Join(providers.Shutdown(ctx), providers.Stats().LastError, providers.MetricsError())
}

// What compose would start, started: a session by otelagent and one by a loop in Go arrive in the store, in Jaeger and in
// Prometheus. Where nobody has built Tempo, as in CI, it is away all the time, and nothing suffers from that.
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
	if err := s.agent(t.Context()); err != nil {
		t.Fatal(err)
	}

	t.Run("store", func(t *testing.T) {
		db := filepath.Join(s.data, "sessions", "sessions.db")
		if got := sessions(t, nil, db); len(got) != 2 || !slices.Contains(got, "session-of-the-test") {
			t.Errorf("the store has the sessions %q", got)
		}
		if info, err := os.Stat(db); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file's mode is %v, %v", info.Mode(), err)
		}
	})
	t.Run("jaeger", func(t *testing.T) {
		program(t, jaeger)
		// Jaeger gets spans by a queue, after the store had them.
		eventually(t, "Jaeger has the run, its turns and its tools", func() error {
			body, err := get(t.Context(), "http://"+s.jaegerAddrs.query+"/api/traces?service=agent-of-the-test")
			if err != nil {
				return err
			}
			var answer struct {
				Data []struct {
					Spans []struct{ OperationName string }
				}
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				return err
			}
			names := map[string]int{}
			for _, trace := range answer.Data {
				for _, span := range trace.Spans {
					name, _, _ := strings.Cut(span.OperationName, " ")
					names[name]++
				}
			}
			if want := map[string]int{spans.SpanRun: 1, spans.SpanTurn: 3, spans.SpanToolCall: 3}; !maps.Equal(names, want) {
				return fmt.Errorf("Jaeger has %v, want %v", names, want)
			}
			return nil
		})
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
				got, err := ask(t.Context(), s.prometheusAddr, query)
				if err == nil && got != want {
					err = fmt.Errorf("the answer is %q, want %s", got, want)
				}
				return err
			})
		}
		eventually(t, "an exemplar", func() (err error) {
			trace, err = exemplar(t.Context(), s.prometheusAddr, "otelagent_turn_tokens_bucket")
			return err
		})
	})
	t.Run("an exemplar leads to a trace", func(t *testing.T) {
		program(t, jaeger)
		if trace == "" {
			t.Fatal("there is no exemplar")
		}
		eventually(t, "Jaeger has it", func() error {
			_, err := get(t.Context(), "http://"+s.jaegerAddrs.query+"/api/traces/"+trace)
			return err
		})
	})
	t.Run("tempo", func(t *testing.T) {
		if os.Getenv(tempo) == "" {
			t.Skip("TEMPO names no program, and no registry has one: TestTempoWasRun holds its file to the last run by hand")
		}
		eventually(t, "Tempo finds the turns of the Go loop", func() error {
			body, err := get(t.Context(), "http://"+s.tempoAddrs.http+"/api/search?q="+url.QueryEscape(`{name="session.turn" && resource.service.name="agent-of-the-test"}`))
			if err != nil {
				return err
			}
			var answer struct {
				Traces []struct {
					SpanSets []struct{ Matched int }
				}
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				return err
			}
			if len(answer.Traces) != 1 || len(answer.Traces[0].SpanSets) != 1 || answer.Traces[0].SpanSets[0].Matched != 3 {
				return fmt.Errorf("Tempo finds %s", body)
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
	if *update && tempoUp == "1" && !t.Failed() {
		recordTempo(t)
	}
}

// sessions returns the ids of the sessions that `otelagent ls` finds.
func sessions(t *testing.T, env []string, db string) (ids []string) {
	t.Helper()
	out, err := run(t, env, program(t, otelagentBin), "ls", "--db", db, "--output", "json")
	if err != nil {
		t.Fatal(err)
	}
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
	body, err := get(ctx, "http://"+addr+"/api/v1/query?query="+url.QueryEscape(query))
	if err != nil {
		return "", err
	}
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return "", err
	}
	if len(answer.Data.Result) != 1 {
		return "", fmt.Errorf("%d results, want one", len(answer.Data.Result))
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1]), nil
}

// exemplar returns a trace id that Prometheus keeps beside a histogram.
func exemplar(ctx context.Context, addr, metric string) (string, error) {
	now := time.Now()
	body, err := get(ctx, fmt.Sprintf("http://%s/api/v1/query_exemplars?query=%s&start=%d&end=%d", addr, metric, now.Add(-time.Hour).Unix(), now.Add(time.Minute).Unix()))
	if err != nil {
		return "", err
	}
	var answer struct {
		Data []struct {
			Exemplars []struct{ Labels map[string]string }
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return "", err
	}
	for _, series := range answer.Data {
		for _, e := range series.Exemplars {
			if id := e.Labels["trace_id"]; id != "" {
				return id, nil
			}
		}
	}
	return "", errors.New("no exemplar has a trace_id")
}
