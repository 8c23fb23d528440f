//go:build linux

package compose

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
)

// What the image has of its own, as far as Debian's server of 2018 needs it: all but the users of docker-compose.yaml.
const (
	clickhouseConfig = `<?xml version="1.0"?>
<yandex>
    <logger><console>1</console><level>warning</level></logger>
    <listen_host>127.0.0.1</listen_host>
    <http_port>PORT</http_port>
    <path>FOLDER/data/</path>
    <tmp_path>FOLDER/tmp/</tmp_path>
    <user_files_path>FOLDER/user_files/</user_files_path>
    <format_schema_path>FOLDER/formats/</format_schema_path>
    <users_config>FOLDER/users.xml</users_config>
    <default_profile>default</default_profile>
    <default_database>default</default_database>
    <mark_cache_size>67108864</mark_cache_size>
</yandex>
`
	clickhouseUsers = `<?xml version="1.0"?>
<yandex>
    <profiles><default></default></profiles>
    <users></users>
    <quotas><default></default></quotas>
</yandex>
`
)

// clickhouse starts Debian's server with the mounted users in users.d, where the image reads them.
func (s *stack) clickhouse() *process {
	service := s.project.Services["clickhouse"]
	dir := s.t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "users.d"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(s.mounted(service, "/etc/clickhouse-server/users.d/otelagent.xml"))
	if err != nil {
		s.t.Fatal(err)
	}
	values := strings.NewReplacer("FOLDER", dir, "PORT", port(s.at["clickhouse"]))
	for name, text := range map[string]string{
		"config.xml":            values.Replace(clickhouseConfig),
		"users.xml":             clickhouseUsers,
		"users.d/otelagent.xml": string(text),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	config := "--config-file=" + filepath.Join(dir, "config.xml")
	p := start(s.t, "clickhouse", nil, s.env(service), program(s.t, clickhouse), config)
	s.healthy("clickhouse", "127.0.0.1:8123", s.at["clickhouse"], p)
	return p
}

// TestStackClickHouse checks the users of compose/clickhouse.env: that of the collector has a password and may write,
// and that of Grafana can only read. Debian's server of 2018 is too old for the exporter, so the test makes a table of
// its own. The store itself is tested on libchdb (interop/clickhouse), which has no users.
func TestStackClickHouse(t *testing.T) {
	s := newStack(t, variantNamed("clickhouse"))
	s.clickhouse()
	dsn := *s.project.Services["collector"].Environment["OTELAGENT_DB"]
	if !strings.HasPrefix(dsn, "clickhouse://otelagent@clickhouse:8123/") {
		t.Errorf("the collector writes to %s", dsn)
	}
	password := *s.project.Services["collector"].Environment["OTELAGENT_DB_PASSWORD"]
	for _, statement := range []string{
		"CREATE DATABASE IF NOT EXISTS otelagent",
		"CREATE TABLE otelagent.rows (session String) ENGINE = MergeTree() ORDER BY session",
		"INSERT INTO otelagent.rows SELECT 'session-of-the-test'",
	} {
		if code, body := s.ask(t, "otelagent", password, statement); code != http.StatusOK {
			t.Fatalf("%s: %d %s", statement, code, last(body, 300))
		}
	}
	reader := *s.project.Services["grafana"].Environment["CLICKHOUSE_READER_PASSWORD"]
	for _, tt := range []struct {
		name, user, password, statement string
		want                            string // the answer, or what is said of the refusal
		refused                         bool
	}{
		{"grafana reads", "grafana", reader, "SELECT count() > 0 FROM otelagent.rows", "1", false},
		{"grafana sets", "grafana", reader, "SELECT count() > 0 FROM otelagent.rows SETTINGS max_threads = 1", "1", false},
		{"grafana writes", "grafana", reader, "INSERT INTO otelagent.rows SELECT * FROM otelagent.rows", "readonly", true},
		{"grafana drops", "grafana", reader, "DROP DATABASE otelagent", "readonly", true},
		{"grafana makes itself a writer", "grafana", reader, "SET readonly = 0", "readonly", true},
		{"grafana with no password", "grafana", "", "SELECT 1", "Password required", true},
		{"otelagent with another's password", "otelagent", reader, "SELECT 1", "Wrong password", true},
		{"nobody", "default", "", "SELECT 1", "Unknown user", true},
		{"otelagent", "otelagent", password, "SELECT 1", "1", false},
	} {
		code, body := s.ask(t, tt.user, tt.password, tt.statement)
		body = strings.TrimSpace(body)
		if (code != http.StatusOK) != tt.refused || !tt.refused && body != tt.want || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d %s, want %q (refused: %v)", tt.name, code, last(body, 300), tt.want, tt.refused)
		}
	}
}

func (s *stack) ask(t *testing.T, user, password, statement string) (int, string) {
	t.Helper()
	address := "http://" + s.at["clickhouse"] + "/?" + url.Values{"query": {statement}}.Encode()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, address, nil))(t)
	req.Header.Set("X-ClickHouse-User", user)
	req.Header.Set("X-ClickHouse-Key", password)
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(io.LimitReader(resp.Body, 1<<16)))(t)
	return resp.StatusCode, string(body)
}
