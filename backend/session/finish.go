package session

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/spans"
)

// finish does what needs all runs.
func (a *assembler) finish() {
	s := a.s
	s.MadeUp = a.madeUp
	slices.SortFunc(s.Runs, compareRuns)
	for _, r := range s.Runs {
		a.runByID[r.ID] = append(a.runByID[r.ID], r)
	}
	for _, r := range s.Runs {
		if !r.Copied { // counted where it came from
			s.Usage.Add(r.Usage)
			add(&s.Discarded, r.Discarded)
			add(&s.CompactionUsage, r.CompactionUsage)
		}
		s.Agent, s.AgentID, s.Dialect = cmp.Or(s.Agent, r.Agent), cmp.Or(s.AgentID, r.AgentID), cmp.Or(s.Dialect, r.Dialect)
		if r.GroupStart.IsZero() {
			continue
		}
		ns := r.GroupStart.UnixNano()
		g := a.groups[ns]
		if g == nil {
			g = &Group{Status: spans.RunStatusOpen}
			g.Missing, g.Start = true, r.GroupStart
			g.defect(spans.DefectGroupSpanMissing, "")
			a.groups[ns] = g
			s.Groups = append(s.Groups, g)
		}
		if g.Missing && r.GroupRole != spans.GroupRoleJudge {
			g.Members = append(g.Members, r.ID)
		}
	}
	slices.SortFunc(s.Groups, func(x, y *Group) int { return x.Start.Compare(y.Start) })
	a.mergeGroups()
	a.repeated()
	a.service()
	a.missingRuns()
	a.cutCycles()
	for _, r := range s.Runs {
		for c := range r.Calls() {
			if c.ChildRunID != "" && cmp.Or(c.ChildSessionID, s.ID) == s.ID && len(a.runByID[c.ChildRunID]) == 0 {
				c.defect(spans.DefectChildNotSeen, c.ChildRunID)
			}
		}
	}
	switch {
	case len(s.Runs) > 0:
		s.Start = s.Runs[0].Start
	case len(s.Groups) > 0:
		s.Start = s.Groups[0].Start
	}
	if a.now > 0 {
		s.Last = nsTime(a.now)
	}
	s.Status = s.status()
}

// ToolsDigest returns the block of the tool catalogue of the last request; empty when it is not known.
func (t *Turn) ToolsDigest() string { return t.LastRequest().Param(spans.ProvenanceTools).Block }

// compareRuns orders runs by their start. Those of a ledger that start at once have the order of their records.
func compareRuns(x, y *Run) int {
	record := func(r *Run) int64 {
		if r.Recording == spans.RecordingLedger {
			return r.Seq
		}
		return 0
	}
	return cmp.Or(x.Start.Compare(y.Start), cmp.Compare(record(x), record(y)), strings.Compare(x.ID, y.ID))
}

// service takes service.name from the earliest row that has one.
func (a *assembler) service() {
	var from *Row
	for i := range a.entries {
		if r := a.entries[i].row; r.Service != "" && (from == nil || cmp.Or(cmp.Compare(r.RunStart, from.RunStart),
			cmp.Compare(r.Start, from.Start), strings.Compare(r.Service, from.Service)) < 0) {
			from = r
			a.s.Service = r.Service
		}
	}
}

// missingRuns names the gaps among the numbers of runs. Each process counts its own from 1.
func (a *assembler) missingRuns() {
	slices.SortFunc(a.ordinals, func(x, y ordinal) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.n, y.n))
	})
	for l := a.ordinals; len(l) > 0; {
		var gaps ranges
		from := l[0].from
		for ; len(l) > 0 && l[0].from == from; l = l[1:] {
			gaps.seen(l[0].n)
		}
		if gaps.total > 0 {
			detail := "number " + string(gaps.text) + " of " + strconv.FormatInt(gaps.last, 10)
			a.s.Defects = append(a.s.Defects, Defect{Code: spans.DefectRunMissing, Detail: detail})
		}
	}
}

// cutCycles cuts, in every ring of runs that name each other as parents, the link of the earliest one.
func (a *assembler) cutCycles() {
	const (
		walking = 1
		done    = 2
	)
	state := map[*Run]int{}
	for _, r := range a.s.Runs {
		var path []*Run
		for at := r; at != nil && state[at] != done; at = a.parent(at) {
			if state[at] == walking {
				from := slices.Index(path, at)
				first := slices.MinFunc(path[from:], compareRuns)
				first.ParentCut = true
				first.defect(spans.DefectParentCycle, strconv.Itoa(len(path)-from)+" runs")
				break
			}
			state[at] = walking
			path = append(path, at)
		}
		for _, p := range path {
			state[p] = done
		}
	}
}

func (a *assembler) parent(r *Run) *Run { return parentOf(a.s.ID, r, a.runByID[r.ParentID]) }

// parentOf picks, among runs of the id that r names as its parent, sorted by start: the last one that started no later
// than r, else the first; never r itself.
func parentOf(sessionID string, r *Run, candidates []*Run) *Run {
	if r.ParentCut || r.ParentID == "" || r.ParentSessionID != "" && r.ParentSessionID != sessionID {
		return nil
	}
	// n is the number of candidates that started no later than r.
	n, _ := slices.BinarySearchFunc(candidates, r.Start, func(c *Run, start time.Time) int {
		if c.Start.After(start) {
			return 1
		}
		return -1
	})
	for i := n - 1; i >= 0; i-- {
		if candidates[i] != r {
			return candidates[i]
		}
	}
	if n < len(candidates) {
		return candidates[n]
	}
	return nil
}

// ranges lists the numbers that are missing among those seen, which ascend.
type ranges struct {
	last  int64 // greatest number seen; at first the one before the first that there should be
	text  []byte
	n     int
	total int64 // how many numbers are missing
}

func (r *ranges) seen(n int64) {
	if r.last < n-1 { // n is not negative
		r.add(r.last+1, n-1)
	}
	r.last = max(r.last, n)
}

func (r *ranges) add(from, to int64) {
	r.total += to - from + 1
	r.n++
	switch {
	case r.n > 16:
		if r.n == 17 {
			r.text = append(r.text, ", ..."...)
		}
		return
	case r.n > 1:
		r.text = append(r.text, ", "...)
	}
	r.text = strconv.AppendInt(r.text, from, 10)
	if to > from {
		r.text = append(r.text, '-')
		r.text = strconv.AppendInt(r.text, to, 10)
	}
}
