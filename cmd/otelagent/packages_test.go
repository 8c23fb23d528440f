package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestPackages bounds the packages that the binary is built of, and names those that must not come back: clients of
// clouds, and languages of components that the binary does without.
func TestPackages(t *testing.T) {
	const most = 900 // those of the standard library included
	forbidden := []struct{ prefix, comesWith string }{
		{"github.com/aws/", "the prometheus exporter"},
		{"github.com/Azure/", "the prometheus exporter"},
		{"github.com/AzureAD/", "the prometheus exporter"},
		{"google.golang.org/api/", "the prometheus exporter"},
		{"github.com/prometheus/prometheus/", "the prometheus exporter"},
		{"github.com/expr-lang/", "the filter processor"},
		{"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/ottl", "the filter processor"},
		{"cloud.google.com/", "the Collector's own telemetry, otelconftelemetry"},
		{"github.com/GoogleCloudPlatform/", "the Collector's own telemetry, otelconftelemetry"},
		{"go.opentelemetry.io/contrib/detectors/", "the Collector's own telemetry, otelconftelemetry"},
		{"k8s.io/", "the Collector's own telemetry, otelconftelemetry"},
		{"sigs.k8s.io/", "the Collector's own telemetry, otelconftelemetry"},
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(out))
	if len(packages) > most {
		t.Errorf("%d packages, want at most %d", len(packages), most)
	}
	for _, p := range packages {
		for _, f := range forbidden {
			if strings.HasPrefix(p, f.prefix) {
				t.Errorf("%s is in the binary; it comes with %s", p, f.comesWith)
			}
		}
	}
}
