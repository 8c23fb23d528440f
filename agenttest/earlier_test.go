package agenttest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session/otlprow"
)

// What earlier builds of schema 1 sent stays readable. testdata/earlier holds their bytes as they left, and the ledgers that
// were made of them then; it is added to and never written anew.
func TestEarlierRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/earlier/*.otlp")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			b, report, err := otlprow.DecodeProto(raw)
			if err != nil || report.Cut > 0 || len(report.Rejected) > 0 || report.Foreign > 0 {
				t.Fatalf("%+v, %v", report, err)
			}
			want, err := os.ReadFile(strings.TrimSuffix(file, ".otlp") + ".ledger.json")
			if err != nil {
				t.Fatal(err)
			}
			got := ledgers(t, b)
			if len(got) != 1 {
				t.Fatalf("%d ledgers", len(got))
			}
			for _, ledger := range got {
				if diff := cmp.Diff(string(want), string(ledger)); diff != "" {
					t.Errorf("(-then +now):\n%s", diff)
				}
			}
		})
	}
}
