package agenttest

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Dump returns an event as one line of JSON: its name, and its fields that are not zero, at any depth, in their order.
// Bytes that are JSON without line ends are written as they are, others as a string after the word text.
func Dump(ev any) string {
	v := reflect.Indirect(reflect.ValueOf(ev))
	return `{"event":"` + snake(v.Type().Name()) + `"` + fields(v, v.Type()) + `}`
}

func snake(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
}

// fields returns the fields of v, which a struct of type outer embeds, each after a comma.
func fields(v reflect.Value, outer reflect.Type) (out string) {
	for f, at := range v.Fields() {
		name := snake(f.Name)
		if _, alone := outer.FieldByName(f.Name); !alone {
			name = snake(v.Type().Name()) + "." + name
		}
		if f.Anonymous {
			out += fields(at, outer)
		} else if !at.IsZero() && (at.Kind() != reflect.Slice || at.Len() > 0) {
			out += `,"` + name + `":` + value(at)
		}
	}
	return out
}

func value(v reflect.Value) (out string) {
	v = reflect.Indirect(v)
	switch p := v.Interface().(type) {
	case time.Time:
		return p.UTC().Format(`"` + time.RFC3339Nano + `"`)
	case []byte:
		if bytes.ContainsAny(p, "\r\n") || rawjson.Valid(p, rawjson.MaxDepth) != nil {
			return "text " + string(rawjson.Quote(nil, string(p)))
		}
		return string(p)
	}
	switch v.Kind() {
	case reflect.String:
		return string(rawjson.Quote(nil, v.String()))
	case reflect.Slice:
		for _, element := range v.Seq2() {
			out += "," + value(element)
		}
		return "[" + out[1:] + "]"
	case reflect.Struct:
		return "{" + strings.TrimPrefix(fields(v, v.Type()), ",") + "}"
	}
	return fmt.Sprint(v.Interface())
}
