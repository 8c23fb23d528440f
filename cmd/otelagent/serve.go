package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/web"
)

// envToken names the variable that holds the token that readers must show.
const envToken = "OTELAGENT_TOKEN"

// viewerOptions say where sessions can be looked at with a browser.
type viewerOptions struct {
	addr, tokenFile string
	jaeger, tempo   string
}

func (o *viewerOptions) add(c *cobra.Command) {
	c.Flags().StringVar(&o.jaeger, "link-jaeger", "",
		"`template` of links to Jaeger: http://127.0.0.1:16686/trace/{trace}")
	c.Flags().StringVar(&o.tempo, "link-tempo", "",
		"`template` of links to Tempo or Grafana, with {trace} and, if wanted, {span} in it")
	c.Flags().StringVar(&o.tokenFile, "token-file", "", "`file` with the token that readers must show (default "+
		"$"+envToken+"); needed where others than this machine reach the address")
}

// check names everything that is wrong with the flags.
func (o *viewerOptions) check(flag string) error {
	var wrong []string
	if _, err := net.ResolveTCPAddr("tcp", o.addr); err != nil {
		wrong = append(wrong, fmt.Sprintf("%s %s: want HOST:PORT, such as %s (%v)", flag, o.addr, web.DefaultAddr, err))
	}
	for _, l := range [][2]string{{"--link-jaeger", o.jaeger}, {"--link-tempo", o.tempo}} {
		if err := web.CheckLink(l[1]); l[1] != "" && err != nil {
			wrong = append(wrong, l[0]+": "+err.Error())
		}
	}
	if len(wrong) > 0 {
		return usagef("%s", strings.Join(wrong, "\n"))
	}
	return nil
}

// token returns what readers must show; empty for nothing.
func (o *viewerOptions) token() (string, error) {
	const least = 16 // characters, so that nobody guesses it
	token := os.Getenv(envToken)
	from := "$" + envToken
	if o.tokenFile != "" {
		text, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return "", err
		}
		if token, from = string(bytes.TrimSpace(text)), o.tokenFile; token == "" {
			return "", fmt.Errorf("%s is empty, want a token", from)
		}
	}
	if token != "" && len(token) < least {
		return "", fmt.Errorf("the token of %s is too short: want at least %d characters, such as those of 'openssl rand "+
			"-hex 16'", from, least)
	}
	return token, nil
}

// open listens and makes what answers. The address is taken as it is given: a name in it is one that browsers may use.
func (o *viewerOptions) open(ctx context.Context, a *app, db *database, fixed bool) (*viewing, error) {
	token, err := o.token()
	if err != nil {
		return nil, err
	}
	if at, err := os.Stat(o.tokenFile); err == nil && at.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		a.say("other users can read the token in %s: 'chmod 600' it", o.tokenFile)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.addr)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("%s is already in use, perhaps by another viewer; choose another address: %w", o.addr,
				syscall.EADDRINUSE)
		}
		return nil, err
	}
	if web.NeedsToken(l.Addr()) && token == "" {
		_ = l.Close()
		return nil, fmt.Errorf("%s is reached by others than this machine, and whoever reaches it reads every session: "+
			"give a token with --token-file or $%s (docs/security.md)", o.addr, envToken)
	}
	vo := web.Options{
		Store: db.store, Name: db.at.name, Version: versionText(), Tenant: db.tenant, Fixed: fixed, Refresh: db.refresh,
		Token: token, Links: map[string]string{},
		Log: func(line string) { a.say("viewer: %s", line) },
	}
	if host, _, err := net.SplitHostPort(o.addr); err == nil && host != "" && net.ParseIP(host) == nil {
		vo.Hosts = []string{host}
	}
	for name, link := range map[string]string{"jaeger": o.jaeger, "tempo": o.tempo} {
		if link != "" {
			vo.Links[name] = link
		}
	}
	h, err := web.New(vo)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return &viewing{l, h}, nil
}

// viewing is a viewer that listens.
type viewing struct {
	listener net.Listener
	handler  *web.Handler
}

// url is what people open. Where it listens on every address that is the one of this machine.
func (v *viewing) url() string {
	addr := v.listener.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return fmt.Sprintf("http://%s/", net.JoinHostPort(host, fmt.Sprint(addr.Port)))
}

func (a *app) serveCommand() *cobra.Command {
	var f dbFlags
	var o viewerOptions
	c := &cobra.Command{
		Use:   "serve",
		Short: "Look at sessions with a browser",
		Long: `Look at sessions with a browser: the list, each session with its timeline and
conversation, what the model was sent on every turn, what differs between two
sessions, and statistics. Beneath it is a read-only API with the same JSON as
the other verbs (docs/api.md).

It listens on loopback only unless told otherwise, and then every reader must
show a token: open the address with ?token=TOKEN once, or send it as
Authorization: Bearer TOKEN (docs/security.md). Nothing is written to the
database but summaries that are behind. Ctrl-C or SIGTERM stops it.

'otelagent up' has the same pages for what it keeps.`,
		Example: `  otelagent serve
  otelagent serve --db ./sessions.db --addr 127.0.0.1:9000
  otelagent serve --link-jaeger 'http://127.0.0.1:16686/trace/{trace}'
  OTELAGENT_TOKEN=$(openssl rand -hex 16) otelagent serve --addr 0.0.0.0:8321`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check("--addr"); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			db, err := f.open(ctx, a)
			if err != nil {
				return err
			}
			defer db.close()
			v, err := o.open(ctx, a, db, cmd.Flags().Changed("tenant"))
			if err != nil {
				return err
			}
			a.say("sessions of %s on %s", db.at.name, v.url())
			a.say("ready; Ctrl-C stops")
			return v.handler.Serve(ctx, v.listener)
		},
	}
	f.addDatabase(c)
	c.Flags().StringVar(&o.addr, "addr", web.DefaultAddr, "`address` to listen on")
	o.add(c)
	return c
}
