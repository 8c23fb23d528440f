package copy_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	storecopy "github.com/otelagent/otelagent/backend/store/copy"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/spans"
)

// Verifying finds what is not the same.
func TestVerify(t *testing.T) {
	src, dst := openMemory(t), &watched{Store: openMemory(t)}
	fill(t, src)
	if _, err := storecopy.Run(t.Context(), src, dst, storecopy.Options{}); err != nil {
		t.Fatal(err)
	}
	cut := storetest.Block(big, "another body")
	cut.ID = spans.BlockOfString("big says 3") // somebody's idea of it
	if err := store.Delete(t.Context(), dst, big); err != nil {
		t.Fatal(err)
	}
	put(t, dst.Store, session.Batch{Blocks: []session.Block{cut}})
	put(t, dst.Store, session.Batch{Rows: []session.Row{storetest.Row(other, 555)}}) // it has more
	put(t, dst.Store, session.Batch{Blocks: []session.Block{storetest.Block(small, "and more")}})
	res, err := storecopy.Run(t.Context(), src, dst, storecopy.Options{Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []storecopy.Difference{
		{Session: big, What: "of 703 blocks 0 are missing, 1 differ, and 0 are not from there"},
		{Session: small, What: "of 8 blocks 0 are missing, 0 differ, and 1 are not from there"},
		{Session: other, What: "of 7 rows 0 are missing, 0 differ, and 1 are not from there"},
	}
	if diff := cmp.Diff(want, res.Different); diff != "" || res.Verified != 1 {
		t.Errorf("%+v\n%s", res, diff)
	}
}

// One session that cannot be read, because the source is damaged there, does not keep the others from the destination,
// and what was read of it comes along.
func TestUnreadable(t *testing.T) {
	src, dst := &watched{Store: openMemory(t)}, openMemory(t)
	fill(t, src)
	src.unreadable = func(k session.Key) error {
		if k == small {
			return fmt.Errorf("damaged: %w", store.ErrData)
		}
		return nil
	}
	res, err := storecopy.Run(t.Context(), src, dst, storecopy.Options{Verify: true})
	res.Bytes = 0
	want := storecopy.Result{Sessions: 4, Copied: 3, Rows: 713, Blocks: 713, Verified: 3,
		Refused: []storecopy.Difference{{Session: small, What: "damaged: bad data"}}}
	if diff := cmp.Diff(want, res); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if res, err = storecopy.Run(t.Context(), src, dst, storecopy.Options{}); err != nil || len(res.Refused) != 1 ||
		res.Rows != 0 || res.Same != 3 {
		t.Errorf("again: %+v, %v", res, err)
	}

	src.unreadable, src.unmarked = nil, small
	dst = openMemory(t)
	res, err = storecopy.Run(t.Context(), src, dst, storecopy.Options{Verify: true})
	res.Bytes = 0
	want = storecopy.Result{Sessions: 4, Copied: 3, Rows: 708, Blocks: 713, Verified: 3,
		Refused: []storecopy.Difference{{Session: small, What: "mark: bad data"}}}
	if diff := cmp.Diff(want, res); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
