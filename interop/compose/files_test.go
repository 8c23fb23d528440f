//go:build linux

package compose

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/internal/must"
)

// readers say which program reads what is mounted, by where it is mounted, and let it. A mounted file that none of them
// knows fails the test.
var readers = map[string]func(t *testing.T, s types.ServiceConfig, file string){
	"/etc/otelcol-agent/compose.yaml":           validateCollector,
	"/etc/otelcol-agent/native-histograms.yaml": validateCollector,
	"/etc/jaeger/jaeger.yaml": func(t *testing.T, _ types.ServiceConfig, file string) {
		if out, err := run(t, nil, program(t, jaeger), "validate", "--config", file); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	},
	// interop/backends compares the links that a Jaeger gives to its UI.
	"/etc/jaeger/ui.json": func(t *testing.T, _ types.ServiceConfig, file string) {
		text, err := os.ReadFile(file)
		if err != nil || !json.Valid(text) {
			t.Errorf("no JSON: %v", err)
		}
	},
	"/etc/prometheus/prometheus.yaml": func(t *testing.T, _ types.ServiceConfig, file string) {
		if out, err := run(t, nil, program(t, promtool), "check", "config", file); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	},
	"/etc/tempo/tempo.yaml": func(t *testing.T, _ types.ServiceConfig, file string) {
		// No registry has Tempo, so that CI does not read this file; compose/README.md says how it is done by hand.
		bin := os.Getenv(tempo)
		if bin == "" {
			t.Skip("TEMPO names no program, and no registry has one")
		}
		if out, err := run(t, nil, bin, "-config.verify=true", "-config.expand-env=true", "-config.file="+file); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	},
	"/etc/clickhouse-server/users.d/otelagent.xml":         nil, // TestStackClickHouse starts the server with it
	"/var/lib/otelagent-dashboards":                        nil, // of dashboards/, which has tests of its own
	"/etc/grafana/provisioning/dashboards":                 checkProviders,
	"/etc/grafana/provisioning/datasources/otelagent.yaml": checkSources,
	"/etc/grafana/provisioning/datasources/store.yaml":     checkSources,
}

func TestMountedFiles(t *testing.T) {
	for _, v := range variants {
		for name, s := range mustLoad(t, v).Services {
			for _, m := range s.Volumes {
				if m.Type != types.VolumeTypeBind {
					continue
				}
				t.Run(v.name+"/"+name+"/"+filepath.Base(m.Target), func(t *testing.T) {
					read, ok := readers[m.Target]
					if !ok {
						t.Fatalf("nobody reads %s, mounted at %s, in a test", m.Source, m.Target)
					}
					if read != nil {
						read(t, s, m.Source)
					}
				})
			}
		}
	}
}

// validateCollector lets the collector look at all files that the container gives it, in their order.
func validateCollector(t *testing.T, s types.ServiceConfig, _ string) {
	st := &stack{t: t, project: &types.Project{Services: types.Services{"collector": s}}, data: t.TempDir()}
	args := append([]string{"validate"}, st.collectorArgs(s)...)
	if out, err := run(t, st.env(s), program(t, otelcol), args...); err != nil {
		t.Errorf("%q: %v\n%s", args, err, out)
	}
	// What is wrong is found: the same with a key that does not exist.
	args = append(args, "--config=yaml:exporters::agent_session::no_such_key: 1")
	if _, err := run(t, st.env(s), program(t, otelcol), args...); err == nil {
		t.Error("validate finds nothing wrong in a wrong key")
	}
}

// provisioning is the part of Grafana's provisioning files that tests read.
type provisioning struct {
	APIVersion  int `yaml:"apiVersion"`
	Datasources []struct {
		Name, Type     string
		UID            string            `yaml:"uid"`
		URL            string            `yaml:"url"`
		JSONData       map[string]any    `yaml:"jsonData"`
		SecureJSONData map[string]string `yaml:"secureJsonData"`
	}
	Providers []struct {
		AllowUIUpdates bool `yaml:"allowUiUpdates"`
		Options        struct{ Path string }
	}
}

