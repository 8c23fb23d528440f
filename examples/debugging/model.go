package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

var (
	unusedFor = regexp.MustCompile(`(?m)^(\w+): last used (\d+) days ago$`)
	never     = regexp.MustCompile(`Never touch (\w+)`)
)

// ask is the model. It does what is in the request, to the letter: what is not there it does not know.
func ask(request []byte) (reply []block, usage otelagent.Usage) {
	var r struct{ Messages []message }
	_ = json.Unmarshal(request, &r) // ours
	var said strings.Builder        // by the user, and by tools
	did := map[string]bool{}        // what was called
	tests := ""                     // what they said
	listed := ""
	calls := 0
	names := map[string]string{} // of calls by their ids
	for _, m := range r.Messages {
		for _, b := range m.Content {
			switch b.Type {
			case "tool_use":
				calls++
				names[b.ID] = b.Name
				did[b.Name+" "+string(b.Input)] = true
			case "tool_result":
				switch names[b.ToolUseID] {
				case "list_folders":
					listed = b.Content
				case "run_tests":
					tests = b.Content
				}
			case "text":
				said.WriteString(b.Text + "\n")
				for line := range strings.Lines(b.Text) { // a summary of what was done
					if what, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
						did[what] = true
						calls++
					}
				}
			}
		}
	}
	usage = otelagent.Usage{Input: int64(len(request) / 4), Output: 30, Rule: spans.UsageRuleIncludesCache}
	call := func(text, name, folder string) ([]block, otelagent.Usage) {
		input := json.RawMessage(`{}`)
		if folder != "" {
			input = json.RawMessage(fmt.Sprintf(`{"folder":%q}`, folder))
		}
		return []block{{Type: "text", Text: text}, {Type: "tool_use", ID: fmt.Sprintf("toolu_%02d", calls+1), Name: name,
			Input: input}}, usage
	}
	if tests != "" {
		return []block{{Type: "text", Text: "I deleted what nobody used for 90 days. The tests: " +
			strings.TrimPrefix(tests, "error: ") + "."}}, usage
	}
	if listed == "" {
		return call("Let me see which folders there are.", "list_folders", "")
	}
	for _, m := range unusedFor.FindAllStringSubmatch(listed, -1) {
		folder := m[1]
		days, _ := strconv.Atoi(m[2])
		forbidden := slices.ContainsFunc(never.FindAllStringSubmatch(said.String(), -1),
			func(n []string) bool { return n[1] == folder })
		arg := fmt.Sprintf(`{"folder":%q}`, folder)
		switch {
		case days < 90 || forbidden || did["delete_folder "+arg]:
		case !did["look_into "+arg]:
			return call(fmt.Sprintf("Nobody used %s for %d days. What is in it?", folder, days), "look_into", folder)
		default:
			return call(fmt.Sprintf("%s can go.", folder), "delete_folder", folder)
		}
	}
	return call("Nothing else is old. Now the tests.", "run_tests", "")
}

// listFolders says of each folder how long ago it was used.
func listFolders(root *os.Root) (string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return "", err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	var lines []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprintf("%s: last used %d days ago", e.Name(), int(time.Since(info.ModTime()).Hours()/24)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), err
}

func readDir(root *os.Root, folder string) ([]string, error) {
	dir, err := root.Open(folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}
