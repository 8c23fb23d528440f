package compose

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// root is the root of the repository, absolute as compose wants it.
var root = func() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}()

// A variant is one way of starting the services that the documents name.
type variant struct {
	name    string
	files   []string // compose files, below root
	envFile string   // --env-file, below root
	env     []string // of the user
}

const mainFile = "docker-compose.yaml"

var variants = []variant{
	{name: "default", files: []string{mainFile}},
	{name: "clickhouse", files: []string{mainFile}, envFile: "compose/clickhouse.env",
		env: []string{"CLICKHOUSE_PASSWORD=of-the-collector", "CLICKHOUSE_READER_PASSWORD=of-grafana"}},
	{name: "grafana-admin", files: []string{mainFile, "compose/grafana-admin.yaml"},
		env: []string{"GRAFANA_ADMIN_PASSWORD=of-the-user"}},
	{name: "native-histograms", files: []string{mainFile, "compose/native-histograms.yaml"}},
}

// load reads compose files as `docker compose` does: interpolated, checked against the schema, merged, with the
// profiles that COMPOSE_PROFILES names, and without the environment of this process.
func load(ctx context.Context, v variant) (*types.Project, error) {
	files := make([]string, len(v.files))
	for i, f := range v.files {
		if filepath.IsAbs(f) {
			files[i] = f
			continue
		}
		files[i] = filepath.Join(root, f)
	}
	opts := []cli.ProjectOptionsFn{cli.WithWorkingDirectory(root), cli.WithEnv(v.env)}
	if v.envFile != "" {
		opts = append(opts, cli.WithEnvFiles(filepath.Join(root, v.envFile)))
	}
	opts = append(opts, cli.WithDotEnv, cli.WithDefaultProfiles())
	o, err := cli.NewProjectOptions(files, opts...)
	if err != nil {
		return nil, err
	}
	return o.LoadProject(ctx)
}

func mustLoad(t *testing.T, v variant) *types.Project {
	t.Helper()
	p, err := load(t.Context(), v)
	if err != nil {
		t.Fatalf("%s: %v", v.name, err)
	}
	return p
}

func variantNamed(name string) variant {
	for _, v := range variants {
		if v.name == name {
			return v
		}
	}
	panic("no variant " + name)
}
