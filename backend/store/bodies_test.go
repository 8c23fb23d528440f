package store_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

var _ export.Bodies = (*store.Bodies)(nil)

// What is loaded a stretch at a time, templates and what they refer to included, gives the same export as all blocks at
// once, for every recording.
func TestBodiesGiveTheSameExport(t *testing.T) {
	for _, f := range phifixtures.All(t, "../..") {
		t.Run(f.String(), func(t *testing.T) {
			p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
			rec := event.NewRecorder(p.Tracer())
			for ev, err := range phi.Events(bytes.NewReader(f.Events)) {
				if err != nil {
					t.Fatal(err)
				}
				rec.Record(context.Background(), ev)
			}
			rec.Close(context.Background())
			st := memstore.New()
			if err := st.Put(t.Context(), p.Batch()); err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Sessions() {
				k := session.Key{ID: s.ID}
				all, err := session.NewBlockSet(st.Blocks(t.Context(), k, nil))
				if err != nil {
					t.Fatal(err)
				}
				bodies, err := store.NewBodies(t.Context(), st, k, nil)
				if err != nil {
					t.Fatal(err)
				}
				var got, want bytes.Buffer
				_, err1 := export.JSONL(t.Context(), &want, s, export.Held(all), export.Options{})
				_, err2 := export.JSONL(t.Context(), &got, s, bodies, export.Options{})
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				if !bytes.Equal(got.Bytes(), want.Bytes()) {
					t.Errorf("session %s: of stretches\n%s\nof all\n%s", s.ID, got.String(), want.String())
				}
			}
		})
	}
}

func TestBodiesLoad(t *testing.T) {
	st := memstore.New()
	k := session.Key{ID: "s"}
	var b session.Batch
	var ids []spans.ShortID
	add := func(body string) spans.ShortID {
		id := spans.BlockOfString(body)
		b.Blocks = append(b.Blocks, session.Block{Session: k, ID: id, Body: body})
		return id.Short()
	}
	for i := range 8 {
		ids = append(ids, add(string(bytes.Repeat([]byte{byte('a' + i)}, 1<<20))))
	}
	piece := add("x")
	template := add("[\x01" + piece.String() + "]")
	if err := st.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	bodies, err := store.NewBodies(t.Context(), st, k, nil)
	if err != nil {
		t.Fatal(err)
	}
	load := func(ids []spans.ShortID, least, want int) *session.BlockSet {
		t.Helper()
		set, n, err := bodies.Load(t.Context(), ids, least)
		if err != nil || n != want {
			t.Fatalf("%d, %v, want %d", n, err, want)
		}
		for i, id := range ids[:n] {
			if _, ok := set.Body(session.Ref{Block: id.String()}); !ok {
				t.Errorf("block %d is not there", i)
			}
		}
		return set
	}
	load(ids, 1, 4)
	load(ids, 6, 6)
	load(append([]spans.ShortID{template}, ids...), 1, 5)
	if set := load([]spans.ShortID{template}, 1, 1); set.Len() != 2 {
		t.Errorf("%d blocks, want the template and its piece", set.Len())
	}
	unknown := spans.BlockOfString("nobody").Short()
	if set, n, err := bodies.Load(t.Context(), []spans.ShortID{unknown}, 1); err != nil || n != 1 || set.Len() != 0 {
		t.Error(n, err)
	}
	if _, n, err := bodies.Load(t.Context(), nil, 0); err != nil || n != 0 {
		t.Error(n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := bodies.Load(ctx, slices.Clone(ids), 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := store.NewBodies(ctx, st, k, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
