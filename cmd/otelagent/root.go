package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store/reader"
)

// Exit codes. They are part of what a user gets: scripts read them.
const (
	exitOK      = 0
	exitFailed  = 1 // not found, not whole, not delivered, could not start
	exitUsage   = 2
	exitPartial = 3 // send: lines were rejected, the rest was delivered
)

// exitError is an error that asks for an exit code. A nil Err prints nothing more.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

// usagef makes an error of wrong usage.
func usagef(format string, args ...any) error {
	return &exitError{Code: exitUsage, Err: fmt.Errorf(format, args...)}
}

// app is what a verb needs from the process.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// say writes about what goes on. What it says may hold ids from outside, so no line holds control characters.
func (a *app) say(format string, args ...any) {
	var b strings.Builder
	for line := range strings.SplitSeq(fmt.Sprintf("otelagent: "+format, args...), "\n") {
		b.WriteString(inspect.Clean(line) + "\n")
	}
	_, _ = io.WriteString(a.stderr, b.String()) // at once: several goroutines talk
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
	var e *exitError
	if errors.As(err, &e) {
		code = e.Code
		if e.Err == nil {
			return code
		}
	}
	if errors.Is(err, reader.ErrAddress) {
		code = exitUsage
	}
	a.say("%s", plainText.Replace(strings.TrimSpace(err.Error())))
	if code == exitUsage {
		if cmd.Name() == "help" {
			cmd = root // whose commands it lists
		}
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
  otelagent up                         keep what arrives over OTLP
  my-agent | otelagent send -          send an agent's events
  otelagent ls                         what is there
  otelagent show last                  the newest session as a tree
  otelagent request last/0             what the model was sent on its turn 0`,
		Args:                       knownCommand,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		CompletionOptions:          cobra.CompletionOptions{HiddenDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return &exitError{Code: exitUsage}
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		var bad *pflag.InvalidValueError
		if errors.As(err, &bad) { // it is about Go's parser
			return usagef("--%s %s: want %s", bad.GetFlag().Name, bad.GetValue(),
				map[string]string{"int": "a number", "int64": "a number", "bool": "true or false",
					"duration": "how long, such as 90s or 5m"}[bad.GetFlag().Value.Type()])
		}
		return usagef("%w", err)
	})
	addTemplateFuncs()
	root.SetUsageTemplate(strings.NewReplacer(
		"Flags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{flagGroups .}}",
		".FlagUsages ", ".FlagUsagesWrapped 80 ",
		"\n  {{.CommandPath}} [command]", "", // the use line of the root says so
		"{{.CommandPath}} [command] --help", "{{.CommandPath}} COMMAND --help",
	).Replace(root.UsageTemplate()))
	root.AddCommand(a.upCommand(), a.serveCommand(), a.sendCommand(), a.acpCommand(), a.lsCommand(), a.showCommand(),
		a.statusCommand(), a.requestCommand(), a.grepCommand(), a.diffCommand(), a.replayCommand(), a.exportCommand(),
		a.rmCommand(), a.copyCommand(), a.statsCommand(), a.demoCommand(), a.versionCommand())
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = func(_ *cobra.Command, args []string) error {
				if sub, _, _ := root.Find(args); sub != root {
					return nil
				}
				return knownCommand(root, args)
			}
		}
		asUsage(c)
	}
	asUsage(root)
	return root
}

// addTemplateFuncs registers functions with cobra, once: it keeps them for the whole process.
var addTemplateFuncs = sync.OnceFunc(func() { cobra.AddTemplateFunc("flagGroups", flagGroups) })

// flagGroup is the annotation of a flag that stands in a group of its own in help.
const flagGroup = "otelagent_group"

// addGroup adds flags to c that stand under a title in its help.
func addGroup(c *cobra.Command, title string, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) { f.Annotations = map[string][]string{flagGroup: {title}} })
	c.Flags().AddFlagSet(flags)
}

// flagGroups returns the flags of a verb for its help: those of no group first, then each group under its title.
func flagGroups(c *cobra.Command) string {
	groups := map[string]*pflag.FlagSet{}
	titles := []string{"Flags"}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		title := titles[0]
		if g := f.Annotations[flagGroup]; len(g) > 0 {
			title = g[0]
		}
		if groups[title] == nil {
			groups[title] = pflag.NewFlagSet("", pflag.ContinueOnError)
			if title != titles[0] {
				titles = append(titles, title)
			}
		}
		groups[title].AddFlag(f)
	})
	slices.Sort(titles[1:])
	var b strings.Builder
	for _, title := range titles {
		if g := groups[title]; g != nil {
			b.WriteString("\n" + title + ":\n" + g.FlagUsagesWrapped(80))
		}
	}
	return strings.Trim(b.String(), "\n")
}

// knownCommand refuses what is no verb, and names those that it may be meant for.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		return fmt.Errorf("unknown command %q: did you mean %s?", args[0], strings.Join(like, " or "))
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// noArgs refuses arguments of a verb that takes flags only.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, only flags: %q", cmd.Name(), args[0])
	}
	return nil
}

// oneSession wants the one argument of the verbs that look at a session.
func oneSession(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s wants one SESSION: an id, the beginning of one, or 'last'; %d given", cmd.Name(), len(args))
	}
	return nil
}

// asUsage makes wrong arguments a matter of usage, as wrong flags are.
func asUsage(c *cobra.Command) {
	check := c.Args
	c.Args = func(cmd *cobra.Command, args []string) error {
		if check != nil {
			if err := check(cmd, args); err != nil {
				return usagef("%w", err)
			}
		}
		return noneEmpty(cmd)
	}
}

// mayBeEmpty are flags for which nothing is a value: the owner that has no name, and what an input does not say.
var mayBeEmpty = []string{"tenant", "session", "agent", "provider"}

// noneEmpty refuses flags that are given nothing, as --redact "$RULES" is where the variable is not set: what they were
// to do would be left out without a word.
func noneEmpty(c *cobra.Command) error {
	var wrong []string
	c.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && !slices.Contains(mayBeEmpty, f.Name) {
			wrong = append(wrong, fmt.Sprintf("--%s is given, but empty", f.Name))
		}
	})
	if len(wrong) > 0 {
		return usagef("%s", strings.Join(wrong, "\n"))
	}
	return nil
}
