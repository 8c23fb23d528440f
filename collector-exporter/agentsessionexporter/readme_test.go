package agentsessionexporter

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.yaml.in/yaml/v3"
)

// Every configuration in README.md is one.
func TestReadmeConfigurations(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	n := 0
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		var doc map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(m[1]), &doc), m[1])
		cm := confmap.NewFromStringMap(doc)
		if !cm.IsSet("exporters::agent_session") {
			continue
		}
		sub, err := cm.Sub("exporters::agent_session")
		require.NoError(t, err)
		cfg := createDefaultConfig().(*Config)
		require.NoError(t, sub.Unmarshal(cfg), m[1])
		require.NoError(t, confmap.Validate(cfg), m[1])
		require.Empty(t, cfg.warnings(), "what is recommended loses nothing")
		n++
	}
	require.Equal(t, 5, n)
}
