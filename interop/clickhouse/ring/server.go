package ring

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"text/template"
	"time"
)

// program is Debian's server, which is not on everybody's PATH.
const program = "/usr/sbin/clickhouse-server"

//go:embed *.tmpl
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.tmpl"))

// node is one server as the templates see it.
type node struct {
	Folder                  string
	HTTP, TCP, Replication  int
	Shard, Replica          int
	Name, Cluster, Database string
	Keeper                  int // 0: it belongs to no cluster
	Shards                  [][]int
}

func planSingle(r *Ring, _ Config) error {
	p, err := ports(3)
	if err != nil {
		return err
	}
	s, err := r.server(node{Name: "server", HTTP: p[0], TCP: p[1], Replication: p[2]})
	r.Servers = []*Server{s}
	return err
}

func planCluster(r *Ring, _ Config) error {
	const shards, replicas = 2, 2
	p, err := ports(1 + 3*shards*replicas)
	if err != nil {
		return err
	}
	if r.Keeper, err = r.keeper(p[0]); err != nil {
		return err
	}
	var nodes []node
	tcp := make([][]int, shards)
	for i := range shards * replicas {
		n := node{
			Shard: 1 + i/replicas, Replica: 1 + i%replicas, Keeper: p[0], Cluster: clusterName,
			HTTP: p[1+3*i], TCP: p[2+3*i], Replication: p[3+3*i],
		}
		n.Name = "server-" + string(rune('0'+n.Shard)) + string(rune('0'+n.Replica))
		nodes = append(nodes, n)
		tcp[n.Shard-1] = append(tcp[n.Shard-1], n.TCP)
	}
	for _, n := range nodes {
		n.Shards = tcp
		s, err := r.server(n)
		if err != nil {
			return err
		}
		r.Servers = append(r.Servers, s)
	}
	return nil
}

// server writes the configuration of one server.
func (r *Ring) server(n node) (*Server, error) {
	var err error
	if n.Folder, err = r.folder(n.Name); err != nil {
		return nil, err
	}
	for _, name := range []string{"config.xml", "users.xml"} {
		if err := write(filepath.Join(n.Folder, name), name+".tmpl", n); err != nil {
			return nil, err
		}
	}
	s := &Server{Name: n.Name, Port: n.HTTP, Shard: n.Shard, Replica: n.Replica}
	s.process = process{
		name: n.Name, dir: n.Folder, log: filepath.Join(n.Folder, "out"),
		args: []string{program, "--config-file=" + filepath.Join(n.Folder, "config.xml")},
	}
	ping := "SELECT 1"
	if n.Keeper != 0 {
		ping = "SELECT count() FROM system.zookeeper WHERE path = '/'"
	}
	s.ready = func(ctx context.Context) error {
		_, err := s.Query(ctx, ping, nil)
		return err
	}
	return s, nil
}

// keeper writes the configuration of a ZooKeeper.
func (r *Ring) keeper(port int) (*Server, error) {
	s := &Server{Name: "zookeeper", Port: port}
	dir, err := r.folder(s.Name)
	if err != nil {
		return nil, err
	}
	if err := write(filepath.Join(dir, "zoo.cfg"), "zoo.cfg.tmpl", node{Folder: dir, Keeper: port}); err != nil {
		return nil, err
	}
	s.process = process{
		name: s.Name, dir: dir, log: filepath.Join(dir, "log"),
		args: []string{
			"java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true",
			// Nothing here survives the machine anyway; a kill of the process loses nothing without it.
			"-Dzookeeper.forceSync=no", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.admin.enableServer=false",
			"-cp", dir + ":/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar", "org.apache.zookeeper.server.ZooKeeperServerMain", filepath.Join(dir, "zoo.cfg"),
		},
	}
	s.ready = func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(port))
		if err != nil {
			return err
		}
		defer c.Close()
		// One that is asked while it starts may neither answer nor hang up.
		if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		if _, err := c.Write([]byte("srvr")); err != nil {
			return err
		}
		answer, err := io.ReadAll(c)
		if err == nil && !bytes.Contains(answer, []byte("Mode: standalone")) { // it listens before it serves
			err = errors.New("it does not serve yet")
		}
		return err
	}
	return s, nil
}

func write(path, name string, data any) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return templates.ExecuteTemplate(f, name, data)
}
