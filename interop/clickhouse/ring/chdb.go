package ring

import (
	"context"
	"path/filepath"
)

func planChdb(r *Ring, c Config) error {
	p, err := ports(1)
	if err != nil {
		return err
	}
	dir, err := r.folder("chdb")
	if err != nil {
		return err
	}
	home, err := filepath.Abs(c.Home)
	if err != nil {
		return err
	}
	s := &Server{Name: "chdb", Port: p[0]}
	s.process = process{
		name: s.Name, dir: dir, log: filepath.Join(dir, "log"),
		args: []string{
			filepath.Join(home, "bin", "chdb"), "-listen", address(s.Port),
			"-library", filepath.Join(home, "node_modules", "@chdb", "lib-linux-x64-gnu", "libchdb.so"), filepath.Join(dir, "data"),
		},
	}
	s.ready = func(ctx context.Context) error {
		_, err := s.Query(ctx, "SELECT 1", nil)
		return err
	}
	r.Servers = []*Server{s}
	return nil
}
