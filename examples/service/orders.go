package main

import (
	"fmt"
	"net/http"
)

// order is the handler of a service that knows nothing of agents.
func order(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("number") != "17" {
		http.NotFound(w, r)
		return
	}
	fmt.Fprint(w, "on its way since Tuesday")
}
