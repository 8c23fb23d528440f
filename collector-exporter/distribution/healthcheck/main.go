// Command healthcheck asks one URL and ends with 0 when the answer is a success, else with 1 and the reason. The image
// of the distribution has it because that has no shell and no curl:
//
//	healthcheck http://127.0.0.1:13133/
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := check(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "healthcheck:", err)
		os.Exit(1)
	}
}

// check returns nil when the URL, the only argument, answers within 2 seconds with a status of 200 to 299.
func check(args []string) error {
	if len(args) != 1 {
		return errors.New("want one URL")
	}
	client := &http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get(args[0])
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%s answers %s", args[0], resp.Status)
	}
	return nil
}
