package export

import (
	"cmp"
	"path"

	"github.com/otelagent/otelagent/backend/session"
)

// begin writes what a connection begins with.
func (t *trace) begin() error {
	s := t.g.s
	at := s.Start
	if len(s.Runs) > 0 && s.Runs[0].Start.Before(at) {
		at = s.Runs[0].Start // it was taken over from another session
	}
	var first *session.Fact
	opens := false
	for _, f := range t.facts {
		if at.IsZero() || f.At.Before(at) {
			at = f.At
		}
		if f.Key == "acp.initialize" && first == nil {
			first = f
		}
		switch f.Key {
		case "acp.session/new", "acp.session/load", "acp.session/resume":
			if v, err := t.g.fact(f); err != nil {
				return err
			} else if find(members(v), "result") != nil && (len(s.Runs) == 0 || !f.At.After(s.Runs[0].Start)) {
				opens = true
			}
		}
	}
	var params, result []byte
	if first != nil {
		v, err := t.g.fact(first)
		if err != nil {
			return err
		}
		o := members(v)
		params, result = find(o, "params"), find(o, "result")
		if params != nil && result != nil {
			at, t.opened = first.At, v
		}
	}
	if params == nil || result == nil {
		params, result = t.capabilities()
	}
	t.write(&wire{at: at, dir: toAgent, method: "initialize", params: t.mark(params), reply: "initialize"})
	t.write(&wire{at: at, dir: toClient, result: result, reply: "initialize"})
	if opens {
		return nil
	}
	if err := t.findCWD(); err != nil {
		return err
	}
	var p, r object
	p.str("cwd", t.cwd)
	p.raw("mcpServers", []byte("[]"))
	r.str("sessionId", s.ID)
	t.write(&wire{at: at, dir: toAgent, method: "session/new", params: p.bytes(), reply: "session/new"})
	t.write(&wire{at: at, dir: toClient, result: r.bytes(), reply: "session/new"})
	return nil
}

// capabilities are what the two sides would have had to say of themselves for the messages that follow.
func (t *trace) capabilities() (params, result []byte) {
	var p, client, fs, of, r, agent, prompts, info object
	fs.bool("readTextFile", t.fromACP)
	fs.bool("writeTextFile", t.fromACP)
	client.raw("fs", fs.bytes())
	client.bool("terminal", t.fromACP)
	if t.fromACP || len(t.byID) > 0 {
		of.raw("compaction", []byte("{}"))
		if t.fromACP {
			of.raw("notices", []byte("{}"))
		}
		client.raw("session", of.bytes())
	}
	info.str("name", cmp.Or(sessionAgent(t.g.s), "unknown"))
	info.str("version", "0")
	agentInfo, clientInfo := info.bytes(), []byte(nil)
	for _, run := range t.g.s.Runs {
		if config := members([]byte(run.Config)); run.Dialect == acpDialect && config != nil {
			clientInfo = find(config, "clientInfo")
			if v := find(config, "agentInfo"); v != nil {
				agentInfo = v
			}
			break
		}
	}
	p.int("protocolVersion", 1)
	p.raw("clientCapabilities", client.bytes())
	if clientInfo != nil {
		p.raw("clientInfo", clientInfo)
	}
	for _, what := range []string{"image", "audio", "embeddedContext"} {
		prompts.bool(what, true)
	}
	agent.bool("loadSession", t.fromACP)
	agent.raw("promptCapabilities", prompts.bytes())
	r.int("protocolVersion", 1)
	r.raw("agentCapabilities", agent.bytes())
	r.raw("agentInfo", agentInfo)
	r.raw("authMethods", []byte("[]"))
	return p.bytes(), r.bytes()
}

// mark says in the _meta of params that the trace is a reconstruction.
func (t *trace) mark(params []byte) []byte {
	s := t.g.s
	var o, meta, own object
	own.bool("reconstructed", true)
	own.int("format", 1)
	own.str("session", s.ID)
	own.notEmpty("dialect", s.Dialect)
	for _, m := range members(params) {
		if m.key != "_meta" {
			o.raw(m.key, m.value)
			continue
		}
		for _, m := range members(m.value) {
			if m.key != extensionKey {
				meta.raw(m.key, m.value)
			}
		}
	}
	meta.raw(extensionKey, own.bytes())
	o.raw("_meta", meta.bytes())
	return o.bytes()
}

// findCWD finds the folder that the session was about, "/" where that is not known.
func (t *trace) findCWD() error {
	t.cwd = "/"
	row, err := t.g.fact(t.g.s.Fact("session", factRow))
	if err != nil {
		return err
	}
	if root := columns(members(row)).text("workspace_root"); path.IsAbs(root) {
		t.cwd = root
		return nil
	}
	for _, r := range t.g.s.Runs {
		config := columns(members([]byte(r.Config)))
		if cwd := cmp.Or(config.text("workspace_root"), config.text("cwd")); path.IsAbs(cwd) {
			t.cwd = cwd
			return nil
		}
	}
	return nil
}
