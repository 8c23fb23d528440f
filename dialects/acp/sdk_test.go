package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	tree "github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// recorded sends a capture through the whole pipeline, to its end, and returns the sessions by id and what their blocks
// hold.
func recorded(t *testing.T, text string, opts ...input.Settings) (map[string]*tree.Session, map[string]*tree.BlockSet) {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
	rec := event.NewRecorder(p.Tracer())
	d := NewDecoder(opts...)
	for _, events := range []func(func(event.Event, error) bool){d.Events(strings.NewReader(text)), d.Rest()} {
		for ev, err := range events {
			must.Do(t, err)
			rec.Record(context.Background(), ev)
		}
	}
	rec.Close(context.Background())
	all, blocks := map[string]*tree.Session{}, map[string]*tree.BlockSet{}
	for _, s := range p.Sessions() {
		all[s.ID] = s
		blocks[s.ID] = &tree.BlockSet{}
	}
	for _, b := range p.Batch().Blocks {
		blocks[b.Session.ID].Add(b)
	}
	return all, blocks
}

type ledger = map[string]any

// noted is one note of a run: of the run, a turn, a compaction or a tool call.
type noted struct {
	seq  int64
	typ  string
	call string
	body ledger
}

// view reads a run as the agent's own ledger states a prompt.
type view struct {
	t      *testing.T
	blocks *tree.BlockSet
	notes  []noted
}

func (v *view) value(ref *tree.Refs) any {
	bodies := v.blocks.Read(ref).Bodies
	if len(bodies) == 0 {
		return nil
	}
	return v.parse(bodies[0])
}

func (v *view) parse(text string) (value any) {
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		v.t.Fatalf("%v in %s", err, text)
	}
	return value
}

func (v *view) add(call string, notes []tree.Note) {
	for _, n := range notes {
		o := noted{seq: n.Seq, typ: n.Type, call: call}
		if n.Body != nil {
			body, ok := v.blocks.Body(*n.Body)
			if !ok {
				v.t.Fatalf("the body of a note %s is missing", n.Type)
			}
			o.body, _ = v.parse(body).(ledger)
		}
		v.notes = append(v.notes, o)
	}
}

func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func list(v any) []any {
	l, _ := v.([]any)
	if l == nil {
		return []any{}
	}
	return l
}

// prompt is a run in the words of the ledger.
func (v *view) prompt(r *tree.Run) ledger {
	v.add("", r.Events)
	out := ledger{"text": "", "blocks": []any{}, "stop_reason": nil, "error": nil, "cancelled": false, "agent_text": "",
		"thought_text": "",
		"messages":     []any{}, "tool_calls": []any{}, "permissions": []any{}, "fs": []any{}, "terminals": []any{},
		"plan":    nil,
		"notices": []any{},
		"usage":   nil, "compactions": []any{}}
	switch {
	case r.Status == spans.RunStatusError, r.StatusWord == "-32800":
		code, _ := strconv.ParseFloat(r.StatusWord, 64)
		out["error"] = ledger{"code": code, "message": r.Error}
	default:
		out["stop_reason"] = nullable(r.StatusWord)
	}
	titles := map[string]ledger{}
	var last *tree.Turn
	for _, turn := range r.Turns {
		v.add("", turn.Events)
		last = turn
		v.input(turn, out)
		v.output(turn, out, titles)
	}
	if last == nil || nullable(last.StopReason) != out["stop_reason"] {
		v.t.Errorf("%s: stop reason of the last turn is not %v", r.ID, out["stop_reason"])
	}
	for _, turn := range r.Turns {
		for _, c := range turn.Compactions {
			v.add("", c.Events)
		}
		for _, c := range turn.ToolCalls {
			v.add(c.ID, c.Events)
			out["tool_calls"] = append(list(out["tool_calls"]), v.call(c, titles[c.ID]))
			for _, p := range c.Permissions {
				out["permissions"] = append(list(out["permissions"]), v.permission(p))
			}
		}
		for _, c := range turn.Compactions {
			out["compactions"] = append(list(out["compactions"]), v.compaction(c))
		}
	}
	slices.SortStableFunc(v.notes, func(a, b noted) int { return cmp.Compare(a.seq, b.seq) })
	v.unspanned(out)
	return out
}

