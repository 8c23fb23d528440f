package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/web"
)

// envToken names the variable that holds the token that readers must show.
const envToken = "OTELAGENT_TOKEN"

// viewerOptions say where the viewer listens, and who may read.
type viewerOptions struct {
	addr, tokenFile string
	jaeger, tempo   string
}

func (o *viewerOptions) add(c *cobra.Command) {
	c.Flags().StringVar(&o.addr, "viewer", web.DefaultAddr, "`ADDRESS` of the viewer for a browser, or off")
	c.Flags().StringVar(&o.jaeger, "link-jaeger", "",
		"`TEMPLATE` of links to Jaeger: http://127.0.0.1:16686/trace/{trace}")
	c.Flags().StringVar(&o.tempo, "link-tempo", "",
		"`TEMPLATE` of links to Tempo or Grafana, with {trace} and, if wanted, {span} in it")
	c.Flags().StringVar(&o.tokenFile, "token-file", "", "`FILE` with the token that readers must send (default "+
		"$"+envToken+"); required where other machines reach the address")
}

// viewerOff in place of an address switches the viewer off.
const viewerOff = "off"

// check names everything that is wrong with the flags.
func (o *viewerOptions) check(wrong *wrongs) {
	if o.addr == viewerOff {
		return
	}
	wrong.address("--viewer", o.addr, web.DefaultAddr)
	for _, l := range [][2]string{{"--link-jaeger", o.jaeger}, {"--link-tempo", o.tempo}} {
		if err := web.CheckLink(l[1]); l[1] != "" && err != nil {
			wrong.addf("%s: %v", l[0], err)
		}
	}
}

// token returns the token that readers must send; empty for none.
func (o *viewerOptions) token(a *app) (string, error) {
	const least = 16 // characters, so that nobody guesses it
	token, from := os.Getenv(envToken), "$"+envToken
	if o.tokenFile != "" {
		text, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return "", err
		}
		if token, from = string(bytes.TrimSpace(text)), o.tokenFile; token == "" {
			return "", fmt.Errorf("%s is empty, want a token", from)
		}
		if at, err := os.Stat(from); err == nil && at.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			a.say("other users can read the token in %s: 'chmod 600' it", from)
		}
	}
	if token != "" && len(token) < least {
		return "", fmt.Errorf("the token of %s is too short: want at least %d characters, such as those of 'openssl rand "+
			"-hex 16'", from, least)
	}
	return token, nil
}

// open listens, and returns the address for a browser and what serves it until ctx ends. Where the viewer listens on
// every address, that is the loopback one. Browsers may use the name of a host in --viewer.
func (o *viewerOptions) open(ctx context.Context, a *app, db *database, fixed bool) (
	url string, serve func() error, err error) {
	token, err := o.token(a)
	if err != nil {
		return "", nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%s is already in use, perhaps by another viewer; choose another address: %w", o.addr,
			syscall.EADDRINUSE)
	}
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			_ = l.Close()
		}
	}()
	if web.NeedsToken(l.Addr()) && token == "" {
		return "", nil, fmt.Errorf("other machines reach %s, and whoever reaches it reads every session: "+
			"give a token with --token-file or $%s (docs/security.md)", o.addr, envToken)
	}
	vo := web.Options{
		Store: db.Store, Name: db.at.name, Version: versionText(), Tenant: db.Tenant, Fixed: fixed, Refresh: db.refresh,
		Token: token, Links: map[string]string{"jaeger": o.jaeger, "tempo": o.tempo},
		Log: func(line string) { a.say("viewer: %s", line) },
	}
	maps.DeleteFunc(vo.Links, func(_, link string) bool { return link == "" })
	if host, _, err := net.SplitHostPort(o.addr); err == nil && host != "" && net.ParseIP(host) == nil {
		vo.Hosts = []string{host}
	}
	h, err := web.New(vo)
	if err != nil {
		return "", nil, err
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/", func() error { return h.Serve(ctx, l) }, err
}
