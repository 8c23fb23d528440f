package modules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bounds of the API of package otelagent. A new name replaces another one.
const (
	maxNames   = 130
	maxOptions = 10
)

// TestAPIIsSmall counts the exported names of package otelagent: types, functions, methods, fields, constants and
// variables.
func TestAPIIsSmall(t *testing.T) {
	names := exported(t, filepath.Join(root, "otelagent"))
	if len(names) > maxNames {
		t.Errorf("%d exported names, at most %d:\n%s", len(names), maxNames, strings.Join(names, "\n"))
	}
	options := slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, "With") })
	if len(options) > maxOptions {
		t.Errorf("%d options, at most %d:\n%s", len(options), maxOptions, strings.Join(options, "\n"))
	}
}

// exported returns the exported names that the package in dir declares. Methods and fields have their type in front.
func exported(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(file) // drops unexported declarations, fields and methods
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names = append(names, d.Name.Name)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names = append(names, n.Name)
						}
					case *ast.TypeSpec:
						names = append(names, s.Name.Name)
						if st, ok := s.Type.(*ast.StructType); ok {
							for range st.Fields.NumFields() {
								names = append(names, s.Name.Name+" field")
							}
						} else if i, ok := s.Type.(*ast.InterfaceType); ok {
							for range i.Methods.NumFields() {
								names = append(names, s.Name.Name+" method")
							}
						}
					}
				}
			}
		}
	}
	return names
}
