package export

import "testing"

// Whatever it is given, it says something of it.
func FuzzReadMessage(f *testing.F) {
	f.Add(`{"role":"assistant","parts":[{"type":"tool-x","state":"output-available"}]}`)
	f.Add(`{"role":"user","content":[{"type":"thinking","signature":1}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		m := readMessage([]byte(body))
		for _, p := range m.parts {
			if len(p.spelled()) == 0 && p.Type != partCall && p.Type != partResult {
				t.Errorf("a part that says nothing")
			}
		}
	})
}
