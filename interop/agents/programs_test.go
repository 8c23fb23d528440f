package agents

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program is an agent or a framework, and how it is pointed at a model and at a collector.
type program struct {
	name string
	// command is what is run once for all prompts or, with resume, once for each prompt.
	command func(p place, prompts []string) []string
	resume  bool
	// server runs until the test ends, so that it sends its last spans.
	server func(p place) []string
	// env and files are the variables and the settings that its documentation names.
	env   func(p place) []string
	files func(p place) map[string]string
	// first and second are the calls that the first two replies ask for. The first call of second fails.
	first  call
	second [2]call
	// session is the id that the user gives; own: the program has one of its own; empty: each prompt is a session.
	session string
	// titles counts the calls for a title that telemetry reports and transcripts do not.
	titles int
	// lacksReasoning: its telemetry does not report reasoning tokens.
	lacksReasoning bool
	// silent is the content that is not in its telemetry.
	silent []string
	// succeeds are the signals that report the call that fails as a success.
	succeeds []signal
	// agent is the name of its transcripts for `otelagent import`; empty: it writes none.
	agent string
}

// own is the session of a program that has an id of its own.
const own = "own"

// A place is where one program runs.
type place struct {
	tools     string // the folder with node_modules and venv
	home      string // home of the program
	work      string // its working directory
	model     string // URL of the model
	collector string // URL of the collector
	address   string // free on loopback, for a server
}

func (p place) node(name string) string { return filepath.Join(p.tools, "node_modules", ".bin", name) }

// framework is a program of the folder programs, whose tool is the weather. It takes the standard variables.
func framework(a program, script string) program {
	a.first = weather("Oslo")
	a.second = [2]call{weather("Nowhere"), weather("Rome")}
	a.env = func(p place) []string {
		return []string{"MODEL_URL=" + p.model + "/v1", "OTEL_EXPORTER_OTLP_ENDPOINT=" + p.collector,
			"OTEL_SERVICE_NAME=travel", "TRACELOOP_TELEMETRY=false", "PYTHONDONTWRITEBYTECODE=1"}
	}
	a.command = func(p place, prompts []string) []string {
		path, _ := filepath.Abs("programs/" + script)
		interpreter := filepath.Join(p.tools, "venv", "bin", "python")
		if strings.HasSuffix(script, ".mjs") { // Node looks for packages from the folder of the program on
			interpreter, path = "node", filepath.Join(p.tools, script)
		}
		return append([]string{interpreter, path}, prompts...)
	}
	return a
}

func weather(city string) call { return call{"weather", object{"city": city}} }

var programs = []program{
	{name: "codex", agent: "codex", session: own, resume: true, succeeds: []signal{telemetry}, silent: []string{"DURIAN"},
		first: call{"exec_command", object{"cmd": "cat notes.txt"}},
		second: [2]call{{"exec_command", object{"cmd": "cat missing.txt"}},
			{"exec_command", object{"cmd": "ls"}}},
		command: func(p place, prompts []string) []string {
			if len(prompts) > 1 {
				return []string{p.node("codex"), "exec", "resume", "--last", "--skip-git-repo-check", prompts[1]}
			}
			return []string{p.node("codex"), "exec", "--skip-git-repo-check", prompts[0]}
		},
		env: func(p place) []string { return []string{"CODEX_HOME=" + p.home + "/.codex", "MOCK_KEY=x"} },
		files: func(p place) map[string]string {
			config := fmt.Sprintf(`model = "gpt-5-codex"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.mock]
name = "mock"
base_url = "%s/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
request_max_retries = 0
[analytics]
enabled = false
`, p.model)
			if p.collector != "" {
				config += fmt.Sprintf(`[otel]
log_user_prompt = true
exporter = { otlp-http = { endpoint = "%[1]s/v1/logs", protocol = "json" } }
trace_exporter = { otlp-http = { endpoint = "%[1]s/v1/traces", protocol = "json" } }
`, p.collector)
			}
			return map[string]string{p.home + "/.codex/config.toml": config}
		}},
	{name: "gemini-cli", agent: "gemini-cli", session: own, resume: true,
		first: call{"read_file", object{"file_path": "notes.txt"}},
		second: [2]call{{"read_file", object{"file_path": "missing.txt"}},
			{"list_directory", object{"dir_path": "."}}},
		command: func(p place, prompts []string) []string {
			args := []string{p.node("gemini"), "-m", "gemini-2.5-flash", "-p", prompts[len(prompts)-1]}
			if len(prompts) > 1 {
				args = append(args, "--resume", "latest")
			}
			return args
		},
		env: func(p place) []string {
			env := []string{"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=" + p.model, "GEMINI_CLI_TRUST_WORKSPACE=true",
				"GEMINI_CLI_NO_RELAUNCH=true"}
			if p.collector != "" {
				env = append(env, "GEMINI_TELEMETRY_ENABLED=true", "GEMINI_TELEMETRY_TARGET=local",
					"GEMINI_TELEMETRY_OTLP_PROTOCOL=http", "GEMINI_TELEMETRY_OTLP_ENDPOINT="+p.collector,
					"GEMINI_TELEMETRY_TRACES_ENABLED=true")
			}
			return env
		},
		files: func(p place) map[string]string {
			return map[string]string{p.home + "/.gemini/settings.json": `{
"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},
"general":{"disableAutoUpdate":true,"enableAutoUpdate":false}}`}
		}},
	{name: "opencode", agent: "opencode", session: own, resume: true, titles: 1,
		first: call{"read", object{"filePath": "notes.txt"}},
		second: [2]call{{"read", object{"filePath": "missing.txt"}},
			{"read", object{"filePath": "."}}},
		command: func(p place, prompts []string) []string {
			args := []string{p.node("opencode"), "run", "--attach", "http://" + p.address, "--dir", p.work}
			if len(prompts) > 1 {
				args = append(args, "--continue")
			}
			return append(args, prompts[len(prompts)-1])
		},
		server: func(p place) []string {
			_, port, _ := net.SplitHostPort(p.address)
			return []string{p.node("opencode"), "serve", "--port", port}
		},
		env: func(p place) []string {
			env := []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"}
			if p.collector != "" {
				env = append(env, "OTEL_EXPORTER_OTLP_ENDPOINT="+p.collector, "OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
					"OTEL_BSP_SCHEDULE_DELAY=100")
			}
			return env
		},
		files: func(p place) map[string]string {
			return map[string]string{p.work + "/opencode.json": fmt.Sprintf(`{"autoupdate":false,"share":"disabled",
"experimental":{"openTelemetry":%t},"provider":{"mock":{"npm":"@ai-sdk/openai-compatible","name":"mock",
"options":{"baseURL":"%s/v1","apiKey":"x"},"models":{"m1":{"name":"m1","limit":{"context":64000,"output":4000}}}}},
"model":"mock/m1","small_model":"mock/m1"}`, p.collector != "", p.model)}
		}},
	framework(program{name: "vercel-ai", lacksReasoning: true}, "vercel.mjs"),
	framework(program{name: "pydantic-ai", session: own}, "pydantic_agent.py"),
	framework(program{name: "strands", session: "trip-7", lacksReasoning: true}, "strands_agent.py"),
	framework(program{name: "traceloop", session: "trip-7"}, "traceloop_agent.py"),
	framework(program{name: "openinference", session: "trip-7"}, "openinference_agent.py"),
}