func (v *view) input(turn *tree.Turn, out ledger) {
	for _, body := range v.blocks.Read(turn.Input).Bodies {
		m := v.parse(body).(ledger)
		if m["role"] != "user" {
			v.t.Errorf("a message of %v in the input", m["role"])
		}
		for _, b := range list(m["content"]) {
			block := b.(ledger)
			out["blocks"] = append(list(out["blocks"]), block["type"])
			if block["type"] == "text" {
				out["text"] = out["text"].(string) + block["text"].(string)
			}
		}
	}
}

func (v *view) output(turn *tree.Turn, out ledger, titles map[string]ledger) {
	m, _ := v.value(turn.Output).(ledger)
	var of ledger // the message that items with its id go on with
	for _, i := range list(m["content"]) {
		item := i.(ledger)
		if item["type"] == "toolCall" {
			titles[item["id"].(string)] = item
			of = nil
			continue
		}
		role, key, text := "agent", "agent_text", ""
		switch item["type"] {
		case "thinking":
			role, key, text = "thought", "thought_text", item["thinking"].(string)
		case "text":
			text = item["text"].(string)
		}
		out[key] = out[key].(string) + text
		id := item["messageId"]
		if of == nil || of["role"] != role || id != nil && of["message_id"] != id || id == nil && item["type"] == "text" &&
			item["annotations"] == nil {
			if id == nil && item["type"] != "text" && item["type"] != "thinking" || of != nil && item["annotations"] != nil {
				of["text"] = of["text"].(string) + text // a block of another kind has no id of its own
				continue
			}
			of = ledger{"role": role, "message_id": id, "text": ""}
			out["messages"] = append(list(out["messages"]), of)
		}
		of["text"] = of["text"].(string) + text
	}
}

func (v *view) call(c *tree.ToolCall, item ledger) ledger {
	result, _ := v.value(c.Result).(ledger)
	out := ledger{"id": c.ID, "name": c.Name, "title": item["title"], "kind": cmp.Or(item["kind"], any("other")),
		"input": v.value(c.Args), "outcome": string(c.Outcome)}
	if c.Outcome != "" {
		out["output"], out["content"], out["locations"] = result["rawOutput"], list(result["content"]),
			list(result["locations"])
	}
	return out
}

func (v *view) permission(p *tree.Permission) ledger {
	out := ledger{"tool_call_id": p.CallID, "outcome": p.Outcome, "option_id": nullable(p.Option),
		"action": string(p.Action), "source": string(p.Source)}
	var ids []any
	for _, o := range list(v.value(p.Options)) {
		ids = append(ids, o.(ledger)["optionId"])
	}
	out["options"] = ids
	return out
}

func (v *view) compaction(c *tree.Compaction) ledger {
	text := ""
	for _, b := range list(v.value(c.Summary)) {
		text += b.(ledger)["text"].(string)
	}
	out := ledger{"summary": text, "error": nullable(c.Reason)}
	for _, n := range v.notes {
		if word, ok := strings.CutPrefix(n.typ, "compaction_update."); ok && n.seq == c.EndSeq {
			out["id"], out["status"] = n.body["compactionId"], word
		}
	}
	if *c.Applied != (out["status"] == "completed") {
		v.t.Errorf("compaction %v %v: applied %v", out["id"], out["status"], *c.Applied)
	}
	return out
}

