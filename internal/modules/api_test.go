package modules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
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

// exported returns the exported names that the package in dir declares, sorted. Fields have their type in front.
func exported(t *testing.T, dir string) (names []string) {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(dir, "*.go")))(t)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		ast.FileExports(file)
		within := ""
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				names = append(names, n.Name.Name)
				return false
			case *ast.TypeSpec:
				names, within = append(names, n.Name.Name), n.Name.Name+"."
			case *ast.ValueSpec:
				for _, name := range n.Names {
					names = append(names, name.Name)
				}
				return false
			case *ast.FuncType:
				return false
			case *ast.Field:
				for _, name := range n.Names {
					names = append(names, within+name.Name)
				}
			}
			return true
		})
	}
	slices.Sort(names)
	return names
}
