package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/redactfile"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/redact"
)

// captureOptions say which content is sent, and how.
type captureOptions struct {
	Level, Redact, Scope             string
	For                              []string
	MaxBlock, MaxTurn, Preview, Span int
	OpenInference                    bool
}

// captureOf returns the options of a level with the defaults of the flags.
func captureOf(level string) captureOptions {
	return captureOptions{Level: level, Scope: "session", Preview: writer.DefaultPreviewBytes,
		Span: writer.DefaultMaxSpanBytes}
}

// flags adds the flags to c, in groups of their own in its help.
func (o *captureOptions) flags(c *cobra.Command) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVar(&o.Level, "capture", "none", "`what` may leave beside ids, numbers and names: none, digests or content")
	f.StringArrayVar(&o.For, "capture-for", nil,
		"another level by `rule`: agent=NAME:LEVEL or session=ID:LEVEL; may be repeated, the first that fits counts")
	f.StringVar(&o.Redact, "redact", "", "rules for what is taken out of content: a `file` (docs/redaction.md), or "+
		"default for the built-in set")
	addGroup(c, "Flags for content", f)

	f = pflag.NewFlagSet("", pflag.ContinueOnError)
	f.IntVar(&o.MaxBlock, "max-block-bytes", 0, "longer pieces leave cut to `n` bytes, with size and digest (0: no bound)")
	f.IntVar(&o.MaxTurn, "max-turn-bytes", 0,
		"new content of a turn beyond `n` bytes leaves as size and digest (0: no bound)")
	f.IntVar(&o.Preview, "preview-bytes", writer.DefaultPreviewBytes,
		"previews in span attributes have `n` bytes at most (0: none)")
	f.IntVar(&o.Span, "max-span-bytes", writer.DefaultMaxSpanBytes,
		"content of a span beyond `n` bytes goes on in session.payload spans")
	addGroup(c, "Flags for size bounds", f)

	f = pflag.NewFlagSet("", pflag.ContinueOnError)
	f.StringVar(&o.Scope, "block-scope", "session",
		"a piece is sent once a `scope`: session, or run (each run can be read without the others)")
	f.BoolVar(&o.OpenInference, "openinference", false,
		"say kinds, names, tokens and previews in the words of OpenInference too, for Phoenix (docs/backends.md)")
	addGroup(c, "Flags for the wire", f)
}

var captureLevels = map[string]otelagent.Capture{
	"none": otelagent.CaptureNone, "digests": otelagent.CaptureDigests, "content": otelagent.CaptureContent,
}

// wrong names everything that is wrong with the flags.
func (o *captureOptions) wrong() []string {
	var wrong []string
	if _, ok := captureLevels[o.Level]; !ok {
		wrong = append(wrong, fmt.Sprintf("--capture %s: want none, digests or content", o.Level))
	}
	if o.Scope != "session" && o.Scope != "run" {
		wrong = append(wrong, fmt.Sprintf("--block-scope %s: want session or run", o.Scope))
	}
	for _, n := range []struct {
		flag  string
		value int
	}{{"max-block-bytes", o.MaxBlock}, {"max-turn-bytes", o.MaxTurn}, {"preview-bytes", o.Preview}} {
		if n.value < 0 {
			wrong = append(wrong, fmt.Sprintf("--%s %d: want 0 or more", n.flag, n.value))
		}
	}
	if o.Span < 64<<10 || o.Span > 3<<20 {
		wrong = append(wrong, fmt.Sprintf("--max-span-bytes %d: want 65536 to 3145728", o.Span))
	}
	if o.Preview > 0 && o.Preview < 320 {
		wrong = append(wrong, fmt.Sprintf("--preview-bytes %d: want 0, or 320 and more", o.Preview))
	}
	for _, rule := range o.For {
		if _, err := parseCaptureFor(rule); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	return wrong
}

// captureFor is one --capture-for.
type captureFor struct {
	agent, session string
	level          otelagent.Capture
}

func parseCaptureFor(rule string) (captureFor, error) {
	what, name, found := strings.Cut(rule, "=")
	at := strings.LastIndexByte(name, ':')
	if found && at > 0 {
		level, known := captureLevels[name[at+1:]]
		switch {
		case !known:
		case what == "agent":
			return captureFor{agent: name[:at], level: level}, nil
		case what == "session":
			return captureFor{session: name[:at], level: level}, nil
		}
	}
	return captureFor{}, fmt.Errorf("--capture-for %s: want agent=NAME:LEVEL or session=ID:LEVEL, LEVEL none, digests "+
		"or content", rule)
}

// options makes the options of a tracer. The flags must have been checked; what may fail is reading the rules.
func (o *captureOptions) options() ([]otelagent.Option, error) {
	opts := []otelagent.Option{func(c *writer.Config) {
		c.Capture, c.CaptureFor, c.PerRun = captureLevels[o.Level], o.captureFor(), o.Scope == "run"
		c.MaxBlockBytes, c.MaxTurnBytes, c.MaxSpanBytes = o.MaxBlock, o.MaxTurn, o.Span
		if c.PreviewBytes = o.Preview; o.Preview == 0 {
			c.PreviewBytes = -1
		}
		c.PartialEvery = 0 // only with --partial-output
	}}
	switch o.Redact {
	case "":
	case redactDefault:
		opts = append(opts, otelagent.WithRedactor(redact.Defaults()))
	default:
		rules, err := loadRules(o.Redact)
		if err != nil {
			return nil, err
		}
		opts = append(opts, otelagent.WithRedactor(rules))
	}
	return opts, nil
}

// captureFor decides the level of a run by --capture-for; nil without such flags.
func (o *captureOptions) captureFor() func(writer.RunInfo) otelagent.Capture {
	if len(o.For) == 0 {
		return nil
	}
	rules := make([]captureFor, len(o.For))
	for i, rule := range o.For {
		rules[i], _ = parseCaptureFor(rule)
	}
	level := captureLevels[o.Level]
	return func(run writer.RunInfo) otelagent.Capture {
		for _, r := range rules {
			if r.agent != "" && (run.Agent == r.agent || run.AgentID == r.agent) || r.session != "" &&
				run.SessionID == r.session {
				return r.level
			}
		}
		return level
	}
}

// redactDefault is the value of --redact that names the built-in rules.
const redactDefault = "default"

// loadRules reads the file that --redact names. Its errors are about usage, and say where in it they are.
func loadRules(path string) (*redact.Rules, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("--redact: %w", err)
	}
	defer f.Close()
	rules, err := redactfile.Load(f)
	if err == nil {
		return rules, nil
	}
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line = strings.TrimPrefix(line, "redact: ")
		if at, ok := strings.CutPrefix(line, "line "); ok {
			lines = append(lines, path+":"+at)
		} else {
			lines = append(lines, path+": "+line)
		}
	}
	return nil, usagef("--redact: %s", strings.Join(lines, "\n"))
}
