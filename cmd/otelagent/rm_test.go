package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/storetest"
)

// failing deletes once, and the second time deletes one more session and then fails.
type failing struct {
	store.Store
	erased []int // by each Delete
}

func (f *failing) Delete(ctx context.Context, list ...store.Deletion) ([]session.Key, error) {
	fails := len(f.erased) == 1
	if fails {
		list = list[:1]
	}
	gone, err := f.Store.Delete(ctx, list...)
	if fails && err == nil {
		return gone, errors.New("the disk went away")
	}
	if err == nil {
		f.erased = append(f.erased, len(gone))
	}
	return gone, err
}

// Many sessions go in batches. A session is reported as erased only when it is off the disk, and what was written to
// since it was chosen stays.
func TestErase(t *testing.T) {
	const n = 300
	st := &failing{Store: memstore.New()}
	defer st.Close()
	var list []store.Deletion
	put := func(k session.Key, row int) {
		t.Helper()
		must(t, st.Put(t.Context(), session.Batch{Rows: []session.Row{storetest.Row(k, row)}}))
	}
	for i := range n {
		k := session.Key{ID: fmt.Sprintf("s%03d", i)}
		put(k, 1)
		mark, err := st.Revision(t.Context(), k)
		must(t, err)
		list = append(list, store.Deletion{Key: k, Revision: mark})
	}
	put(list[5].Key, 2) // written to
	must(t, store.Delete(t.Context(), st.Store, list[6].Key))
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	db := a.databaseOf(location{name: "s.db"}, st)
	err := a.erase(t.Context(), db, list)
	want := "the disk went away\n254 sessions of 300 were erased from s.db; run it again for the rest"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v", err)
	}
	if strings.Count(out.String(), "erased s") != 254 || strings.Contains(out.String(), "s005") ||
		strings.Contains(out.String(), "s256") {
		t.Errorf("%s", &out)
	}
	if got := fmt.Sprint(st.erased); got != "[254]" {
		t.Errorf("batches of %s", got)
	}

	st.erased = nil
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := a.erase(stopped, db, list[256:]); err == nil || !strings.HasPrefix(err.Error(),
		"interrupted\n0 sessions of 44 were erased from s.db; run it again for the rest") {
		t.Errorf("stopped: %v", err)
	}
	out.Reset()
	if err := a.erase(t.Context(), db, list[250:]); err != nil || !strings.Contains(errs.String(),
		"7 sessions stayed: written to, or erased, meanwhile") {
		t.Errorf("%v, %s", err, &errs)
	}
	if _, err := st.Revision(t.Context(), list[5].Key); err != nil {
		t.Errorf("what was written to is gone: %v", err)
	}
}
