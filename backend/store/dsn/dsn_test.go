package dsn

import (
	"errors"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/store"
)

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		dsn, file string
		wrong     []string // what the error says; nil: none
	}{
		{dsn: "sessions.db", file: "sessions.db"},
		{dsn: "sqlite:sessions.db", file: "sessions.db"},
		{dsn: "clickhouse://127.0.0.1/otelagent"},
		{dsn: "clickhouses://me@host:9999/otelagent?cluster=c"},
		{dsn: "clickhouse://host", wrong: []string{"no database", "clickhouse://[USER@]HOST[:8123]/DATABASE"}},
		{dsn: "postgres://me:geheim@host/x", wrong: []string{`"postgres"`, "sqlite:PATH",
			"clickhouse://[USER@]HOST[:8123]/DATABASE"}},
		{dsn: "clickhouse://me:geheim@host/x", wrong: []string{"password"}},
		{dsn: "clickhouse://me@host/x?password=geheim", wrong: []string{"password"}},
		{dsn: "clickhouse://me:geheim%zz@host/x", wrong: []string{"no URL"}},
	} {
		err := Check(c.dsn)
		if (err != nil) != (c.wrong != nil) {
			t.Errorf("Check(%q): %v", c.dsn, err)
		}
		if file, ok := File(c.dsn); file != c.file || ok != (c.file != "") {
			t.Errorf("File(%q) = %q, %v", c.dsn, file, ok)
		}
		if err == nil {
			continue
		}
		for _, w := range c.wrong {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("Check(%q) says %q, want %q in it", c.dsn, err, w)
			}
		}
		if strings.Contains(err.Error(), "geheim") {
			t.Errorf("the error of Check(%q) contains the password: %v", c.dsn, err)
		}
		if _, err := Open(t.Context(), c.dsn, WithPassword("x")); !errors.Is(err, store.ErrUnusable) {
			t.Errorf("Open(%q): %v, want one that is ErrUnusable", c.dsn, err)
		}
	}
}
