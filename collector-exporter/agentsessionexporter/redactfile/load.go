// Package redactfile reads the files of rules that docs/redaction.md describes.
package redactfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/otelagent/otelagent/otelagent/redact"
	"github.com/otelagent/otelagent/spans"
)

// maxFile bounds a file of rules.
const maxFile = 1 << 20

// file is what a file holds.
type file struct {
	Defaults *bool  `yaml:"defaults"`
	Rules    []rule `yaml:"rules"`
}

type rule struct {
	Name       string                 `yaml:"name"`
	Regexp     string                 `yaml:"regexp"`
	Key        string                 `yaml:"key"`
	Provenance []spans.ProvenanceKind `yaml:"provenance"`
	Role       []string               `yaml:"role"`
	Place      []string               `yaml:"place"`
}

// Load reads rules from YAML or JSON. The default set applies unless the file turns it off. The error joins every
// problem, each with its line or the number of its rule. It quotes nothing of the file but wrong keys and values, and
// bounds these.
func Load(r io.Reader) (rules *redact.Rules, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("redact: reading rules: %w", err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("redact: rules are larger than %d bytes", maxFile)
	}
	defer func() {
		if recover() != nil { // the library panics on some broken documents
			rules, err = nil, errors.New("redact: rules are no YAML")
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var f file
	switch err := decoder.Decode(&f); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("redact: no rules: want a mapping with defaults and rules")
	case err != nil:
		return nil, problems(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("redact: a second document: want one")
	}
	c := redact.Config{WithoutDefaults: f.Defaults != nil && !*f.Defaults}
	for _, r := range f.Rules {
		c.Rules = append(c.Rules, redact.Rule(r))
	}
	if c.WithoutDefaults && len(c.Rules) == 0 {
		return nil, errors.New("redact: defaults is false and there are no rules: nothing would be redacted")
	}
	return redact.New(c)
}

// problems returns an error of the YAML library with one line for each problem.
func problems(err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("redact: %w", err)
	}
	var all []error
	for _, text := range wrong.Errors {
		text, _, _ = strings.Cut(text, " in type redactfile.")
		all = append(all, errors.New("redact: "+text))
	}
	return errors.Join(all...)
}