// prompts are two: the model answers the first with three replies, and the second with one.
var prompts = []string{"Where shall we go, ARANCIO?", "Anything left, BERGAMOTTO?"}

// script is what the model plays for a program.
func (a program) script() []step {
	return []step{
		{calls: []call{a.first}, usage: usage{5000, 60, 0, 20}},
		{calls: a.second[:], usage: usage{5200, 31, 4992, 0}},
		{text: "Only CEDRO is known.", usage: usage{5300, 26, 5120, 9}},
		{text: "Nothing but DURIAN.", usage: usage{5400, 7, 5248, 0}},
	}
}

// newPlace makes the folders of a program: a working directory with one note, and a home of its own.
func newPlace(t *testing.T, modelURL, collector string) place {
	t.Helper()
	dir := t.TempDir()
	tools, err := filepath.Abs(os.Getenv("AGENTS_TOOLS"))
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	p := place{tools: tools, home: dir + "/home", work: dir + "/work", model: modelURL, collector: collector,
		address: free.Addr().String()}
	write(t, p.work+"/notes.txt", "buy milk\n")
	write(t, p.home+"/.empty", "")
	return p
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// play runs the program with both prompts against a model that plays its script.
func (a program) play(t *testing.T, p place, m *model) {
	t.Helper()
	if a.files != nil {
		for path, text := range a.files(p) {
			write(t, path, text)
		}
	}
	if a.server != nil {
		a.serve(t, p)
	}
	if !a.resume {
		a.start(t, p, prompts)
	} else {
		for n := range prompts {
			a.start(t, p, prompts[:n+1])
		}
	}
	if steps, _, others := m.played(); steps != len(m.script) {
		t.Errorf("%s asked the model %d times, the script has %d replies; other requests: %q", a.name, steps,
			len(m.script), others)
	}
}

// cmd is a command in the place of the program. Nothing of the user's own settings reaches it.
func (a program) cmd(ctx context.Context, p place, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = p.work
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "CI=1"}, a.env(p)...)
	return cmd
}

// serve runs the server of the program until the test ends.
func (a program) serve(t *testing.T, p place) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	cmd := a.cmd(ctx, p, a.server(p))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = cmd.Wait() })
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(100 * time.Millisecond) {
		if conn, err := net.Dial("tcp", p.address); err == nil {
			_ = conn.Close()
			return
		}
	}
	t.Fatalf("%q does not listen on %s", cmd.Args, p.address)
}

func (a program) start(t *testing.T, p place, prompts []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := a.cmd(ctx, p, a.command(p, prompts))
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("%s took %.1f s", a.name, time.Since(begin).Seconds())
	if err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, out[max(0, len(out)-4000):])
	}
}
