package viewer

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The session and the diff are headed by what somebody named them; where nobody did, by their ids.
func TestTitles(t *testing.T) {
	db := filepath.Join(t.TempDir(), "titles.db")
	events := long("ranges", 2)
	lines(t, db, append(events, event{"type": "otelagent.fact_stated", "ts": at(9), "session": "ranges", "facts": []event{{"subject": "session", "key": "title", "value": "Fix range test"}}}))
	lines(t, db, long("unnamed", 2))
	server := serve(t, db)
	b := open(t, server, path("s", "ranges"), desk)
	b.until("the heading is the title", within(testid("session-title"))+" === 'Fix range test'")
	if got := js[string](b, "document.title"); !strings.HasPrefix(got, "Fix range test") {
		t.Errorf("the tab is titled %q", got)
	}
	b = open(t, server, "/diff?a=ranges&b=unnamed", desk)
	b.until("the diff has both titles, the second from the first message", within(testid("diff-side")+" h2 a")+" === 'Fix range test' && document.querySelectorAll('"+testid("diff-side")+"')[1].querySelector('h2 a').innerText.startsWith('Question 0')")
	b.accessible()
}

// By tool, statistics are of calls: those that a tool has, and how they ended.
func TestStatsByTool(t *testing.T) {
	b := open(t, serve(t, library(t)), "/stats?by=tool", desk)
	b.until("the groups are there", has(testid("stats-groups")+" tbody tr"))
	heads := strings.Join(js[[]string](b, "[...document.querySelectorAll('"+testid("stats-groups")+" th')].map((h) => h.textContent.trim())"), ",")
	if heads != "tool,Calls,How they ended,Sum,p50,p90,p50 – p90 – max" {
		t.Errorf("the columns are %s", heads)
	}
	if calls := js[[]string](b, "[...document.querySelectorAll('"+testid("stats-groups")+" tbody td:nth-child(2)')].map((c) => c.textContent.trim())"); slices.Contains(calls, "0") {
		t.Errorf("there are tools without calls: %q", calls)
	}
	if measures := js[[]string](b, "[..."+has(testid("stats-measure"))+".options].map((o) => o.value)"); !slices.Equal(measures, []string{"Tool call"}) {
		t.Errorf("the measures of a tool are %q", measures)
	}
	b.accessible()
}

// A stored session that waits for an answer took as long as was seen of it, and does not run.
func TestStoredOpen(t *testing.T) {
	db := filepath.Join(t.TempDir(), "open.db")
	send(t, db, filepath.Join("..", "..", "dialects", "guide", "testdata", "ai-sdk", "v7.jsonl"))
	const id = "ses_b8d996900001v7000000000001"
	b := open(t, serve(t, db), path("s", id), desk)
	b.until("it waits", within(testid("session-status"))+".includes('waiting on approval')")
	if figures := js[string](b, within(testid("figures"))+".replace(/\\s+/g, ' ')"); !strings.Contains(strings.ToLower(figures), "took 1.0s") {
		t.Errorf("it took 1.05 s, and the page says %s", figures)
	}
	if js[bool](b, has(".live-dot")+" || "+has(testid("follow"))+" ? true : false") {
		t.Error("the page says that it is live")
	}
}

