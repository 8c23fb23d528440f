package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// check names everything that is wrong with the flags.
func (o *sendOptions) check() error {
	wrong := o.Capture.wrong()
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if _, known := dialects.Named(o.From); !known && o.From != auto {
		add("--from %s: want %s or %s", o.From, auto, strings.Join(dialects.Names(), ", "))
	}
	if o.Follow && (len(o.Files) != 1 || o.Files[0] == "-") {
		add("--follow wants one file")
	}
	if o.Now && (o.Follow || len(o.Files) == 0 || o.Files[0] == "-") {
		add("--now is for files that have ended")
	}
	wrong = append(wrong, o.wrongLack()...)
	switch otelsetup.Protocol(o.Protocol) {
	case "", otelsetup.GRPC, otelsetup.HTTP:
	default:
		add("--protocol %s: want %s or %s", o.Protocol, otelsetup.GRPC, otelsetup.HTTP)
	}
	if o.DB != "" {
		if _, err := locate("--db", o.DB); err != nil {
			add("%v", err)
		}
	}
	switch o.Metrics {
	case "", metricsAuto, metricsOff:
	case metricsOn:
		if o.DB != "" {
			add("--metrics on wants a collector: a database takes no metrics")
		}
	default:
		add("--metrics %s: want %s, %s or %s", o.Metrics, metricsAuto, metricsOn, metricsOff)
	}
	if o.Profile != "" && !spans.Profile(o.Profile).Known() {
		add("--profile %s: want one of %s", o.Profile, profileNames())
	}
	if o.Names != "" && o.Names != namesExact && o.Names != namesDetailed {
		add("--span-names %s: want %s or %s", o.Names, namesExact, namesDetailed)
	}
	wrong = append(wrong, o.wrongLive()...)
	if o.DB != "" && o.Endpoint != "" {
		add("--db and --endpoint exclude each other")
	}
	if o.Replay && len(o.Files) > 0 && o.Files[0] != "-" {
		add("--replay is for standard input; files are recordings anyway")
	}
	if scheme, _, ok := strings.Cut(o.Endpoint, "://"); ok && scheme != "http" && scheme != "https" {
		add("--endpoint %s: want http://HOST:PORT or https://HOST:PORT", o.Endpoint)
	}
	if len(o.Files) > 1 && slices.Contains(o.Files, "-") {
		add("- stands for standard input and cannot be mixed with files")
	}
	if len(wrong) > 0 {
		return usagef("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// targetFlags adds the flags for where spans go.
func (o *sendOptions) targetFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Endpoint, "endpoint", "",
		"`URL` of the collector (default $OTEL_EXPORTER_OTLP_ENDPOINT, else this machine)")
	c.Flags().StringVar(&o.Protocol, "protocol", "",
		"`protocol`: grpc or http/protobuf (default $OTEL_EXPORTER_OTLP_PROTOCOL, else grpc)")
	c.Flags().StringVar(&o.DB, "db", "", "database `DSN` to write to instead, without a collector: "+databaseHelp)
	c.Flags().StringVar(&o.Tenant, "tenant", "", "`owner` of the sessions")
	c.Flags().StringVar(&o.Names, "span-names", namesExact, "`form` of span names: "+namesExact+" (tool.call) or "+
		namesDetailed+" (tool.call bash), for tracing backends")
}

// The values of --span-names.
const (
	namesExact    = "exact"
	namesDetailed = "detailed"
)

// liveFlags adds the flags for what is sent of an agent at work before its spans end.
func (o *sendOptions) liveFlags(c *cobra.Command) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.BoolVar(&o.Live, "live", false, "show the session as it runs: copies of what is open leave at once")
	f.DurationVar(&o.Heartbeat, "heartbeat", otelsetup.DefaultHeartbeat,
		"with --live, the `interval` at which they leave again, to say that the agent is there")
	f.BoolVar(&o.Partial, "partial-output", false,
		"keep the last 64 KiB of a reply as it comes in; wants --capture content")
	addGroup(c, "Flags for an agent at work", f)
}

