// Command otelagent records, keeps and shows agent sessions: a Collector with the agent_session exporter, a sender for
// the events of agent loops, and a viewer for what they became. `otelagent help` lists the verbs.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store/reader"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes. Scripts read them.
const (
	exitOK      = 0
	exitFailed  = 1 // not found, not whole, not delivered, could not start
	exitUsage   = 2
	exitPartial = 3          // files or lines were rejected, the rest was delivered
	exitTrouble = -exitUsage // diff: a failure exits like wrong usage, without a hint of the help
)

// exitError is an error that asks for an exit code. A nil Err prints nothing more.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.Err) }

func (e *exitError) Unwrap() error { return e.Err }

// usagef makes an error of wrong usage.
func usagef(format string, args ...any) error {
	return &exitError{Code: exitUsage, Err: fmt.Errorf(format, args...)}
}

// wrongs collects everything that is wrong with the flags of a verb.
type wrongs []string

func (w *wrongs) addf(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

// when adds a line where bad is true.
func (w *wrongs) when(bad bool, format string, args ...any) {
	if bad {
		w.addf(format, args...)
	}
}

// oneOf adds a line where a value that is given is none of those allowed.
func (w *wrongs) oneOf(name, value string, allowed ...string) {
	last := len(allowed) - 1
	w.when(value != "" && !slices.Contains(allowed, value), "%s %s: want %s or %s", name, value,
		strings.Join(allowed[:last], ", "), allowed[last])
}

func (w *wrongs) note(err error) {
	if err != nil {
		*w = append(*w, err.Error())
	}
}

// err is an error of usage, nil when nothing is wrong.
func (w wrongs) err() error {
	if len(w) == 0 {
		return nil
	}
	return usagef("%s", strings.Join(w, "\n"))
}

// app is what a verb needs from the process, and the flags that all verbs share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	dbs            []string // --db
	tenant, output string
}

// say writes a line of log. It may hold ids from outside, so control characters are replaced.
func (a *app) say(format string, args ...any) {
	var b strings.Builder
	for line := range strings.SplitSeq(fmt.Sprintf("otelagent: "+format, args...), "\n") {
		b.WriteString(inspect.Clean(plainText.Replace(line)) + "\n")
	}
	_, _ = io.WriteString(a.stderr, b.String()) // in one write: several goroutines log
}

// ask prints a question and reports whether the answer is yes, an empty answer being the one given. Ctrl-C is a no.
func (a *app) ask(question, empty string) bool {
	ctx, stop := untilInterrupted(context.Background())
	defer stop()
	fmt.Fprint(a.stderr, question)
	answer := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(a.stdin).ReadString('\n')
		if line = strings.TrimSpace(line); err == nil {
			line = cmp.Or(line, empty)
		} else {
			fmt.Fprintln(a.stderr)
		}
		answer <- strings.ToLower(line)
	}()
	select {
	case line := <-answer:
		return line == "y" || line == "yes"
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return false
	}
}

func (a *app) json() bool { return a.output == "json" }

// emit prints a document as JSON, or as the text that text writes.
func (a *app) emit(doc any, text func(io.Writer, inspect.Options) error) error {
	w := bufio.NewWriter(a.stdout)
	write := func() error { return text(w, look(a.stdout)) }
	if a.json() {
		write = func() error { return writeJSON(w, doc) }
	}
	return cmp.Or(write(), w.Flush())
}

// run is the program without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailed
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.Code
		if e.Err == nil {
			return code
		}
	} else if errors.Is(err, reader.ErrAddress) {
		code = exitUsage
	}
	a.say("%s", strings.TrimSpace(err.Error()))
	switch {
	case code == exitTrouble:
		code = exitUsage
	case code == exitUsage && cmd.Name() == "help":
		cmd = root // it lists the commands
		fallthrough
	case code == exitUsage:
		fmt.Fprintf(stderr, "Try '%s --help'.\n", cmd.CommandPath())
	}
	return code
}

