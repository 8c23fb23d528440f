package acp

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// method is what the package knows of a method.
type method struct {
	shape string // of params
	take  func(*Decoder, *frame, *pending)
}

const inSession = "sessionId! " // begins the shape of params that must name a session

// methods are those of version 1 that the package reads, of the released protocol and of SDK 2.4.0.
var methods = map[string]method{
	mInitialize:                 {"", (*Decoder).initialize},
	mNew:                        {"", (*Decoder).change},
	mFork:                       {"", (*Decoder).change},
	mLoad:                       {inSession, (*Decoder).change},
	"session/resume":            {inSession, (*Decoder).change},
	mClose:                      {inSession, (*Decoder).change},
	"session/set_mode":          {inSession, (*Decoder).change},
	"session/set_model":         {inSession, (*Decoder).change},
	"session/set_config_option": {inSession, (*Decoder).change},
	"session/list":              {"", (*Decoder).unknown},
	"session/cancel":            {inSession, (*Decoder).unknown},
	mPrompt:                     {inSession + "prompt:array! messageId _meta:object", (*Decoder).prompt},
	mUpdate:                     {inSession + "update:object!", (*Decoder).update},
	mPermission:                 {inSession + "toolCall:object! options:array!", (*Decoder).permission},
	"fs/read_text_file":         {inSession + "path!", (*Decoder).work},
	"fs/write_text_file":        {inSession + "path!", (*Decoder).work},
	mTermCreate:                 {inSession + "command!", (*Decoder).work},
	"terminal/output":           {inSession + "terminalId!", (*Decoder).work},
	"terminal/wait_for_exit":    {inSession + "terminalId!", (*Decoder).work},
	"terminal/kill":             {inSession + "terminalId!", (*Decoder).work},
	"terminal/release":          {inSession + "terminalId!", (*Decoder).work},
	"elicitation/create":        {"", (*Decoder).elicit},
}

// pending is a request without a response.
type pending struct {
	dir        Direction
	id, method string // the id as it is spelled
	s          *session
	run        *run                // the prompt that it is, or whose end ends the request
	then       func(f *frame)      // takes the response; nil for one that is only kept
	end        func(at event.Meta) // ends a permission request, also without a response
	held       int                 // bytes
}

// request takes a request or notification.
func (d *Decoder) request(f *frame) {
	m, known := methods[f.method]
	if m.shape != "" {
		f.o.Require("params")
	}
	if f.in = loose(f.params); known {
		f.in = f.o.Object("params")
	} else {
		m.take = (*Decoder).unknown
	}
	name := f.in.String("sessionId")
	if !f.in.Has("sessionId") && d.Settings.Session != "" {
		name, m.shape = d.Settings.Session, strings.TrimPrefix(m.shape, inSession)
	}
	if f.method == mPrompt || f.method == mPermission {
		f.o.Require("id")
	}
	if !f.bad() {
		input.Check(f.in, m.shape)
	}
	if f.bad() {
		return
	}
	p := &pending{dir: f.dir, id: f.id, method: f.method, s: d.session(name)}
	m.take(d, f, p)
	if p.s != nil && !f.bad() {
		d.keep(p.s, f.meta, f.method+input.UnknownKeys, f.more)
	}
	if f.id == "" || f.bad() {
		d.release(&p.held)
		return
	}
	d.hold(&p.held, entry+len(p.id)+len(p.method))
	d.pending = append(d.pending, p)
}

// response takes a response. It answers the last request of the other side with that id. Both sides number from 0, so
// that without a direction it may be of either side.
func (d *Decoder) response(f *frame) {
	for i, p := range slices.Backward(d.pending) {
		if p.id != f.id || p.dir == f.dir && f.dir != Unknown {
			continue
		}
		d.pending = slices.Delete(d.pending, i, i+1)
		f.method = p.method
		if p.s != nil {
			d.keep(p.s, f.meta, p.method+".response"+input.UnknownKeys, f.more)
		}
		if p.then == nil || p.run != nil && p.run.over {
			d.keep(p.s, f.meta, p.method+".response", input.Members("result", f.result, "error", f.err))
		} else {
			p.then(f)
		}
		d.release(&p.held)
		return
	}
	d.Other(f.meta, "response", f.raw)
}

// unknown keeps a request, and its response.
func (d *Decoder) unknown(f *frame, p *pending) {
	if f.params == nil {
		f.params = []byte("{}")
	}
	d.keep(p.s, f.meta, f.method, f.params)
}

// elicit takes a request by which an agent asks the user.
func (d *Decoder) elicit(f *frame, p *pending) {
	d.unknown(f, p)
	r := p.s.prompt()
	if r == nil || f.id == "" {
		return
	}
	d.Emit(&event.UserAsked{Meta: r.at(f.meta)})
	p.run, p.then = r, func(f *frame) {
		d.keep(p.s, f.meta, p.method+".response", input.Members("result", f.result, "error", f.err))
		d.Emit(&event.UserAnswered{Meta: r.at(f.meta)})
	}
}

// info returns a copy of what a side states about itself.
func info(raw []byte) []byte {
	if len(raw) > maxInfo {
		return nil
	}
	return bytes.Clone(raw)
}

// initialize takes the request that begins a connection. Its response decides about the version.
func (d *Decoder) initialize(f *frame, p *pending) {
	d.disconnect()
	d.initParams, d.initResult, d.later = info(f.params), nil, false
	p.then = func(f *frame) {
		if f.err != nil || f.answer("") == nil {
			return
		}
		d.initResult = info(f.result)
		if v := loose(f.result).Int("protocolVersion"); v != nil && *v > 1 {
			d.later = true
			d.Other(f.meta, mInitialize+".response", f.raw)
		}
	}
}

// change takes a request that opens a session or changes its state. The response states the exchange.
func (d *Decoder) change(f *frame, p *pending) {
	raw := bytes.Clone(f.params)
	d.hold(&p.held, len(raw))
	if p.method == mLoad {
		p.s.loading = true
	}
	p.then = func(f *frame) {
		s, params, result := p.s, loose(raw), loose(f.result)
		if f.err == nil && (p.method == mNew || p.method == mFork) {
			s = d.session(f.answer("sessionId!").String("sessionId"))
			if f.bad() {
				return
			}
			s.forkOf = params.String("sessionId")
			s.cost = money{zero: p.method == mNew}
		}
		exchange := input.Members("params", raw, "result", f.result, "error", f.err)
		if s == nil {
			d.Other(f.meta, p.method, exchange)
			return
		}
		if p.method == mLoad {
			d.loaded(s, f.meta)
		}
		var about event.Fact
		mode := result.Object("modes").Raw("currentModeId")
		switch {
		case f.err != nil:
		case p.method == "session/set_mode":
			mode = params.Raw("modeId")
		case p.method == "session/set_model":
			s.model = cmp.Or(params.String("modelId"), s.model)
		case p.method == "session/set_config_option":
			s.options(f.result)
			about = fact("config_options", result.Raw("configOptions"))
		case p.method != mClose:
			s.cwd = cmp.Or(params.String("cwd"), s.cwd)
			s.model = cmp.Or(result.Object("models").String("currentModelId"), s.model) // before models became an option
			s.options(f.result)
			about = fact("acp."+mInitialize, input.Members("params", d.initParams, "result", d.initResult))
		}
		if text, ok := rawjson.String(mode); ok {
			s.mode = text
		}
		d.state(s, f.meta, fact("mode", mode), about, fact("acp."+p.method, exchange))
	}
}
