package acp

import (
	"bytes"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Recognise reports whether head, the beginning of an input of up to 64 KiB that may be cut anywhere, is a capture of ACP, and why in a few
// words that hold nothing of it. The first line that is none of otelagent's own decides.
func Recognise(head []byte) (why string, ok bool) {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for in.Scan() {
		text := in.Line().Text
		if len(text) == 0 || ndjson.Own(text) {
			continue
		}
		if string(text) == debugLogHead {
			return "the debug log of a conductor", true
		}
		if text[0] != '{' {
			f := frame{}
			message, _ := new(debugLog).line(&f, text)
			if f.dir == Unknown {
				return "", false
			}
			text = message
		}
		return recogniseLine(text)
	}
	return "", false
}

// recogniseLine reads one line, which may be cut.
func recogniseLine(text []byte) (string, bool) {
	o := beginning(text)
	rpc := bytes.Contains(text, []byte("jsonrpc")) || bytes.Contains(text, []byte(`"method"`))
	switch {
	case o.raw(sidecar) != nil && rpc:
		return "lines with jsonrpc and " + sidecar, true
	case o.raw("jsonrpc") != nil:
		return "lines with jsonrpc", true
	case o.word("from") != "" && o.word("to") != "" && o.raw(input.Key) != nil && (o.word("type") == "request" || o.word("type") == "notification" || o.word("type") == "response"):
		return "lines with type, from and to, as a conductor traces", true
	case (o.word("direction") != "" || o.word("dir") != "") && firstMessage(o) != nil && rpc:
		return "lines with direction and message", true
	case o.raw("message") != nil && bytes.Contains(o.raw("message"), []byte(`"jsonrpc"`)):
		return "lines with a message of jsonrpc", true
	}
	for _, m := range o {
		if directionOf(m.key) != Unknown && m.value[0] == '{' && rpc {
			return "lines with direction as the key of a message", true
		}
	}
	return "", false
}

// closed returns what there is of a value that is cut: of a string a string, without an escape that is cut too.
func closed(value []byte) []byte {
	if len(value) == 0 || value[0] != '"' {
		return value
	}
	const pair = len(`\ud83d\ude00`) // the longest thing that must not be parted
	if i := bytes.IndexByte(value[max(1, len(value)-pair):], '\\'); i >= 0 {
		value = value[:max(1, len(value)-pair)+i]
	}
	value = append(bytes.Clone(value), '"')
	if rawjson.Valid(value, maxDepth) != nil {
		return []byte(`""`)
	}
	return value
}

// beginning returns the members of an object that may be cut, the last one with what there is of its value.
func beginning(text []byte) (o object) {
	c := rawjson.NewCursor(text, maxDepth)
	if !c.Open('{') {
		return nil
	}
	for c.More('}') {
		key := string(c.Key())
		start := c.Pos()
		if c.Peek() == 0 {
			break
		}
		value := c.Value()
		if c.Err() != nil {
			value = closed(bytes.TrimLeft(text[start:], " \t:"))
		}
		if len(value) == 0 {
			break
		}
		o = append(o, member{key, value})
	}
	return o
}