// provisioned reads a provisioning file.
func provisioned(t *testing.T, file string) (p provisioning) {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	if err := yaml.Unmarshal(text, &p); err != nil || p.APIVersion != 1 || len(p.Datasources)+len(p.Providers) == 0 {
		t.Errorf("%s: version %d, %d entries, %v", file, p.APIVersion, len(p.Datasources)+len(p.Providers), err)
	}
	return p
}

// checkSources: what a data source names exists among the services: addresses, the file, the plugin, the password's
// variable.
func checkSources(t *testing.T, grafana types.ServiceConfig, file string) {
	plugins := *grafana.Environment["GF_PLUGINS_PREINSTALL_SYNC"]
	urls := map[string]string{
		"prometheus": "http://prometheus:9090",
		"tempo":      "http://tempo:3200",
		"jaeger":     "http://jaeger:16686",
	}
	for _, s := range provisioned(t, file).Datasources {
		if s.UID == "" || s.Name == "" {
			t.Errorf("%s: a data source has uid %q and name %q", file, s.UID, s.Name)
		}
		switch want, builtIn := urls[s.Type]; {
		case builtIn:
			if s.URL != want {
				t.Errorf("%s: %s is asked at %q, want %q", file, s.Type, s.URL, want)
			}
		case !strings.Contains(plugins, s.Type+"@"):
			t.Errorf("%s: the plugin %s is not installed; there are %s", file, s.Type, plugins)
		case s.Type == "frser-sqlite-datasource":
			path, _ := s.JSONData["path"].(string)
			if !slices.ContainsFunc(
				grafana.Volumes,
				func(v types.ServiceVolumeConfig) bool { return v.ReadOnly && filepath.Dir(path) == v.Target },
			) {
				t.Errorf("%s: the folder of %q is not mounted read-only", file, path)
			}
			if options := fmt.Sprint(s.JSONData["pathOptions"]); options != sqliteOptions {
				t.Errorf("%s: pathOptions is %q, and TestReadOnlySessions reads with %q", file, options, sqliteOptions)
			}
		case s.Type == "grafana-clickhouse-datasource":
			if host, user := s.JSONData["host"], s.JSONData["username"]; host != "clickhouse" || user != "grafana" {
				t.Errorf("%s: ClickHouse is asked at %v by %v, want clickhouse by grafana, who may only read", file, host, user)
			}
		}
		for k, v := range s.SecureJSONData {
			name, ok := strings.CutPrefix(v, "$")
			name = strings.Trim(name, "{}")
			if _, set := grafana.Environment[name]; !ok || !set {
				t.Errorf("%s: %s of %s is no variable of Grafana's environment", file, k, s.Name)
			}
		}
	}
}

// checkProviders: dashboards are looked for where they are mounted, and cannot be changed.
func checkProviders(t *testing.T, grafana types.ServiceConfig, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s, %v", len(files), dir, err)
	}
	for _, file := range files {
		for _, p := range provisioned(t, file).Providers {
			i := slices.IndexFunc(grafana.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == p.Options.Path })
			if i < 0 {
				t.Errorf("%s: nothing is mounted at %s", file, p.Options.Path)
				continue
			}
			if found, err := filepath.Glob(filepath.Join(grafana.Volumes[i].Source, "*.json")); err != nil || len(found) == 0 {
				t.Errorf("%s: %d dashboards in %s, %v", file, len(found), grafana.Volumes[i].Source, err)
			}
			if p.AllowUIUpdates {
				t.Errorf("%s: dashboards may be changed", file)
			}
		}
	}
	home := *grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	for _, v := range grafana.Volumes {
		if rel, ok := strings.CutPrefix(home, v.Target+"/"); ok {
			if _, err := os.Stat(filepath.Join(v.Source, rel)); err != nil {
				t.Errorf("the first page: %v", err)
			}
			return
		}
	}
	t.Errorf("the first page %s is not mounted", home)
}
