package modules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
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

// exported returns the exported names that the package in dir declares, sorted. Methods and fields have their type
// in front.
func exported(t *testing.T, dir string) (names []string) {
	t.Helper()
	add := func(parts ...string) {
		for _, p := range parts {
			if !ast.IsExported(p) {
				return
			}
		}
		names = append(names, strings.Join(parts, "."))
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, f.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					add(typeName(d.Recv.List[0].Type), d.Name.Name)
				} else {
					add(d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, n := range s.Names {
							add(n.Name)
						}
					case *ast.TypeSpec:
						add(s.Name.Name)
						for _, f := range members(s.Type) {
							for _, n := range f.Names {
								add(s.Name.Name, n.Name)
							}
							if len(f.Names) == 0 {
								add(s.Name.Name, typeName(f.Type))
							}
						}
					}
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// members returns the fields of a struct, or the methods of an interface.
func members(t ast.Expr) []*ast.Field {
	switch t := t.(type) {
	case *ast.StructType:
		return t.Fields.List
	case *ast.InterfaceType:
		return t.Methods.List
	}
	return nil
}

// typeName returns the name of a type without its package and pointer.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
