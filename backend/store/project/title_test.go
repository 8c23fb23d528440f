package project

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// The bodies of a title come with what templates among them refer to, and without others.
func TestTitleBlocks(t *testing.T) {
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
	must.Do(t, st.Put(t.Context(), b))
	load := func(ctx context.Context, ids []spans.ShortID) (*session.BlockSet, error) {
		var refs []session.Ref
		for _, id := range ids {
			refs = append(refs, session.Ref{Block: id.String()})
		}
		return titleBlocks(ctx, st, k, &session.Session{}, refs)
	}
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
		set, err := load(t.Context(), c.ids)
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
	if _, err := load(ctx, ids); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