// A defect that sits in a turn is named on the page of the session, which leads there.
func TestTurnDefects(t *testing.T) {
	db := filepath.Join(t.TempDir(), "defect.db")
	lines(t, db, []event{
		{"type": "otelagent.run_started", "ts": at(0), "session": "defect", "run": "r"},
		{"type": "otelagent.turn_started", "ts": at(1), "run": "r"},
		{"type": "otelagent.tool_started", "ts": at(2), "run": "r", "call_id": "c", "name": "bash", "args": event{"command": "ls"}},
		{"type": "otelagent.tool_ended", "ts": at(3), "run": "r", "call_id": "c", "outcome": "ok", "result": "a.txt"},
		{"type": "otelagent.turn_ended", "ts": at(4), "run": "r", "stop_reason": "tool_use"},
		{"type": "otelagent.run_ended", "ts": at(5), "run": "r", "status": "completed"},
	})
	if out, err := exec.Command("sqlite3", db, "DELETE FROM rows WHERE kind = 5").CombinedOutput(); err != nil { // the span of the call got lost
		t.Fatalf("%v\n%s", err, out)
	}
	b := open(t, serve(t, db), path("s", "defect"), desk)
	b.until("the defect is named", within(testid("defects"))+".includes('tool_call_missing')")
	b.until("its turn is marked", has(testid("rail")+" "+testid("rail-defect")))
	b.accessible()
	b.click(testid("turn-defect"))
	b.until("the link leads to the turn", "location.pathname.endsWith('/0') && "+has(testid("turn")+"[aria-current=true]"))
}

// A turn that cannot be asked again is not told how to be; words of the table stay whole on a telephone.
func TestReplayNotEligible(t *testing.T) {
	db := filepath.Join(t.TempDir(), "untold.db")
	lines(t, db, []event{
		{"type": "otelagent.run_started", "ts": at(0), "session": "untold", "run": "r"},
		{"type": "otelagent.turn_started", "ts": at(1), "run": "r"},
		{"type": "otelagent.turn_ended", "ts": at(2), "run": "r", "stop_reason": "end_turn", "output": event{"role": "assistant", "content": "So it is."}},
		{"type": "otelagent.run_ended", "ts": at(3), "run": "r", "status": "completed"},
	})
	b := open(t, serve(t, db), path("s", "untold", "@1", "0", "replay"), phone)
	b.until("it says so", within("header")+" && "+has(testid("verdict"))+" && document.body.innerText.includes('cannot be asked again')")
	if strings.Contains(b.text(), "--send") {
		t.Error("the page names a command that cannot work")
	}
	if got := js[string](b, "getComputedStyle("+has(testid("replay-inputs")+" td")+").overflowWrap"); got != "normal" {
		t.Errorf("words are broken: %s", got)
	}
	b.accessible()
	b.snap("replay-not-eligible-phone")
}

// A histogram says that its axis is logarithmic, and no word of it is cut.
func TestHistograms(t *testing.T) {
	b := open(t, serve(t, library(t)), "/stats", desk)
	b.until("there are histograms", has(testid("quantile")))
	if !js[bool](b, "[...document.querySelectorAll('"+testid("histogram")+" figcaption')].every((f) => f.innerText.includes('log'))") {
		t.Error("the axis does not say that it is logarithmic")
	}
	if cut := js[[]string](b, "[...document.querySelectorAll('"+testid("quantile")+"')].filter((q) => q.getBoundingClientRect().left < q.closest('svg').getBoundingClientRect().left).map((q) => q.textContent)"); len(cut) > 0 {
		t.Errorf("words are cut: %q", cut)
	}
}

// Filters of the URL are shown as they are; what was rewound and the times of facts are told in words.
func TestWords(t *testing.T) {
	db := filepath.Join(t.TempDir(), "guide.db")
	send(t, db, filepath.Join("..", "..", "dialects", "guide", "testdata", "session.jsonl"))
	server := serve(t, db)
	b := open(t, server, "/?status=error,aborted", desk)
	b.until("the choice says both", "("+has(testid("filter-status"))+"?.selectedOptions[0]?.text ?? '') === 'error or aborted'")
	b = open(t, server, path("s", "ses_1fbd4f500000Ky9Pf34qY6Nb3w"), desk)
	b.until("the turns are counted", within(testid("position"))+".includes('rewound')")
	js[bool](b, has(testid("facts"))+".open = true")
	b.until("facts are shown", within(testid("facts"))+".includes('hidden at')")
	facts := js[string](b, has(testid("facts"))+".innerText")
	if strings.Contains(facts, "1795226495000") || strings.Contains(facts, "null") || !strings.Contains(facts, "2026-11-2") {
		t.Errorf("facts are raw:\n%s", facts)
	}
}
