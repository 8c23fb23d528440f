package main

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/redactfile"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/otelagent/redact"
	"github.com/otelagent/otelagent/spans"
)

// sendOptions say what to send, how and where to.
type sendOptions struct {
	From, Endpoint, Protocol, DB, Tenant  string
	given                                 []string // names of flags
	Files                                 []string
	Session, Agent, Provider, InputTokens string // for inputs that do not name them
	Replay                                bool   // standard input is a recording, whatever it looks like
	Follow                                bool   // files grow
	Now                                   bool   // files end now
	Live                                  bool   // copies of open spans are sent
	Capture                               string // the level of content to send
	Redact                                string // a file of rules, or redactfile.Default
	Config                                string // the path of a file with the tuning
	tuning

	rules   *redact.Rules // of Redact; nil without
	into    *recording    // in place of a collector or a database
	largest int64         // session whose summary is made at the end, in bytes; 0: any
	unread  bool          // files of a folder cannot be read, and are named
}

// tuning is the file of --config. docs/sending.md lists its keys.
type tuning struct {
	Metrics       string        `yaml:"metrics"`
	Profile       string        `yaml:"profile"`
	SpanNames     string        `yaml:"span_names"`
	Heartbeat     time.Duration `yaml:"heartbeat"`
	PartialOutput bool          `yaml:"partial_output"`
	CaptureFor    []captureRule `yaml:"capture_for"`
	BlockScope    string        `yaml:"block_scope"`
	MaxBlockBytes int           `yaml:"max_block_bytes"`
	MaxSpanBytes  *int          `yaml:"max_span_bytes"`
	PreviewBytes  *int          `yaml:"preview_bytes"`
}

// captureRule is a capture level for one agent or session.
type captureRule struct {
	Agent   string `yaml:"agent"`
	Session string `yaml:"session"`
	Capture string `yaml:"capture"`
}

// The values of metrics, in addition to auto.
const (
	metricsOn  = "on"
	metricsOff = "off"
)

// auto is the value of --from for a dialect that is recognised.
const auto = "auto"

// protocolHelp is the help of --protocol.
const protocolHelp = "`PROTOCOL`: grpc or http/protobuf (default $OTEL_EXPORTER_OTLP_PROTOCOL, else grpc)"

// addFlags adds the flags that send and acp share.
func (o *sendOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Session, "session", "", "`ID` of the session, where the input names none")
	f.StringVar(&o.Agent, "agent", "", "`NAME` of the agent, where the input names none")
	f.StringVar(&o.Provider, "provider", "", "`NAME` of the provider, where the input names none")
	f.StringVar(&o.InputTokens, "input-tokens", "", "`RULE` for reported input tokens, where the input has none: "+
		"includes-cache or excludes-cache")
	f.StringVar(&o.Capture, "capture", "none", "`LEVEL` of content to send: none, digests or content")
	f.StringVar(&o.Redact, "redact", "",
		"redact content by the rules in this `FILE` (docs/redaction.md), or by the built-in set: default")
	f.StringVar(&o.Endpoint, "endpoint", "",
		"`URL` of the collector (default $OTEL_EXPORTER_OTLP_ENDPOINT, else this machine)")
	f.StringVar(&o.Protocol, "protocol", "", protocolHelp)
	f.BoolVar(&o.Live, "live", false, "send copies of open spans at once, and with each heartbeat")
	f.StringVar(&o.Config, "config", "", "YAML `FILE` with settings of the deployment (docs/sending.md)")
}

// load reads the file of --config, and names all its wrong keys and values.
func (o *sendOptions) load(wrong *wrongs) {
	if o.Config == "" {
		return
	}
	text, err := os.ReadFile(o.Config)
	if err != nil {
		wrong.addf("--config: %v", err)
		return
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	err = d.Decode(&o.tuning)
	var types *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF): // an empty file
	case errors.As(err, &types):
		for _, line := range types.Errors {
			line, _, _ = strings.Cut(line, " in type ")
			line = strings.TrimPrefix(strings.ReplaceAll(line, "field ", "key "), "line ")
			wrong.addf("--config: %s:%s", o.Config, line)
		}
	case err != nil:
		wrong.addf("--config: %s: %s", o.Config, strings.TrimPrefix(err.Error(), "yaml: "))
	}
}

var captureLevels = map[string]otelagent.Capture{
	"none": otelagent.CaptureNone, "digests": otelagent.CaptureDigests, "content": otelagent.CaptureContent,
}

