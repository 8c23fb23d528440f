//go:build linux

package compose

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// No registry has Tempo, so CI does not run it. compose/tempo.run.yaml records a run by hand.
var (
	tempoFile   = filepath.Join(root, "compose", "tempo.yaml")
	tempoRecord = filepath.Join(root, "compose", "tempo.run.yaml")
)

// tempoRun is one run of TestStack with a Tempo.
type tempoRun struct {
	SHA256  string // of compose/tempo.yaml as it was then
	Version string // of Tempo
	Commit  string
	Date    string // 2006-01-02
}

func tempoHash(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(tempoFile)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// recordTempo writes the record of a run that went well.
func recordTempo(t *testing.T) {
	t.Helper()
	out, err := run(t, nil, program(t, tempo), "-version")
	said := regexp.MustCompile(`version (\S+) \(branch: \S*, revision: ([0-9a-f]+)\)`).FindStringSubmatch(out)
	if err != nil || said == nil {
		t.Fatalf("%v: no version in %q", err, out)
	}
	today := time.Now().UTC().Format(time.DateOnly)
	text, err := yaml.Marshal(tempoRun{SHA256: tempoHash(t), Version: said[1], Commit: said[2], Date: today})
	if err != nil {
		t.Fatal(err)
	}
	head := "# The last run of compose/tempo.yaml by a real Tempo. Written by interop/compose/run.sh tempo.\n"
	if err := os.WriteFile(tempoRecord, append([]byte(head), text...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// compose/tempo.yaml is not edited without a run.
func TestTempoWasRun(t *testing.T) {
	text, err := os.ReadFile(tempoRecord)
	if err != nil {
		t.Fatal(err)
	}
	var r tempoRun
	if err := yaml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.SHA256 != tempoHash(t) {
		t.Error("compose/tempo.yaml was changed after its last run: TEMPO=.../tempo interop/compose/run.sh tempo runs it")
	}
	if _, err := time.Parse(time.DateOnly, r.Date); err != nil || r.Version == "" || r.Commit == "" {
		t.Errorf("version %q, commit %q, date %q", r.Version, r.Commit, r.Date)
	}
}
