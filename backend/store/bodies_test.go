package store_test

import (
	"bytes"
	"context"
	"errors"
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

// What is loaded, templates and what they refer to included, gives the same export as all blocks, for every recording.
func TestBodiesGiveTheSameExport(t *testing.T) {
	for _, f := range phifixtures.All(t, "../..") {
		t.Run(f.String(), func(t *testing.T) {
			p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
			rec := event.NewRecorder(p.Tracer())
			for ev, err := range phi.NewDecoder().Events(bytes.NewReader(f.Events)) {
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
				all, err := session.NewBlockSet(st.Blocks(t.Context(), k))
				if err != nil {
					t.Fatal(err)
				}
				bodies := store.NewBodies(st, k, nil)
				var got, want bytes.Buffer
				_, err1 := export.JSONL(t.Context(), &want, s, export.Held(all), export.Options{})
				_, err2 := export.JSONL(t.Context(), &got, s, bodies, export.Options{})
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				if !bytes.Equal(got.Bytes(), want.Bytes()) {
					t.Errorf("session %s: of what was loaded\n%s\nof all\n%s", s.ID, got.String(), want.String())
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
	bodies := store.NewBodies(st, k, nil)
	for _, c := range []struct {
		ids  []spans.ShortID
		want int
	}{
		{ids, len(ids)},
		{append([]spans.ShortID{template}, ids...), len(ids) + 2},
		{[]spans.ShortID{template}, 2}, // with its piece
		{[]spans.ShortID{spans.BlockOfString("nobody").Short()}, 0},
		{nil, 0},
	} {
		set, err := bodies.Load(t.Context(), c.ids)
		if err != nil || set.Len() != c.want {
			t.Errorf("%v: %d blocks, want %d", err, set.Len(), c.want)
		}
		for i, id := range c.ids {
			if _, ok := set.Body(session.Ref{Block: id.String()}); !ok && c.want > 0 {
				t.Errorf("block %d is not there", i)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bodies.Load(ctx, ids); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
