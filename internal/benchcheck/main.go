// Command benchcheck runs the benchmarks of the hot paths and holds them to their bounds (docs/hotpaths.md).
//
// Each bound is a ratio to a named floor measured in the same run, or a time. The median of several runs counts, and
// only twice the bound fails: machines are noisy, and a doubled cost is what a change must not bring in unseen.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bound is one promise of docs/hotpaths.md.
type bound struct {
	what  string
	pkg   string // folder of the package, below the root
	bench string
	floor string // benchmark to divide by; empty: bench is held to most in time
	ratio float64
	most  time.Duration
}

var bounds = []bound{
	{what: "turn with two tools and a permission / raw SDK calls", pkg: "agenttest/adapter",
		bench: "BenchmarkTurn/adapter", floor: "BenchmarkTurn/raw", ratio: 1.5},
	{what: "the same with live copies / raw SDK calls", pkg: "agenttest/adapter", bench: "BenchmarkTurn/live",
		floor: "BenchmarkTurn/raw", ratio: 1.5},
	{what: "a copy of an open turn / the same span by raw SDK calls", pkg: "otelagent/otelsetup",
		bench: "BenchmarkCopy/copy", floor: "BenchmarkCopy/raw", ratio: 1.5},
	{what: "a turn with metrics / without, and raw samples", pkg: "agenttest/adapter", bench: "BenchmarkMetrics/adapter",
		floor: "BenchmarkMetrics/raw", ratio: 2},
	{what: "phi-core reader / encoding/json into RawMessage fields", pkg: "dialects/phi", bench: "BenchmarkReader/phi",
		floor: "BenchmarkReader/encodingjson", ratio: 0.9},
	{what: "clark-agent reader / encoding/json", pkg: "dialects/clark", bench: "BenchmarkReader/clark",
		floor: "BenchmarkReader/encodingjson", ratio: 2.0},
	{what: "own lines / encoding/json into a struct", pkg: "dialects/ndjson", bench: "BenchmarkDecoder",
		floor: "BenchmarkUnmarshal", ratio: 0.2},
	{what: "capture of a request of 1 MB, 4 KB new / SHA-256 of it", pkg: "agenttest/adapter",
		bench: "BenchmarkCapture/adapter", floor: "BenchmarkCapture/sha256", ratio: 1.0},
	{what: "stream of 500 events through otelllmhttp / bare transport", pkg: "agenttest/otelllmhttp",
		bench: "BenchmarkStream/recorded", floor: "BenchmarkStream/bare", ratio: 2},
	{what: "request of 100 KB through otelllmhttp / bare transport", pkg: "agenttest/otelllmhttp",
		bench: "BenchmarkRequest/recorded", floor: "BenchmarkRequest/bare", ratio: 4},
	{what: "request of turn 200 back from the file", pkg: "cmd/otelagent", bench: "BenchmarkRequest/reconstruct",
		most: 20 * time.Millisecond},
	{what: "first page of 200 turns, one of 100,000 sessions", pkg: "cmd/otelagent", bench: "BenchmarkShow/first-paint",
		most: 300 * time.Millisecond},
	{what: "show of the same, without the process", pkg: "cmd/otelagent", bench: "BenchmarkShow/command",
		most: 100 * time.Millisecond},
	{what: "StartTurn to the open page, through a collector", pkg: "cmd/otelagent", bench: "BenchmarkLive",
		most: time.Second},
	{what: "SQLite Put / bare insert, key only", pkg: "backend/store/sqlitestore", bench: "BenchmarkPut/sqlite",
		floor: "BenchmarkPut/bare", ratio: 1.25},
	{what: "SQLite Put with payload / hash, compress, bare insert", pkg: "backend/store/sqlitestore",
		bench: "BenchmarkPutPayload/sqlite", floor: "BenchmarkPutPayload/bare", ratio: 1.25},
	{what: "newest 50 of 100,000 sessions, while writing", pkg: "backend/store/sqlitestore",
		bench: "BenchmarkLarge/newest50", most: 20 * time.Millisecond},
	{what: "newest 50 of 100,000 sessions that run now", pkg: "backend/store/sqlitestore",
		bench: "BenchmarkFilters/statusNow", most: 20 * time.Millisecond},
	{what: "text searched in titles of 100,000 sessions", pkg: "backend/store/sqlitestore",
		bench: "BenchmarkFilters/searchNothing", most: 300 * time.Millisecond},
	{what: "a small one of 100,000 sessions, while writing", pkg: "backend/store/sqlitestore",
		bench: "BenchmarkLarge/small", most: 10 * time.Millisecond},
	{what: "10,000 turns among 100,000 sessions, while writing", pkg: "backend/store/sqlitestore",
		bench: "BenchmarkLarge/big", most: time.Second},
	{what: "collector, OTLP to committed / slower of decode and insert", pkg: "collector-exporter/distribution/e2e",
		bench: "BenchmarkCollector/plain/agent_session", floor: "BenchmarkCollector/plain/floor", ratio: 1.67},
	{what: "the same with 4 KB a turn", pkg: "collector-exporter/distribution/e2e",
		bench: "BenchmarkCollector/4KB/agent_session", floor: "BenchmarkCollector/4KB/floor", ratio: 1.67},
	{what: "OTLP of spans that no source describes / decoding alone", pkg: "backend/session/otlprow",
		bench: "BenchmarkSkip/spans", floor: "BenchmarkSkip/floor", ratio: 2},
	{what: "spans of another program, OTLP to stored / of this format", pkg: "cmd/otelagent",
		bench: "BenchmarkForeign/store/other", floor: "BenchmarkForeign/store/ours", ratio: 1.5},
	{what: "show of 10,000 turns of another program / of this format", pkg: "cmd/otelagent",
		bench: "BenchmarkForeign/show/other", floor: "BenchmarkForeign/show/ours", ratio: 1.5},
	{what: "Assemble 50,000 rows in memory", pkg: "backend/session", bench: "BenchmarkAssemble/50000rows",
		most: 200 * time.Millisecond},
	{what: "diff of two sessions of 10,000 turns, all another / of one with itself", pkg: "backend/session/diff",
		bench: "BenchmarkCompare/10000turns", floor: "BenchmarkCompare/itself", ratio: 5},
	{what: "statistics of 1,000,000 turns / SELECT of the same columns", pkg: "backend/store/stats",
		bench: "BenchmarkStats/collect", floor: "BenchmarkStats/select", ratio: 2},
	{what: "read and assemble 50,000 rows from the file", pkg: "backend/store/sqlitestore",
		bench: "BenchmarkRead/50000rows", most: 400 * time.Millisecond},
}

