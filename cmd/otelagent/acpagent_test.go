package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// testAgent is the variable of the environment that makes this test's program an agent.
const testAgent = "OTELAGENT_TEST_AGENT"

// agentMain is an agent for tests, as a program of its own. Its argument says what it does.
func agentMain() {
	switch mode := strings.Join(os.Args[1:], " "); mode {
	case "echo": // every byte back, as it comes
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "flood":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<20)); err != nil {
				return
			}
		}
	case "exit":
		fmt.Fprintln(os.Stderr, "agent: giving up")
		os.Exit(7)
	case "kill":
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		time.Sleep(time.Minute)
	case "wait": // for a signal, which it reports with its exit code
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("ready")
		<-signals
		os.Exit(42)
	default:
		serveACP(mode)
	}
}

// serveACP answers prompts: "crash" ends the process in the middle of a reply, anything else is said back.
func serveACP(mode string) {
	in := bufio.NewScanner(os.Stdin)
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Prompt []struct{ Text string } }
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		switch m.Method {
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentInfo":{"name":"parrot","version":"1"}}}`, m.ID)
		case "session/new":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"acp-1"}}`, m.ID)
		case "session/prompt":
			text, _ := json.Marshal(m.Params.Prompt[0].Text)
			say(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"acp-1","update":{`+
				`"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}}}`, text)
			if mode == "noise" {
				say("this is no message")
			}
			if string(text) == `"crash"` {
				os.Exit(7)
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`, m.ID)
		}
	}
	fmt.Fprintln(os.Stderr, "agent: bye")
}