// plainText takes the names of packages out of errors: nobody who types a command knows them.
var plainText = strings.NewReplacer("sqlitestore: ", "", "clickhousestore: ", "")

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:                   "otelagent COMMAND",
		DisableFlagsInUseLine: true,
		Short:                 "Record, keep and look at agent sessions",
		Long: `Record, keep and look at agent sessions.

An agent loop's events become OpenTelemetry spans, go through any collector, and
come back as the session they were: runs, turns, tool calls, compactions,
permissions, and what the model was sent.`,
		Example: `  otelagent demo                       see it all at work
  otelagent import                     read what coding agents left on this machine
  otelagent up                         keep what arrives over OTLP
  my-agent | otelagent send -          send an agent's events
  otelagent ls                         list sessions
  otelagent show last                  the newest session as a tree
  otelagent request last/0             what the model was sent on its turn 0`,
		Args:                       knownCommand,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		Version: fmt.Sprintf("%s (collector %s, %s, %s/%s)", versionText(), collectorVersion, runtime.Version(),
			runtime.GOOS, runtime.GOARCH),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &exitError{Code: exitUsage}
		},
	}
	root.SetVersionTemplate("otelagent {{.Version}}\n")
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	f := root.PersistentFlags()
	f.StringArrayVar(&a.dbs, "db", nil, "database `DSN`: "+databaseHelp+"; verbs that read also take a FILE of events, "+
		"repeated for several, or - (default $"+envDB+", else a file per user; send and acp: a collector)")
	f.StringVar(&a.tenant, "tenant", "", "`OWNER` of the sessions, where a database holds those of several")
	f.StringVar(&a.output, "output", "text", "`FORM` of what is printed: text or json")
	wanted := map[string]string{"uint": "a number from 0", "int64": "a number", "bool": "true or false",
		"duration": "how long, such as 90s or 5m"}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok { // it is about Go's parser
			err = fmt.Errorf("--%s %s: want %s", bad.GetFlag().Name, bad.GetValue(), wanted[bad.GetFlag().Value.Type()])
		}
		return usagef("%w", err)
	})
	root.SetUsageTemplate(strings.NewReplacer(
		".FlagUsages ", ".FlagUsagesWrapped 80 ",
		"\n  {{.CommandPath}} [command]", "{{if .HasParent}}\n  {{.CommandPath}} COMMAND{{end}}",
		"{{.CommandPath}} [command] --help", "{{.CommandPath}} COMMAND --help",
	).Replace(root.UsageTemplate()))
	root.AddCommand(a.upCommand(), a.importCommand(), a.sendCommand(), a.acpCommand(), a.lsCommand(), a.showCommand(),
		a.statusCommand(), a.requestCommand(), a.grepCommand(), a.diffCommand(), a.exportCommand(), a.rmCommand(),
		a.pruneCommand(), a.copyCommand(), a.statsCommand(), a.demoCommand())
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		names := c.Annotations[refused]
		if c.Name() == "help" || strings.Contains(c.CommandPath(), " completion") {
			names = "db tenant output"
		}
		for name := range strings.FieldsSeq(names) {
			f.Lookup(name).Hidden = true
		}
		help(c, args)
	})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range append(root.Commands(), root) {
		if c.Name() == "completion" { // cobra prints help for a shell that it does not know, and no error
			c.Args, c.RunE = knownCommand, root.RunE
		}
		if c.Name() == "help" {
			c.Args = func(_ *cobra.Command, args []string) error {
				if sub, _, _ := root.Find(args); sub != root {
					return nil
				}
				return knownCommand(root, args)
			}
		}
		a.asUsage(c)
	}
	return root
}

// knownCommand refuses unknown verbs, and names those with a similar name.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(like, " or "))
	}
	return err
}

// noArgs refuses arguments of a verb that takes flags only.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, only flags: %q", cmd.Name(), args[0])
	}
	return nil
}

// wants takes from least to most arguments; format says what they are, and has the number that was given.
func wants(least, most int, format string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf(format, len(args))
		}
		return nil
	}
}

// refused is the annotation of a verb that names the shared flags which it does not take.
const refused = "otelagent_refused"

func refuses(flags string) map[string]string { return map[string]string{refused: flags} }

// asUsage makes wrong arguments an error of usage, as wrong flags are, and checks the flags that all verbs share.
func (a *app) asUsage(c *cobra.Command) {
	check := c.Args
	if check == nil {
		check = cobra.ArbitraryArgs
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		given := args
		if n := cmd.ArgsLenAtDash(); n >= 0 {
			given = args[:n]
		}
		if slices.Contains(given, "") && c.Name() != "acp" { // as "$SESSION" is where the variable is not set
			return usagef("an argument is given, but empty")
		}
		if err := check(cmd, args); err != nil {
			return usagef("%w", err)
		}
		return a.checkFlags(cmd)
	}
}

// mayBeEmpty are flags for which an empty text is a value.
var mayBeEmpty = []string{"tenant", "session", "agent", "provider"}

// checkFlags refuses flags with an empty value, as --redact "$RULES" is where the variable is not set, and shared flags
// that the verb does not take.
func (a *app) checkFlags(c *cobra.Command) error {
	var wrong wrongs
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(list.GetSlice(), "")
		}
		wrong.when(empty && !slices.Contains(mayBeEmpty, f.Name), "--%s is given, but empty", f.Name)
		wrong.when(slices.Contains(strings.Fields(c.Annotations[refused]), f.Name), "%s takes no --%s", c.Name(), f.Name)
	})
	wrong.oneOf("--output", a.output, "text", "json")
	return wrong.err()
}

// version is set by -ldflags "-X main.version=v1.2.3" in releases.
var version = ""

// versionText is the version, or what the build knows of the source.
func versionText() string {
	v := version
	if info, ok := debug.ReadBuildInfo(); ok {
		v = cmp.Or(v, info.Main.Version)
	}
	return strings.Trim(cmp.Or(v, "devel"), "()")
}

func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// untilInterrupted returns a context that ends with Ctrl-C or SIGTERM; a second signal ends the process.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// interrupted returns err, or, where Ctrl-C is its cause, that alone and a hint.
func interrupted(err error, hint string) error {
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted" + hint)
	}
	return err
}
