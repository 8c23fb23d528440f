package clickhousestore

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/store"
)

// allowed is what error texts about a DSN end with.
const allowed = "want clickhouse://[USER@]HOST[:8123]/DATABASE (clickhouses:// for TLS), after it ?cluster=NAME, " +
	"quorum=N, timeout=30s, ttl=90d"

const (
	// DefaultTimeout is how long the server may be silent during one statement.
	DefaultTimeout = 30 * time.Second
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = time.Hour
	minTTL         = 24 * time.Hour
	maxTTL         = 100 * 365 * 24 * time.Hour
	maxQuorum      = 16
)

// A DSN is what ParseDSN reads of one. It never holds a password.
type DSN struct {
	// TLS is true for clickhouses://.
	TLS bool
	// Host is HOST:PORT; the port is 8123, with TLS 8443, unless it is given.
	Host string
	// User is empty when none is given: ClickHouse then takes "default".
	User     string
	Database string
	// Cluster is the name of a cluster in the server's configuration: tables are made on all its servers, replicated
	// and sharded by session. Empty: tables of the one server.
	Cluster string
	// Quorum is how many replicas must have a Put before it returns; every read then sees it. 0: one, and readers of
	// another replica may see it a moment later. Only with Cluster.
	Quorum int
	// Timeout is how long the server may be silent during one statement, DefaultTimeout unless given.
	Timeout time.Duration
	// TTL makes the engine drop what is older than that since it was last put, span by span; 0: never.
	TTL time.Duration
}

// name is what databases and clusters may be called: what needs no quoting in any place where it is used.
var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// IsDSN reports whether dsn is meant for this package, by its scheme.
func IsDSN(dsn string) bool {
	return strings.HasPrefix(dsn, "clickhouse:") || strings.HasPrefix(dsn, "clickhouses:")
}

// ParseDSN reads a DSN. It connects to nothing. Its error names every problem with what is allowed; it never holds what
// may be a password.
func ParseDSN(dsn string) (DSN, error) {
	d := DSN{Timeout: DefaultTimeout}
	u, err := url.Parse(dsn)
	if err != nil { // its text holds the DSN
		return DSN{}, fmt.Errorf("clickhousestore: the DSN is no URL: %s", allowed)
	}
	var problems []string
	want := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	const nameRule = "want at most 64 letters, digits and underscores that begin with no digit"
	d.TLS, d.User, d.Database = u.Scheme == "clickhouses", u.User.Username(), strings.TrimPrefix(u.Path, "/")
	want(d.TLS || u.Scheme == "clickhouse", "scheme %q, want clickhouse or clickhouses", u.Scheme)
	_, password := u.User.Password()
	want(!password,
		"a password stands in the DSN, where others may read it: give it as the key password or in $OTELAGENT_DB_PASSWORD")
	control := strings.ContainsFunc(d.User, func(r rune) bool { return r < ' ' || r == 0x7f })
	want(!control, "user %q has control characters", d.User)
	want(u.Opaque == "" && u.Hostname() != "", "no host")
	port := u.Port()
	if port == "" {
		port = map[bool]string{false: "8123", true: "8443"}[d.TLS]
	}
	n, err := strconv.Atoi(port)
	want(err == nil && n > 0 && n < 1<<16, "port %q, want 1 to 65535", port)
	d.Host = net.JoinHostPort(u.Hostname(), port)
	want(d.Database != "", "no database, want /DATABASE behind the host")
	want(d.Database == "" || name.MatchString(d.Database) && d.Database != "system", "database %q, %s, and not system",
		d.Database, nameRule)
	want(u.Fragment == "", "a fragment (#), want none")
	q, err := url.ParseQuery(u.RawQuery)
	want(err == nil, "the part behind ? does not parse")
	for _, key := range slices.Sorted(maps.Keys(q)) {
		v := q.Get(key)
		want(len(q[key]) == 1, "%s is given %d times", key, len(q[key]))
		switch key {
		case "cluster":
			d.Cluster = v
			want(name.MatchString(v), "cluster %q, %s", v, nameRule)
		case "quorum":
			d.Quorum, err = strconv.Atoi(v)
			want(err == nil && d.Quorum > 1 && d.Quorum <= maxQuorum, "quorum %q, want a number from 2 to %d", v, maxQuorum)
			want(q.Has("cluster"), "quorum without a cluster")
		case "timeout":
			d.Timeout, err = time.ParseDuration(v)
			want(err == nil && d.Timeout >= minTimeout && d.Timeout <= maxTimeout, "timeout %q, want a duration from %v to %v",
				v, minTimeout, maxTimeout)
		case "ttl":
			d.TTL, err = store.ParseAge(v)
			want(err == nil && d.TTL >= minTTL && d.TTL <= maxTTL, "ttl %q, want 1d to 36500d, or hours (720h)", v)
		case "user", "password":
			want(false, "%s stands behind ?: the user belongs in front of the host, the password in the key password or in "+
				"$OTELAGENT_DB_PASSWORD", key)
		default:
			want(false, "unknown key %q, want cluster, quorum, timeout or ttl", key)
		}
	}
	if len(problems) > 0 {
		return DSN{}, fmt.Errorf("clickhousestore: DSN: %s: %s", strings.Join(problems, "; "), allowed)
	}
	return d, nil
}

// base returns the URL that all statements go to.
func (d DSN) base() url.URL {
	u := url.URL{Scheme: "http", Host: d.Host, Path: "/"}
	if d.TLS {
		u.Scheme = "https"
	}
	return u
}
