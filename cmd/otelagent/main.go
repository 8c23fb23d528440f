// Command otelagent records, keeps and shows agent sessions: a Collector with the agent_session exporter, a sender for
// the events of agent loops, and a viewer for what they became. `otelagent help` lists the verbs.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
