//go:build linux

package soak

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	soakTime = flag.Duration("for", 0, "how long all tests take together, about; 0 is the short form")
	seedFlag = flag.Uint64("seed", 0, "seed of everything random; 0 takes one from the clock. It is printed")
	binFlag  = flag.String("bin", "", "the otelagent to test, instead of one that is built")
	strict   = flag.Bool("strict", false, "hold times to what docs/reliability.md says, not to what a busy machine "+
		"reaches")
)

// bin is the program under test, seed what every test's randomness begins with.
var (
	bin  string
	seed uint64
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(programEnv); spec != "" {
		runProgram(spec)
		return
	}
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if testing.Short() {
		return m.Run() // all of them skip
	}
	_ = flag.Set("test.parallel", "4") // they wait more than they compute; what measures time is not parallel
	if seed = *seedFlag; seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	fmt.Printf("soak: -seed=%d\n", seed)
	if bin = *binFlag; bin == "" {
		dir, err := os.MkdirTemp("", "otelagent-soak-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		_ = os.Chmod(dir, 0o755) // one test runs it as another user
		bin = filepath.Join(dir, "otelagent")
		if out, err := exec.Command("go", "build", "-o", bin, "..").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build otelagent: %v\n%s", err, out)
			return 1
		}
	} else if abs, err := filepath.Abs(bin); err == nil {
		bin = abs
	}
	return m.Run()
}

// begin skips where it must and returns the test's own random source.
func begin(t *testing.T) *rand.Rand {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: runs real processes for seconds")
	}
	var h uint64 = 14695981039346656037
	for _, c := range []byte(t.Name()) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}

// lasting returns how long a test goes on: short in the short form, else its share, in percent, of the whole.
func lasting(short time.Duration, percent int) time.Duration {
	return max(short, *soakTime*time.Duration(percent)/100)
}

// figure prints one line of figures, which `make soak` collects.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("FIGURE %s: %s", t.Name(), fmt.Sprintf(format, args...))
}
