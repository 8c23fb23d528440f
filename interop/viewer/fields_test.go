package viewer

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A prompt that is longer than a list of turns brings along is compared whole.
func TestLongPromptIsComparedWhole(t *testing.T) {
	var prompt strings.Builder
	for i := range 400 {
		fmt.Fprintf(&prompt, "Rule %d: be careful with file %d.\\n", i, i)
	}
	db := filepath.Join(t.TempDir(), "prompt.db")
	list := events(strings.ReplaceAll(`{"type":"run_started","session":"prompt","agent":"coder"}
		{"type":"turn_started"}
		{"type":"request_prepared","payload":{"system":"PROMPTLast rule.","messages":[]}}
		{"type":"turn_ended","output":{"role":"assistant","content":"One."}}
		{"type":"turn_started"}
		{"type":"request_prepared","payload":{"system":"PROMPTAnother rule.","messages":[]}}
		{"type":"turn_ended","output":{"role":"assistant","content":"Two."}}
		{"type":"run_ended"}`, "PROMPT", prompt.String()))
	for i, e := range list {
		e["type"], e["run"], e["ts"] = "otelagent."+e["type"].(string), "r1", at(0)
		if i > 3 {
			e["ts"] = at(1e9)
		}
	}
	lines(t, db, list)
	begin := has(".system.changed " + testid("content"))
	b := open(t, serve(t, db), path("s", "prompt", "@1", "1"), desk)
	b.until("the prompt changed", has(testid("system-diff")+`[aria-pressed="false"]`)+" && "+has(".system.changed"))
	b.click(".system.changed .fold")
	b.click(".system.changed " + testid("show-all"))
	b.until("all of it is text", begin+`?.innerText.startsWith("Rule 0") && `+begin+`.innerText.endsWith("Another rule.")`)
	b.click(".system.changed " + testid("system-diff"))
	changed := "[...document.querySelectorAll('.system.changed .diff .added, .system.changed .diff .removed')]"
	b.until("two lines differ", changed+".length === 2")
	if got := js[string](b, changed+".map(e => e.innerText.trim()).join('|')"); !strings.Contains(got, "Last rule.") ||
		!strings.Contains(got, "Another rule.") {
		t.Errorf("the difference is %q", got)
	}
}

// Text in a field stays while the page draws something else.
func TestTypedTextStays(t *testing.T) {
	b := open(t, serve(t, library(t)), "/diff?a="+odd, desk)
	b.until("candidates are there", has(testid("diff-candidate")))
	b.click(testid("diff-form") + " [name=b]")
	b.press("mend")
	b.click("[data-search]")
	b.press("tidy")
	b.until("the candidates are filtered", "document.querySelectorAll('"+testid("diff-candidate")+"').length < 4")
	if got := js[string](b, has(testid("diff-form")+" [name=b]")+".value"); got != "mend" {
		t.Errorf("the field has %q", got)
	}
}

// The chosen row is a session, whichever sessions arrive.
func TestChosenRowStays(t *testing.T) {
	otlp, server := collect(t, filepath.Join(t.TempDir(), "rows.db"))
	begin := func(id string) {
		a := work(t, otlp)
		a.write(fmt.Sprintf(`{"type":"otelagent.run_started","session":%[1]q,"run":%[1]q}
			{"type":"otelagent.turn_started"}{"type":"otelagent.turn_ended"}{"type":"otelagent.run_ended"}`, id))
		a.end()
	}
	begin("first")
	b := open(t, server, "/", desk)
	b.until("it is listed", has(`[data-session="first"]`))
	b.press("j")
	b.until("it is chosen", has(`.current[data-session="first"]`))
	begin("second")
	b.until("another one is listed above it", has(`[data-row="0"][data-session="second"]`))
	b.until("the same is chosen", has(`.current[data-session="first"]`)+
		" && document.querySelectorAll('.row.current').length === 1")
}

// A session leads to the sub-agent that it spawned in another one, and that one back, whatever their ids hold.
func TestSubAgents(t *testing.T) {
	const lead, helper = "lead/er#1", "help/@er"
	db := filepath.Join(t.TempDir(), "agents.db")
	list := events(`{"type":"run_started","session":"` + lead + `","run":"r1"}
		{"type":"turn_started","run":"r1"}
		{"type":"tool_started","run":"r1","call_id":"c#1","name":"delegate"}
		{"type":"run_started","session":"` + helper + `","run":"r2","parent_id":"r1","parent_session_id":"` + lead + `",
		 "parent_tool_call_id":"c#1"}
		{"type":"turn_started","run":"r2"}
		{"type":"turn_ended","run":"r2","output":{"role":"assistant","content":"I am the helper."}}
		{"type":"run_ended","run":"r2"}
		{"type":"tool_ended","run":"r1","call_id":"c#1","outcome":"ok"}
		{"type":"turn_ended","run":"r1","output":{"role":"assistant","content":"I lead."}}
		{"type":"run_ended","run":"r1"}`)
	for i, e := range list {
		e["type"], e["ts"] = "otelagent."+e["type"].(string), at(time.Duration(i)*time.Second)
	}
	lines(t, db, list)
	b := open(t, serve(t, db), path("s", lead), desk)
	b.until("the related session is named", has(testid("children")))
	b.click(testid("children") + " summary")
	b.click(testid("children") + " li a")
	b.until("the helper is there", has(testid("said-reply"))+"?.innerText.includes('I am the helper.')")
	if js[bool](b, has(testid("failure"))+" !== null") {
		t.Errorf("the page of the helper complains: %s", b.text())
	}
	b.click(testid("run") + " a.link")
	b.until("the leader is there", has(testid("said-reply"))+"?.innerText.includes('I lead.')")
	b.click(testid("sub-agent") + " .fold")
	b.until("its turns are there", within(testid("sub-agent"))+".includes('I am the helper.')")
	b.click(testid("sub-agent") + " a.link")
	b.until("the helper is there again", has(testid("said-reply"))+"?.innerText.includes('I am the helper.')")
}
