package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/otelcol"
	"go.yaml.in/yaml/v3"
)

// The configurations that we ship for containers are ones that the collector takes, also laid over each other as
// docker-compose.yaml does it.
func TestShippedConfigurations(t *testing.T) {
	const dir = "../../collector-exporter/distribution/"
	for _, files := range [][]string{{"config.container.yaml"}, {"config.container.yaml", "config.jaeger.yaml"}} {
		t.Run(strings.Join(files, "+"), func(t *testing.T) {
			t.Setenv("OTELAGENT_DB", filepath.Join(t.TempDir(), "sessions.db"))
			var uris []string
			for _, f := range files {
				uris = append(uris, "file:"+dir+f)
			}
			col, err := otelcol.NewCollector(otelcol.CollectorSettings{
				Factories: components,
				BuildInfo: buildInfo(),
				ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
					URIs:              uris,
					ProviderFactories: []confmap.ProviderFactory{envprovider.NewFactory(), fileprovider.NewFactory()},
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := col.DryRun(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// docker-compose.yaml publishes on loopback only, pins its images, and mounts files that are there.
func TestComposeFile(t *testing.T) {
	const root = "../../"
	raw, err := os.ReadFile(root + "docker-compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Image   string
			Build   struct{ Context, Dockerfile string }
			Ports   []string
			Volumes []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal(raw, &compose); err != nil {
		t.Fatal(err)
	}
	if len(compose.Services) == 0 {
		t.Fatal("no services")
	}
	for name, s := range compose.Services {
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond loopback", name, p)
			}
		}
		if s.Image != "" && (!strings.Contains(s.Image, ":") || slices.Contains([]string{"latest"}, s.Image[strings.LastIndex(s.Image, ":")+1:])) {
			t.Errorf("%s: image %q has no version", name, s.Image)
		}
		if s.Build.Dockerfile != "" {
			if _, err := os.Stat(filepath.Join(root, s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if !strings.HasPrefix(from, ".") {
				if _, ok := compose.Volumes[from]; !ok {
					t.Errorf("%s: volume %q is not declared", name, from)
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(root, from)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