// unspanned takes from the notes what has no span.
func (v *view) unspanned(out ledger) {
	terminals := map[any]ledger{}
	type asked struct {
		noted
		terminal ledger
	}
	pending := map[any]asked{}
	for _, n := range v.notes {
		method, response := strings.CutSuffix(n.typ, ".response")
		params, _ := n.body["params"].(ledger)
		result, _ := n.body["result"].(ledger)
		switch n.typ {
		case "session/cancel":
			out["cancelled"] = true
			continue
		case "plan":
			out["plan"] = n.body["entries"]
			continue
		case "notice":
			out["notices"] = append(list(out["notices"]), ledger{"severity": n.body["severity"], "title": n.body["title"],
				"description": n.body["description"]})
			continue
		case "usage_update":
			out["usage"] = ledger{"used": n.body["used"], "size": n.body["size"], "cost": n.body["cost"]}
			continue
		}
		if !strings.HasPrefix(method, "fs/") && !strings.HasPrefix(method, "terminal/") {
			continue
		}
		if !response {
			a := asked{n, nil}
			if method == mTermCreate {
				a.terminal = ledger{"command": params["command"], "args": list(params["args"]), "tool_call_id": nullable(n.call),
					"output":    nil,
					"truncated": nil, "exit_code": nil, "signal": nil, "killed": false, "released": false}
			}
			pending[n.body["id"]] = a
			continue
		}
		a := pending[n.body["id"]]
		if a.call != n.call {
			v.t.Errorf("%s and its response are of different calls: %q and %q", method, a.call, n.call)
		}
		asking, _ := a.body["params"].(ledger)
		term := terminals[asking["terminalId"]]
		if term != nil && term["tool_call_id"] != nullable(n.call) {
			// After the end of a call its terminal is of the turn.
			if n.call != "" {
				v.t.Errorf("%s is of call %q, the terminal of %v", method, n.call, term["tool_call_id"])
			}
		}
		switch method {
		case "fs/read_text_file", "fs/write_text_file":
			f := ledger{"op": "read", "tool_call_id": nullable(n.call), "path": asking["path"], "content": result["content"],
				"error": nil}
			if method == "fs/write_text_file" {
				f["op"], f["content"] = "write", asking["content"]
			} else {
				for _, k := range []string{"line", "limit"} {
					if asking[k] != nil {
						f[k] = asking[k]
					}
				}
			}
			if e, _ := n.body["error"].(ledger); e != nil {
				f["error"] = ledger{"code": e["code"], "message": e["message"]}
			}
			out["fs"] = append(list(out["fs"]), f)
		case mTermCreate:
			a.terminal["id"] = result["terminalId"]
			terminals[result["terminalId"]] = a.terminal
			out["terminals"] = append(list(out["terminals"]), a.terminal)
		case "terminal/output":
			term["output"], term["truncated"] = result["output"], result["truncated"]
			if exit, _ := result["exitStatus"].(ledger); exit != nil {
				term["exit_code"], term["signal"] = exit["exitCode"], exit["signal"]
			}
		case "terminal/wait_for_exit":
			term["exit_code"], term["signal"] = result["exitCode"], result["signal"]
		case "terminal/kill":
			term["killed"] = true
		case "terminal/release":
			term["released"] = true
		}
	}
}

// expect turns a prompt of the ledger into what the tree has to show: outcomes, names and actions are ours.
func expect(p ledger) ledger {
	delete(p, "traceparent")
	messages := []any{}
	for _, m := range list(p["messages"]) {
		m := m.(ledger)
		delete(m, "blocks")
		if m["role"] != "user" { // an echo; it is a note
			messages = append(messages, m)
		}
	}
	p["messages"] = messages
	refused := map[any]string{}
	for _, x := range list(p["permissions"]) {
		x := x.(ledger)
		x["action"], x["source"] = "ask", ""
		switch kind, _ := x["kind"].(string); kind {
		case "allow_once":
			x["action"], x["source"] = "allow", "once"
		case "allow_always":
			x["action"], x["source"] = "allow", "session"
		case "reject_once":
			x["action"], x["source"] = "deny", "once"
		case "reject_always":
			x["action"], x["source"] = "deny", "session"
		}
		if x["action"] == "deny" {
			refused[x["tool_call_id"]] = "denied"
		} else if x["outcome"] == "cancelled" {
			refused[x["tool_call_id"]] = "cancelled"
		}
		delete(x, "kind")
	}
	for _, c := range list(p["tool_calls"]) {
		c := c.(ledger)
		status := c["status"]
		if c["name"] == nil {
			c["name"] = c["kind"]
		}
		switch {
		case status == "completed":
			c["outcome"] = "ok"
		case status == "failed" && refused[c["id"]] != "":
			c["outcome"] = refused[c["id"]]
		case status == "failed":
			c["outcome"] = "error"
		default:
			c["outcome"] = ""
			delete(c, "output")
			delete(c, "content")
			delete(c, "locations")
		}
		delete(c, "status")
		delete(c, "statuses")
	}
	return p
}