// check completes the options from the shared flags and the configuration, and names everything that is wrong.
func (o *sendOptions) check(a *app) (err error) {
	o.Tenant = a.tenant
	var wrong wrongs
	o.DB, err = a.oneDatabase()
	wrong.note(err)
	wrong.oneOf("--capture", o.Capture, "none", "digests", "content")
	wrong.oneOf("--from", o.From, append([]string{auto}, dialects.Names()...)...)
	file := len(o.Files) > 0 && o.Files[0] != "-"
	wrong.when(o.Follow && (len(o.Files) != 1 || !file), "--follow wants one file")
	wrong.when(o.Now && (o.Follow || !file), "--now is for files that have ended")
	wrong.oneOf("--input-tokens", o.InputTokens, "includes-cache", "excludes-cache")
	wrong.oneOf("--protocol", o.Protocol, string(otelsetup.GRPC), string(otelsetup.HTTP))
	if o.DB != "" {
		_, err := locate("--db", o.DB)
		wrong.note(err)
	}
	wrong.when(o.DB != "" && o.Endpoint != "", "--db and --endpoint exclude each other")
	wrong.when(o.Replay && file, "--replay is for standard input; files are recordings anyway")
	scheme, _, ok := strings.Cut(o.Endpoint, "://")
	wrong.when(ok && scheme != "http" && scheme != "https",
		"--endpoint %s: want http://HOST:PORT or https://HOST:PORT", o.Endpoint)
	wrong.when(len(o.Files) > 1 && slices.Contains(o.Files, "-"),
		"- stands for standard input and cannot be mixed with files")
	wrong.when(o.Live && (o.Replay || file && !o.Follow), "%s", notLive)
	if o.Redact != "" {
		o.rules, err = redactfile.Load(o.Redact)
		wrong.when(err != nil, "--redact: %v", err)
	}
	o.load(&wrong)
	wrong.oneOf("metrics", o.Metrics, auto, metricsOn, metricsOff)
	wrong.when(o.Metrics == metricsOn && o.DB != "", "metrics on wants a collector: a database takes no metrics")
	var profiles []string
	for _, p := range spans.Profiles() {
		profiles = append(profiles, string(p))
	}
	wrong.oneOf("profile", o.Profile, profiles...)
	wrong.oneOf("span_names", o.SpanNames, "exact", "detailed")
	wrong.oneOf("block_scope", o.BlockScope, "session", "run")
	wrong.when(o.Heartbeat != 0 && o.Heartbeat < time.Second, "heartbeat %v: want 1s or more", o.Heartbeat)
	wrong.when(o.MaxBlockBytes < 0, "max_block_bytes %d: want 0 or more", o.MaxBlockBytes)
	if n := o.MaxSpanBytes; n != nil && (*n < 64<<10 || *n > 3<<20) {
		wrong.addf("max_span_bytes %d: want 65536 to 3145728", *n)
	}
	if n := o.PreviewBytes; n != nil && *n != 0 && *n < 320 {
		wrong.addf("preview_bytes %d: want 0, or 320 and more", *n)
	}
	for i, r := range o.CaptureFor {
		_, known := captureLevels[r.Capture]
		wrong.when(!known || (r.Agent == "") == (r.Session == ""),
			"capture_for[%d]: want agent or session, and capture: none, digests or content", i)
	}
	wrong.when(o.PartialOutput && o.Capture != string(spans.CaptureContent) && len(o.CaptureFor) == 0,
		"partial_output wants --capture content")
	return wrong.err()
}

const notLive = "--live is for an agent at work: a pipe, or one file with --follow"

// inputSettings are those of a decoder.
func (o *sendOptions) inputSettings(live bool) input.Settings {
	return input.Settings{Live: live, Session: o.Session, Agent: o.Agent, Provider: o.Provider,
		Rule: spans.UsageRule(strings.ReplaceAll(o.InputTokens, "-", "_"))}
}

// tracerOptions are the options of a tracer.
func (o *sendOptions) tracerOptions() []otelagent.Option {
	opts := []otelagent.Option{writer.WithDerivedIDs, func(c *writer.Config) {
		c.Capture, c.PerRun = captureLevels[o.Capture], o.BlockScope == "run"
		c.MaxBlockBytes = o.MaxBlockBytes
		c.Detailed, c.Profile = o.SpanNames == "detailed", spans.Profile(o.Profile)
		if n := o.PreviewBytes; n != nil {
			c.PreviewBytes = cmp.Or(*n, -1)
		}
		if n := o.MaxSpanBytes; n != nil {
			c.MaxSpanBytes = *n
		}
		if c.PartialEvery = 0; o.PartialOutput {
			c.PartialEvery = time.Second
		}
		if len(o.CaptureFor) > 0 {
			c.CaptureFor = o.captureFor
		}
	}}
	if o.rules != nil {
		opts = append(opts, otelagent.WithRedactor(o.rules))
	}
	return opts
}

// captureFor returns the level of a run. The first rule that matches counts.
func (o *sendOptions) captureFor(run writer.RunInfo) otelagent.Capture {
	for _, r := range o.CaptureFor {
		ofAgent := r.Agent != "" && (run.Agent == r.Agent || run.AgentID == r.Agent)
		if ofAgent || r.Session != "" && run.SessionID == r.Session {
			return captureLevels[r.Capture]
		}
	}
	return captureLevels[o.Capture]
}
