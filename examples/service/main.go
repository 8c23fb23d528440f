// Command service is an HTTP service that had tracing before it had an agent: otelhttp makes a span of each request,
// and the agent's run is a child of it. One tool of the agent calls another instrumented service, which shows under
// its tool call; a second tool asks an agent in another process, whose run is a child of the call that asked.
//
//	go run ./service
//
// starts all three as processes of their own, asks one question, prints the answer and ends. With -as support, orders
// or research it is one of them and serves until Ctrl-C.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/baggage"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

func main() {
	log.SetFlags(0)
	as := flag.String("as", "",
		"`service` to be: support, orders or research; empty: start all three and ask one question")
	listen := flag.String("listen", "127.0.0.1:0", "`address` to serve on")
	orders := flag.String("orders", "", "`URL` of orders, for support")
	research := flag.String("research", "", "`URL` of research, for support")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *as == "" {
		err = play(ctx)
	} else {
		err = traced(ctx, *as, func(t telemetry) error {
			h, err := t.service(*as, *orders, *research)
			if err != nil {
				return err
			}
			return serve(ctx, *listen, h)
		})
	}
	if err != nil {
		stop()
		log.Fatal(err)
	}
}

// telemetry is what all of them have: a tracer for agents, and options of the HTTP instrumentation.
type telemetry struct {
	tracer *otelagent.Tracer
	http   []otelhttp.Option
}

// client returns one that makes a span of each request and sends the trace context with it.
func (t telemetry) client() *http.Client {
	return &http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport, t.http...), Timeout: 30 * time.Second}
}

// service returns one of the three, with a span for each request.
func (t telemetry) service(name, orders, research string) (http.Handler, error) {
	mux := http.NewServeMux()
	switch name {
	case "support":
		s := support{tracer: t.tracer, client: t.client(), orders: orders, research: research}
		mux.HandleFunc("POST /ask", s.ask)
	case "orders":
		mux.HandleFunc("GET /orders/{number}", order)
	case "research":
		mux.HandleFunc("POST /ask", researcher{t.tracer}.ask)
	default:
		return nil, fmt.Errorf("there is no service %q", name)
	}
	return otelhttp.NewHandler(mux, name, t.http...), nil
}

// traced calls do with an SDK that sends what it makes to the collector on this machine, or where
// OTEL_EXPORTER_OTLP_ENDPOINT says.
func traced(ctx context.Context, name string, do func(telemetry) error) (err error) {
	// Sets the propagator of W3C trace context and baggage too, as services with tracing have.
	providers, err := otelsetup.Setup(ctx, otelsetup.WithServiceName(name))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if e := errors.Join(providers.Shutdown(ctx), providers.Stats().LastError); e != nil {
			err = errors.Join(err, fmt.Errorf("the spans were not delivered, is `otelagent up` running? %w", e))
		}
	}()
	return do(telemetry{tracer: otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent))})
}

// serve serves until ctx is done, and says on standard output where.
func serve(ctx context.Context, address string, h http.Handler) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// play starts the three, asks and prints the answer.
func play(ctx context.Context) (err error) {
	var addresses []string
	for _, name := range []string{"orders", "research", "support"} {
		args := []string{"-as", name}
		if name == "support" {
			args = append(args, "-orders", addresses[0], "-research", addresses[1])
		}
		address, end, e := spawn(ctx, args...)
		if e != nil {
			return e
		}
		defer func() { err = errors.Join(err, end()) }()
		addresses = append(addresses, address)
	}
	// The front end names the conversation; the services below know it from baggage only.
	return traced(ctx, "front", func(t telemetry) error {
		answer, err := question(ctx, t.client(), addresses[2], "ticket-4711", "Where is order 17, and is that usual?")
		if err != nil {
			return err
		}
		fmt.Println(answer)
		return nil
	})
}

// question asks the support service in a session.
func question(ctx context.Context, client *http.Client, url, session, text string) (string, error) {
	member, err := baggage.NewMemberRaw(string(spans.SessionIDKey), session)
	if err != nil {
		return "", err
	}
	bag, err := baggage.New(member)
	if err != nil {
		return "", err
	}
	return send(baggage.ContextWithBaggage(ctx, bag), client, http.MethodPost, url+"/ask", text)
}

// send makes a request and returns the body of the answer.
func send(ctx context.Context, client *http.Client, method, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, req.URL.Path, resp.Status)
	}
	return string(answer), err
}

// spawn starts this program once more and returns the address that it serves on, and a function that ends it.
func spawn(ctx context.Context, args ...string) (address string, end func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	end = func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", strings.Join(args[:2], " "), err)
		}
		return nil
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("%s did not start: %w", strings.Join(args[:2], " "), err), end())
	}
	return strings.TrimSpace(line), end, nil
}
