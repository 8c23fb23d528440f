package phi

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
)

// printEvent returns an event as text that depends on nothing but its fields: its type, and one line for each field
// that is not zero, in the order of the type.
func printEvent(ev event.Event) string {
	var b strings.Builder
	v := reflect.ValueOf(ev).Elem()
	b.WriteString(v.Type().Name() + "\n")
	printFields(&b, v, "  ")
	return b.String()
}

func printFields(b *strings.Builder, v reflect.Value, indent string) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		if value.IsZero() {
			continue
		}
		if field.Anonymous {
			printFields(b, value, indent)
			continue
		}
		name := field.Name
		if v.Type().Name() == "Compaction" {
			name = "Compaction." + name // CompactionResult has fields of the same names
		}
		if name == "Envelope" {
			continue // the same for all messages
		}
		printValue(b, name, value, indent)
	}
}

func printValue(b *strings.Builder, name string, v reflect.Value, indent string) {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	line := func(s string) { fmt.Fprintf(b, "%s%s: %s\n", indent, name, s) }
	switch x := v.Interface().(type) {
	case time.Time:
		line(x.Format(time.RFC3339Nano))
	case []byte:
		line(string(x))
	case string:
		line(strconv.Quote(x))
	default:
		switch v.Kind() {
		case reflect.String:
			line(v.String())
		case reflect.Struct:
			fmt.Fprintf(b, "%s%s:\n", indent, name)
			printFields(b, v, indent+"  ")
		case reflect.Slice:
			if v.Len() == 0 {
				line("none")
			}
			for i := range v.Len() {
				printValue(b, name+"["+strconv.Itoa(i)+"]", v.Index(i), indent)
			}
		default:
			line(fmt.Sprint(x))
		}
	}
}

// collect reads all of text and returns its events and errors as text, one after the other.
func collect(text string, opts ...input.Option) []string {
	var out []string
	for ev, err := range Events(strings.NewReader(text), opts...) {
		if err != nil {
			out = append(out, "error: "+err.Error()+"\n")
			continue
		}
		out = append(out, printEvent(ev))
	}
	return out
}
