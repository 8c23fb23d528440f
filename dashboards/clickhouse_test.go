package dashboards

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/store/clickhousestore"
	"github.com/otelagent/otelagent/internal/must"
)

// TestClickHouse runs every statement of the ClickHouse dashboard on a server, and wants the answers that SQLite gave.
// It needs an engine of these years, as the plugin of Grafana does:
//
//	interop/clickhouse/run.sh chdb go -C dashboards test . -run TestClickHouse
func TestClickHouse(t *testing.T) {
	server := os.Getenv("OTELAGENT_TEST_CLICKHOUSE")
	if server == "" {
		t.Skip("no ClickHouse server: set OTELAGENT_TEST_CLICKHOUSE to a DSN (interop/clickhouse/run.sh chdb COMMAND " +
			"does, and make interop-clickhouse in CI)")
	}
	u := must.Get(url.Parse(server))(t)
	database := fmt.Sprintf("otelagent_dashboards_%016x", rand.Uint64())
	u.Path = "/" + database
	st := must.Get(clickhousestore.Open(t.Context(), u.String()))(t)
	fill(t, st)
	must.Do(t, st.Close())
	base := &url.URL{Scheme: "http", Host: u.Host}
	send := func(t *testing.T, statement string) []byte {
		t.Helper()
		q := url.Values{"database": {database}, "default_format": {"JSONCompact"},
			"output_format_json_quote_64bit_integers": {"0"}}
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, base.String()+"/?"+q.Encode(),
			strings.NewReader(statement)))(t)
		if u.User != nil {
			password, _ := u.User.Password()
			req.SetBasicAuth(u.User.Username(), password)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v: %.500s\n%s", resp.StatusCode, err, body, statement)
		}
		return body
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer send(t, "DROP DATABASE `"+database+"`")

	ask := func(t *testing.T, statement string) answer {
		t.Helper()
		var got struct {
			Meta []struct{ Name, Type string }
			Data [][]any
		}
		must.Do(t, json.Unmarshal(send(t, statement), &got))
		a := answer{}
		for _, m := range got.Meta {
			a.columns = append(a.columns, m.Name)
		}
		for _, cells := range got.Data {
			var row []string
			for i, c := range cells {
				text := "NULL"
				switch c := c.(type) {
				case float64:
					text = number(c)
				case string:
					text = c
					if strings.Contains(got.Meta[i].Type, "DateTime64(") {
						at, err := time.Parse("2006-01-02 15:04:05", c) // takes a fraction, too
						must.Do(t, err)
						text = number(float64(at.UnixNano()) / 1e9)
					}
				case nil:
				default:
					t.Fatalf("column %s is a %T", a.columns[i], c)
				}
				row = append(row, text)
			}
			a.rows = append(a.rows, row)
		}
		return a
	}
	got := run(t, "session-clickhouse.json", ask, of("everything"))
	compare(t, "session-clickhouse.json", got, ask)
}
