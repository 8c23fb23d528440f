package examples

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a fenced block of a document. File is set where the line before it ends with the name of a file and a colon.
type block struct {
	language, file, text string
}

func blocks(t *testing.T, document string) (out []block) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	fenced := regexp.MustCompile("(?ms)^((?:[^\n]*`([\\w.-]+)`:\n\n)?)```(\\w+)\n(.*?)^```$")
	for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
		out = append(out, block{language: m[3], file: m[2], text: m[4]})
	}
	return out
}

// TestGuides runs the commands of the five-minute guides in a folder that looks like a clone, without `make build` and
// on free ports. The commands must print the lines of text blocks.
func TestGuides(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds and runs programs")
	}
	bin := otelagent(t)
	for _, tt := range []struct {
		name     string
		commands int // lines of sh blocks, so that none is overlooked
		finds    []string
	}{
		{name: "start-go", commands: 11, finds: []string{
			`{"model":"m-1","messages":[{"role":"user","content":"How warm is it?"},{"role":"assistant",` +
				`"content":"I look."},{"role":"tool","content":"21"}]}`,
			"ok  \texample.com/my-agent",
		}},
		{name: "start-rust", commands: 12, finds: []string{"read_manifest", `"messages":[{"role":"user"`, "1 run"}},
		{name: "inspect", commands: 14},
		{name: "start-platform", commands: 9, finds: []string{"sub-agent", "sent "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			guide := blocks(t, filepath.Join("..", "docs", tt.name+".md"))
			out := follow(t, bin, guide, tt.commands)
			for _, b := range guide {
				if b.language == "text" {
					tt.finds = append(tt.finds, slices.Collect(strings.Lines(steady(b.text)))...)
				}
			}
			for _, want := range tt.finds {
				if want = strings.TrimRight(want, "\n"); !strings.Contains(steady(out), want) {
					t.Errorf("the commands do not print %q", want)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// prelude makes of `bin/otelagent up … &` a command that returns when it is ready, and nothing of `make build`.
const prelude = `set -eu
make() { [ "$*" = build ]; }
ups=
trap 'kill $ups 2>/dev/null; wait' EXIT
up() {
	log=$(mktemp)
	case "$*" in
	*--config*) ;;
	*) set -- "$@" --otlp-grpc 127.0.0.1:0 --otlp-http 127.0.0.1:0 ;;
	esac
	"$OTELAGENT" up "$@" 2>"$log" &
	ups="$ups $!"
	until grep -q 'otelagent: ready' "$log"; do
		kill -0 $! || { cat "$log"; exit 1; }
		sleep 0.1
	done
	case "$*" in
	*--config*) ;;
	*)
		SESSIONS=$(sed -n 's/.*gRPC on //p' "$log")
		OTEL_EXPORTER_OTLP_ENDPOINT=http://$SESSIONS
		export SESSIONS OTEL_EXPORTER_OTLP_ENDPOINT
		;;
	esac
}
`

// rust finds the commands that need Rust: TestRustOfTheGuide and TestRun run them where EXAMPLES asks for that.
var rust = regexp.MustCompile(`(?m)^(rustc|examples/run\.sh) `)

// follow runs the sh blocks of a guide in one shell, which writes the files of the other blocks where they are, and
// returns the output.
func follow(t *testing.T, bin string, guide []block, commands int) string {
	t.Helper()
	dir := t.TempDir()
	clone := filepath.Join(dir, "otelagent")
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(clone, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{filepath.Join(clone, "bin", "otelagent"): bin}
	for _, e := range entries {
		if e.Name() != "bin" && e.Name() != ".git" {
			links[filepath.Join(clone, e.Name())] = filepath.Join(repository, e.Name())
		}
	}
	for link, to := range links {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	// my-agent, the program of the reader, prints what a phi-core agent wrote.
	agent := "#!/bin/sh\nexec cat " + filepath.Join(repository,
		"dialects/phi/testdata/phi-core-0.15.2/plain-multi-turn.events.ndjson") + "\n"
	if err := os.WriteFile(filepath.Join(clone, "bin", "my-agent"), []byte(agent), 0o755); err != nil {
		t.Fatal(err)
	}

	script, n := strings.Builder{}, 0
	script.WriteString(prelude)
	for _, b := range guide {
		switch {
		case b.file != "" && b.language != "rust":
			fmt.Fprintf(&script, "cat >%s <<'END OF FILE'\n%sEND OF FILE\n", b.file, b.text)
		case b.language == "sh":
			n += strings.Count(b.text, "\n")
			if rust.MatchString(b.text) {
				continue
			}
			text := regexp.MustCompile(`(?m)^bin/otelagent up(.*) &$`).ReplaceAllString(b.text, "up$1")
			script.WriteString(strings.ReplaceAll(text, "=../otelagent ", "="+repository+" "))
		}
	}
	if n != commands {
		t.Errorf("%d commands, want %d: see that the test does what they say", n, commands)
	}
	text := script.String()
	for _, port := range []string{"127.0.0.1:14317", "127.0.0.1:24317"} {
		text = strings.ReplaceAll(text, port, freeAddress(t))
	}
	sh := exec.CommandContext(t.Context(), "sh", "-c", text)
	sh.Dir = clone
	sh.Env = append(os.Environ(), "OTELAGENT="+bin, "OTELAGENT_DB="+filepath.Join(dir, "my.db"),
		"PATH="+filepath.Join(clone, "bin")+":"+os.Getenv("PATH"), "GOFLAGS=-mod=mod")
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestRustOfTheGuide finds the pieces of Rust and the dependencies of the guide in the examples, which the interop
// steps build. The one whole program is built here, where EXAMPLES asks for Rust, and its lines are sent as the guide
// says.
func TestRustOfTheGuide(t *testing.T) {
	var sources []string
	for _, pattern := range []string{"*/Cargo.toml", "*/src/main.rs"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, strings.Fields(string(text))...)
		}
	}
	all := strings.Join(sources, " ")
	pieces, commands := 0, ""
	for _, b := range blocks(t, "../docs/start-rust.md") {
		var want []string
		switch {
		case b.language == "toml":
			want = slices.Collect(strings.Lines(b.text))
		case b.language == "rust" && b.file == "":
			want = []string{b.text}
		case b.language == "rust":
			commands = fmt.Sprintf("cat >%s <<'END OF FILE'\n%sEND OF FILE\n", b.file, b.text)
		case strings.HasPrefix(b.text, "rustc "):
			commands += strings.NewReplacer("bin/otelagent send", `"$OTELAGENT" send --db s.db`, "bin/otelagent",
				`"$OTELAGENT"`).Replace(b.text) + `"$OTELAGENT" show lines-1`
		}
		for _, w := range want {
			if pieces++; !strings.Contains(all, strings.Join(strings.Fields(w), " ")) {
				t.Errorf("no example has\n%s", w)
			}
		}
	}
	if pieces != 8 || commands == "" {
		t.Errorf("%d pieces of examples, and the program %q", pieces, commands)
	}
	if !strings.Contains(os.Getenv("EXAMPLES"), "phi-core-pipe") {
		return
	}
	sh := exec.Command("sh", "-euc", commands)
	sh.Dir = t.TempDir()
	sh.Env = append(os.Environ(), "OTELAGENT="+otelagent(t), "OTELAGENT_DB=s.db")
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{`{"model":"m-1","messages":[{"role":"user","content":"How warm is it?"}]}`,
		"21 degrees.", "9 in · 4 out"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands do not print %q:\n%s", want, out)
		}
	}
}