func main() {
	count := flag.Int("count", 5, "runs of each benchmark; the median counts")
	benchtime := flag.String("benchtime", "0.5s", "time or number of iterations of one run, as go test -benchtime")
	flag.Parse()
	if err := run(*count, *benchtime); err != nil {
		fmt.Fprintln(os.Stderr, "benchcheck:", err)
		os.Exit(1)
	}
}

func run(count int, benchtime string) error {
	measured := map[string][]float64{} // package and benchmark -> ns/op of each run
	var packages []string
	for _, b := range bounds {
		if !slices.Contains(packages, b.pkg) {
			packages = append(packages, b.pkg)
		}
	}
	var errs []error
	for _, pkg := range packages {
		if err := measure(pkg, count, benchtime, measured); err != nil {
			errs = append(errs, err)
		}
	}
	for _, b := range bounds {
		got, err := median(measured, b.pkg, b.bench)
		limit, unit, format := float64(b.most), float64(time.Millisecond), "ms"
		if b.floor != "" {
			var bad error
			unit, bad = median(measured, b.pkg, b.floor)
			err = errors.Join(err, bad)
			limit, format = b.ratio*unit, "x"
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Printf("%-60s %9.2f%-2s  bound %.2f%s\n", b.what, got/unit, format, limit/unit, format)
		if got > 2*limit {
			errs = append(errs, fmt.Errorf("%s: %.2f%s, more than twice the bound of %.2f%[3]s", b.what, got/unit, format,
				limit/unit))
		}
	}
	return errors.Join(errs...)
}

// measure runs the benchmarks of one package that are in bounds.
func measure(pkg string, count int, benchtime string, into map[string][]float64) error {
	var tops []string
	for _, b := range bounds {
		if b.pkg != pkg {
			continue
		}
		for _, name := range []string{b.bench, b.floor} {
			if top, _, _ := strings.Cut(name, "/"); top != "" && !slices.Contains(tops, top) {
				tops = append(tops, top)
			}
		}
	}
	cmd := exec.Command("go", "test", "-run=^$", "-bench=^("+strings.Join(tops, "|")+")$",
		"-benchtime="+benchtime, "-count="+strconv.Itoa(count), ".")
	cmd.Dir, cmd.Stderr = pkg, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		// BenchmarkName/case-2   1234   5678 ns/op ...
		f := strings.Fields(lines.Text())
		if len(f) < 4 || f[3] != "ns/op" || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := f[0]
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i]
		}
		ns, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return fmt.Errorf("%s: line %q: %w", pkg, lines.Text(), err)
		}
		into[pkg+" "+name] = append(into[pkg+" "+name], ns)
	}
	return lines.Err()
}

// median fails when the benchmark did not run: a bound that is not measured is no bound.
func median(measured map[string][]float64, pkg, bench string) (float64, error) {
	runs := slices.Clone(measured[pkg+" "+bench])
	if len(runs) == 0 {
		return 0, fmt.Errorf("%s in %s did not run", bench, pkg)
	}
	slices.Sort(runs)
	return runs[len(runs)/2], nil
}
