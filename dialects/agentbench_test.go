package dialects_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/opencode"
	"github.com/otelagent/otelagent/internal/must"
)

// longChat is a log of Gemini CLI of about n bytes, each of whose prompts, replies and results is 2 KB long, and which
// repeats each reply when its tool has ended.
func longChat(n int) []byte {
	var b bytes.Buffer
	text := strings.Repeat("All work and no play. ", 95)
	b.WriteString(`{"sessionId":"s","projectHash":"p","startTime":"2026-11-20T09:00:00Z","kind":"main"}` + "\n")
	for i := 0; b.Len() < n; i++ {
		const at = `"timestamp":"2026-11-20T09:00:01Z"`
		fmt.Fprintf(&b, `{"id":"u%d",%s,"type":"user","content":[{"text":%q}]}`+"\n", i, at, text)
		reply := fmt.Sprintf(`"id":"g%d",%s,"type":"gemini","content":%q,"thoughts":[],"tokens":{"input":9,"output":9,`+
			`"cached":0,"thoughts":0,"tool":0,"total":18},"model":"m"`, i, at, text)
		fmt.Fprintf(&b, "{%s}\n{%s,\"toolCalls\":[{\"id\":\"c%d\",\"name\":\"ls\",\"args\":{\"dir\":%q},\"result\":[{"+
			"\"functionResponse\":{\"id\":\"c%d\",\"name\":\"ls\",\"response\":{\"output\":%q}}}],"+
			"\"status\":\"success\",%s}]}\n", reply, reply, i, text, i, text, at)
		fmt.Fprintf(&b, `{"id":"h%d",%s,"type":"gemini","content":%q,"tokens":{"input":9,"output":9,"total":18}}`+"\n", i,
			at, text)
	}
	return b.Bytes()
}

// BenchmarkGemini reads a log; the floor is 60 MB/s.
func BenchmarkGemini(b *testing.B) {
	text := longChat(8 << 20)
	d, _ := dialects.Named("gemini-cli")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for _, err := range d.New().Events(bytes.NewReader(text)) {
			must.Do(b, err)
		}
	}
}

func parse(t testing.TB, text string) (d document) {
	must.Do(t, json.Unmarshal([]byte(text), &d))
	return d
}

// BenchmarkOpenCode reads a document, as it is exported and without blanks, and a database with the same messages: with
// texts of 2 KB, and with the small parts of the sample. The floor is 60 MB/s.
func BenchmarkOpenCode(b *testing.B) {
	export := readDocument(b, "opencode/testdata/"+mainExport)
	sample := export["messages"].([]any)
	for name, message := range map[string]func(i int, m document) string{
		"texts": func(i int, m document) string {
			of := m["info"].(document)
			return fmt.Sprintf(`{"info":{"id":"m%d-%s","role":%q,"time":{"created":%v}},"parts":[{"type":"text","text":%q}]}`,
				i, of["id"], of["role"], int64(of["time"].(document)["created"].(float64)),
				strings.Repeat("All work and no play. ", 95))
		},
		"small": func(i int, m document) string {
			return strings.ReplaceAll(string(must.Get(json.Marshal(m))(b)), `"msg_`, fmt.Sprintf(`"m%d_`, i))
		},
	} {
		var messages []any
		for i := range 200 {
			for _, m := range sample {
				messages = append(messages, parse(b, message(i, m.(document))))
			}
		}
		export["messages"] = messages
		dir := b.TempDir()
		write(b, dir+"/ses_long.json", must.Get(json.Marshal(export))(b))
		write(b, dir+"/ses_indented.json", must.Get(json.MarshalIndent(export, "", "  "))(b))
		db := openCodeDB(b, dir+"/opencode.db")
		must.Get(db.Exec("BEGIN"))(b)
		insert(b, db, export, len(messages))
		must.Get(db.Exec("COMMIT"))(b)
		for _, file := range []string{"ses_indented.json", "ses_long.json", "opencode.db"} {
			a := agentOf(b, opencode.Agent.Dialect)
			families := a.families(b, dir+"/"+file)
			size := must.Get(os.Stat(dir + "/ses_long.json"))(b).Size() // a database has the same texts
			if strings.HasSuffix(file, ".json") {
				size = families[0].Files[0].Size
			}
			b.Run(name+"/"+file, func(b *testing.B) {
				b.SetBytes(size)
				for b.Loop() {
					for _, err := range families[0].Events(a.new()) {
						must.Do(b, err)
					}
				}
			})
		}
	}
}