func (o *sendOptions) wrongLive() (wrong []string) {
	switch {
	case !o.Live && o.Heartbeat != 0 && o.Heartbeat != otelsetup.DefaultHeartbeat:
		wrong = append(wrong, "--heartbeat is for --live")
	case o.Live && o.Heartbeat != 0 && o.Heartbeat < time.Second:
		wrong = append(wrong, fmt.Sprintf("--heartbeat %v: want 1s or more", o.Heartbeat))
	}
	if o.Live && (o.Replay || len(o.Files) > 0 && o.Files[0] != "-" && !o.Follow) {
		wrong = append(wrong, notLive)
	}
	if o.Partial && o.Capture.Level != string(spans.CaptureContent) && len(o.Capture.For) == 0 {
		wrong = append(wrong, "--partial-output wants --capture content")
	}
	return wrong
}

const notLive = "--live is for an agent at work: a pipe, or one file with --follow"

// live says for the tracer and for what is behind it what is sent of open spans.
func (o *sendOptions) live() (setup []otelsetup.Option, tracer func(*otelsetup.Providers) []otelagent.Option) {
	if o.Live {
		setup = append(setup, otelsetup.WithLive(o.Heartbeat))
	}
	return setup, func(p *otelsetup.Providers) (opts []otelagent.Option) {
		if o.Partial {
			opts = append(opts, func(c *writer.Config) { c.PartialEvery = time.Second })
		}
		return append(opts, otelagent.WithLive(p.Live()))
	}
}

// The values of --metrics.
const (
	metricsAuto = "auto"
	metricsOn   = "on"
	metricsOff  = "off"
)

func (o *sendOptions) metricsFlag(c *cobra.Command, values string) {
	c.Flags().StringVar(&o.Metrics, "metrics", metricsAuto, "`when` to send metrics as well: "+values)
	c.Flags().StringVar(&o.Profile, "profile", string(spans.DefaultProfile),
		"dated `state` of OpenTelemetry's GenAI names to write: "+profileNames())
}

func profileNames() string {
	var names []string
	for _, p := range spans.Profiles() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// metrics says for the recorder and for what is behind it which metrics there are.
func (o *sendOptions) metrics(live bool) ([]event.Option, []otelsetup.Option) {
	switch {
	case o.Metrics == metricsOn:
		return []event.Option{event.WithReplayMetrics()}, nil
	case o.Metrics == metricsOff || !live || o.DB != "":
		return nil, []otelsetup.Option{otelsetup.WithoutMetrics()}
	}
	return nil, nil
}

// metricsError is why metrics were not delivered that were asked for. Others are sent where they are taken.
func (o *sendOptions) metricsError(p *otelsetup.Providers) error {
	switch {
	case o.Metrics != metricsOn:
		return nil
	case !p.HasMetrics():
		return errors.New("--metrics " + metricsOn +
			": there are none; the environment switches them off (OTEL_METRICS_EXPORTER, OTEL_SDK_DISABLED), " +
			"names no protocol that is known, or says where spans go and not where metrics do " +
			"(OTEL_EXPORTER_OTLP_METRICS_ENDPOINT)")
	}
	return p.MetricsError()
}

// lackFlags adds the flags for what a wire lacks.
func (o *sendOptions) lackFlags(c *cobra.Command) {
	c.Flags().StringVar(&o.Session, "session", "", "`id` of the session, where the input names none")
	c.Flags().StringVar(&o.Agent, "agent", "", "`name` of the agent, where the input names none")
	c.Flags().StringVar(&o.Provider, "provider", "", "`name` of the provider, where the input names none")
	c.Flags().StringVar(&o.InputTokens, "input-tokens", "",
		"`rule` for reported input tokens, where the input does not tell: "+includesCache+" or "+excludesCache)
}

// The values of --input-tokens.
const (
	includesCache = "includes-cache"
	excludesCache = "excludes-cache"
)

func (o *sendOptions) wrongLack() []string {
	switch o.InputTokens {
	case "", includesCache, excludesCache:
		return nil
	}
	return []string{fmt.Sprintf("--input-tokens %s: want %s or %s", o.InputTokens, includesCache, excludesCache)}
}

// inputOptions are the options of a decoder.
func (o *sendOptions) inputOptions(live bool) []input.Option {
	opts := []input.Option{input.WithSession(o.Session), input.WithAgent(o.Agent), input.WithProvider(o.Provider)}
	switch o.InputTokens {
	case includesCache:
		opts = append(opts, input.WithUsageRule(spans.UsageRuleIncludesCache))
	case excludesCache:
		opts = append(opts, input.WithUsageRule(spans.UsageRuleExcludesCache))
	}
	if live {
		opts = append(opts, input.WithLive())
	}
	return opts
}