// TestSDK reads what the official SDK's client and agent said to each other, and compares the tree with what the agent
// knows that it did.
func TestSDK(t *testing.T) {
	files, err := filepath.Glob("testdata/sdk/*.tree.json")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, suffix := range []string{".ndjson", ".raw.ndjson"} {
			name := strings.TrimSuffix(file, ".tree.json")
			t.Run(filepath.Base(name)+suffix, func(t *testing.T) {
				text := must.Get(os.ReadFile(name + suffix))(t)
				written := must.Get(os.ReadFile(file))(t)
				var want struct{ Sessions []ledger }
				must.Do(t, json.Unmarshal(written, &want))
				sessions, blocks := recorded(t, string(text))
				if len(sessions) != len(want.Sessions) {
					t.Errorf("%d sessions, want %d", len(sessions), len(want.Sessions))
				}
				for _, s := range want.Sessions {
					compareSession(t, s, sessions[s["id"].(string)], blocks[s["id"].(string)])
				}
			})
		}
	}
}

func compareSession(t *testing.T, want ledger, s *tree.Session, blocks *tree.BlockSet) {
	t.Helper()
	if s == nil {
		t.Errorf("session %v is missing", want["id"])
		return
	}
	prompts := list(want["prompts"])
	if len(s.Runs) != len(prompts) {
		t.Errorf("session %s: %d runs, want %d", s.ID, len(s.Runs), len(prompts))
		return
	}
	runs := slices.Clone(s.Runs)
	slices.SortStableFunc(runs, func(a, b *tree.Run) int { return cmp.Compare(a.Seq, b.Seq) })
	for i, r := range runs {
		p := prompts[i].(ledger)
		if parent, _ := p["traceparent"].(string); parent != "" && !strings.HasPrefix(parent, "00-"+r.TraceID) {
			t.Errorf("run %s has trace %s, want a child of %s", r.ID, r.TraceID, parent)
		}
		v := &view{t: t, blocks: blocks}
		if diff := gocmp.Diff(expect(p), v.prompt(r)); diff != "" {
			t.Errorf("session %s, run %s (-want +got):\n%s", s.ID, r.ID, diff)
		}
		for _, d := range r.Defects {
			t.Errorf("run %s: defect %s %s", r.ID, d.Code, d.Detail)
		}
	}
	v := &view{t: t, blocks: blocks}
	fact := func(key string) any {
		f := s.Fact("session", key)
		if f == nil || f.Value == nil {
			return nil
		}
		body, _ := blocks.Body(*f.Value)
		return v.parse(body)
	}
	history := ledger{"history": "", "calls": []any{}}
	wantHistory := ledger{"history": "", "calls": []any{}}
	for _, m := range list(want["history"]) {
		wantHistory["history"] = wantHistory["history"].(string) + m.(ledger)["text"].(string)
	}
	for _, c := range list(want["history_tool_calls"]) {
		wantHistory["calls"] = append(list(wantHistory["calls"]), c.(ledger)["id"])
	}
	if h, _ := fact("acp.history").(ledger); h != nil {
		for _, item := range list(h["items"]) {
			item := item.(ledger)
			content, _ := item["content"].(ledger)
			if text, _ := content["text"].(string); text != "" {
				history["history"] = history["history"].(string) + text
			}
			if item["sessionUpdate"] == "tool_call" {
				history["calls"] = append(list(history["calls"]), item["toolCallId"])
			}
		}
	}
	if diff := gocmp.Diff(wantHistory, history); diff != "" {
		t.Errorf("session %s: history (-want +got):\n%s", s.ID, diff)
	}
	config := []any{}
	for _, o := range list(fact("config_options")) {
		o := o.(ledger)
		config = append(config, ledger{"id": o["id"], "value": o["currentValue"]})
	}
	got := ledger{"title": fact("title"), "mode": fact("mode"), "commands": list(fact("available_commands")),
		"config": config, "closed": fact("acp."+mClose) != nil, "loaded": fact("acp."+mLoad) != nil,
		"resumed": fact("acp.session/resume") != nil, "deleted": fact("acp.session/delete") != nil}
	state := ledger{}
	for key := range got {
		state[key] = want[key]
	}
	if diff := gocmp.Diff(state, got); diff != "" {
		t.Errorf("session %s (-want +got):\n%s", s.ID, diff)
	}
}
