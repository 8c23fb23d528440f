package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, tt := range []struct {
		name   string
		status int
		args   []string
		want   string // in the error; empty: none
	}{
		{"up", http.StatusOK, []string{server.URL}, ""},
		{"not ready", http.StatusServiceUnavailable, []string{server.URL}, "503"},
		{"nobody listens", 0, []string{gone.URL}, "refused"},
		{"no URL", 0, nil, "want one URL"},
	} {
		status = tt.status
		err := check(tt.args)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
