package clickhousestore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

const (
	// maxPuts is how many Puts of one store run at once; others wait.
	maxPuts = 8
	// maxKept bounds the buffers that a putter keeps for the next Put.
	maxKept = 32 << 20
	// splitRows is from how many rows on two goroutines encode them.
	splitRows = 2048
	// shareFrom is the least body that is shared, in bytes.
	shareFrom = 1024
	// sharedFor is how long a shared body that was written is not written again. It is far below collectAfter.
	sharedFor = 10 * time.Minute
	// maxShared and maxKnown bound what is remembered of bodies and blocks: 100 bytes each.
	maxShared, maxKnown = 4096, 1 << 16
)

// A putter does one Put at a time. Writer and n name a Put, for good: a writer is drawn at random for each putter of each opened
// store, and its n grows by one with each Put. So of one writer a greater n is a later Put, whatever any clock says, and deleting
// "up to n" takes nothing along that came later.
type putter struct {
	writer, n uint64
	bytes     []byte
	bodies    buffers
}

// buffers are the rows of one Put, by table.
type buffers struct{ rows, live, blocks, refs, shared, touches []byte }

// putters hands out the one that was used last, so that few writers touch a session where one Put goes after the other.
type putters struct {
	turns chan struct{}
	done  chan struct{}
	mu    sync.Mutex
	free  []*putter
}

func (p *putters) init() {
	p.turns, p.done = make(chan struct{}, maxPuts), make(chan struct{})
}

func (p *putters) get(ctx context.Context) (*putter, error) {
	select {
	case p.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, store.ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		w := p.free[n-1]
		p.free = p.free[:n-1]
		return w, nil
	}
	// Large, so that SQL has one type for all of them.
	return &putter{writer: rand.Uint64()>>1 | 1<<62}, nil
}

func (p *putters) put(w *putter) {
	b := &w.bodies
	for _, l := range []*[]byte{&b.rows, &b.live, &b.blocks, &b.refs, &b.shared, &b.touches, &w.bytes} {
		if cap(*l) > maxKept {
			*l = nil
		}
	}
	p.mu.Lock()
	p.free = append(p.free, w)
	p.mu.Unlock()
	<-p.turns
}

// close waits for those that run.
func (p *putters) close() {
	close(p.done)
	for range maxPuts {
		p.turns <- struct{}{}
	}
}

// Put implements store.Store. One that began is not cut when ctx ends: it is done, or fails, soon after (see the package).
func (s *Store) Put(ctx context.Context, b session.Batch) error {
	return s.failed(ctx, "put", s.put(ctx, b))
}

func (s *Store) put(ctx context.Context, b session.Batch) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	if err := store.CheckBatch(b); err != nil {
		return err
	}
	if len(b.Rows)+len(b.Blocks) == 0 {
		return nil
	}
	w, err := s.putters.get(ctx)
	if err != nil {
		return err
	}
	defer s.putters.put(w)
	w.n++
	e := encoder{s: s, w: w, at: s.clock(), b: &w.bodies}
	e.encodeBlocks(b)
	encoded := slices.ContainsFunc(b.Rows, large)
	if encoded { // one of them may be refused, and then nothing of the batch is written
		if err := e.encodeRows(b.Rows); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	wctx, stop := writing(ctx)
	defer stop()
	// What a reader sees of half of it: nothing of a new session, blocks that no row names, rows that no projection shows yet. A
	// mark is counted only when all rows are there that it stands for. Rows are encoded while the server writes blocks.
	blocks := make(chan error, 1)
	go func() {
		blocks <- s.insertAll(wctx, w, []tableRows{{&sharedTable, e.b.shared}, {&refTable, e.b.refs}, {&blockTable, e.b.blocks}})
	}()
	if !encoded {
		err = e.encodeRows(b.Rows)
	}
	if err := errors.Join(<-blocks, err); err != nil {
		return err
	}
	for _, stage := range [][]tableRows{
		{{&liveTable, e.b.live}, {&rowTable, e.b.rows}},
		{{&touchTable, e.b.touches}},
	} {
		if err := s.insertAll(wctx, w, stage); err != nil {
			return err
		}
	}
	s.wrote(b, &e)
	return nil
}

type tableRows struct {
	table *table
	rows  []byte
}

// insertAll inserts into several tables at once.
func (s *Store) insertAll(ctx context.Context, w *putter, stage []tableRows) error {
	stage = slices.DeleteFunc(stage, func(t tableRows) bool { return len(t.rows) == 0 })
	one := func(t tableRows) error {
		// Each Put has its own token: one made of the content alone would drop what is sent again after its session was deleted.
		token := fmt.Sprintf("%x-%x-%s", w.writer, w.n, t.table.name)
		if err := s.client.insert(ctx, s.layout.into(t.table), t.rows, token); err != nil {
			return fmt.Errorf("insert into %s: %w", t.table.name, err)
		}
		return nil
	}
	if len(stage) == 1 {
		return one(stage[0])
	}
	errs := make([]error, len(stage))
	var wg sync.WaitGroup
	for i, t := range stage {
		wg.Go(func() { errs[i] = one(t) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// encoder turns a batch into rows of the tables.
type encoder struct {
	s        *Store
	w        *putter
	b        *buffers
	at       uint64
	sessions map[session.Key]struct{}
	last     session.Key
	bodies   []sharedBody // that go into shared
}

// encodeBlocks encodes all but rows, of which it touches the sessions.
func (e *encoder) encodeBlocks(b session.Batch) {
	*e.b = buffers{e.b.rows[:0], e.b.live[:0], e.b.blocks[:0], e.b.refs[:0], e.b.shared[:0], e.b.touches[:0]}
	e.sessions = map[session.Key]struct{}{}
	for i := range b.Rows {
		e.touch(b.Rows[i].Session)
	}
	if len(b.Blocks) == 0 {
		return
	}
	shared := sharable(b.Rows)
	sent := make(map[knownBlock]int64, len(b.Blocks))
	for i := range b.Blocks {
		k := &b.Blocks[i]
		e.touch(k.Session)
		id := knownBlock{k.Session, k.ID}
		if size, ok := sent[id]; ok && !better(k.Size, size) {
			continue
		}
		sent[id] = k.Size
		if k.Size == 0 && len(k.Body) >= shareFrom && shared[named{k.Session, k.ID.Short()}] && spans.BlockOfString(k.Body) == k.ID {
			e.share(k)
			continue
		}
		e.b.blocks = e.block(e.b.blocks, k)
	}
}

// encodeRows encodes rows, many of them by two goroutines.
func (e *encoder) encodeRows(list []session.Row) error {
	if len(list) < splitRows {
		return e.someRows(&e.b.rows, &e.b.live, &e.w.bytes, list, 0)
	}
	half := len(list) / 2
	var rows, live, scratch []byte
	later := make(chan error, 1)
	go func() {
		rows = make([]byte, 0, 512*(len(list)-half))
		later <- e.someRows(&rows, &live, &scratch, list[half:], half)
	}()
	err := e.someRows(&e.b.rows, &e.b.live, &e.w.bytes, list[:half], 0)
	if err = errors.Join(err, <-later); err != nil {
		return err
	}
	e.b.rows, e.b.live = append(e.b.rows, rows...), append(e.b.live, live...)
	return nil
}

// large tells whether the canonical bytes of a row may come anywhere near store.MaxValue.
func large(r session.Row) bool {
	n := len(r.Run) + len(r.Service)
	for i := range r.Attrs {
		n += len(r.Attrs[i].Key) + len(r.Attrs[i].Value.Str())
		for _, s := range r.Attrs[i].Value.Strings() {
			n += len(s)
		}
	}
	for i := range r.Lists {
		for _, s := range r.Lists[i].Items {
			n += len(s)
		}
	}
	return n+64*(len(r.Events)+len(r.Facts)) > store.MaxValue/8
}

// someRows appends rows and live rows, of which the first is number from of the batch.
func (e *encoder) someRows(rows, live, scratch *[]byte, list []session.Row, from int) error {
	for i := range list {
		r := &list[i]
		*scratch = r.AppendCanonical((*scratch)[:0])
		if len(*scratch) > store.MaxValue {
			return fmt.Errorf("row %d: %d bytes, at most %d: %w", from+i, len(*scratch), store.MaxValue, store.ErrData)
		}
		if r.Known == spans.KnownLive {
			*live = e.row(*live, r, *scratch)
		} else {
			*rows = e.row(*rows, r, *scratch)
		}
	}
	return nil
}

// better tells whether a block of one Size is to be kept rather than one of another.
func better(size, than int64) bool { return than != 0 && (size == 0 || size > than) }

func (e *encoder) touch(k session.Key) {
	if k == e.last && len(e.sessions) > 0 {
		return
	}
	e.last = k
	if _, ok := e.sessions[k]; ok {
		return
	}
	e.sessions[k] = struct{}{}
	key := keyOf(k)
	b := appendString(appendString(e.b.touches, k.Tenant), k.ID)
	e.b.touches = e.put(append(b, key[:]...))
}

// put appends putColumns.
func (e *encoder) put(b []byte) []byte {
	return appendU64(appendU64(appendU64(b, e.w.writer), e.w.n), e.at)
}

// keyOf names a session where its id must not stay.
func keyOf(k session.Key) [16]byte {
	h := sha256.New()
	_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(k.Tenant))))
	_, _ = h.Write([]byte(k.Tenant))
	_, _ = h.Write([]byte(k.ID))
	return [16]byte(h.Sum(nil))
}

// named is a block by the name that lists use.
type named struct {
	session session.Key
	id      spans.ShortID
}

// sharable returns the blocks that lists of parameters name: system prompts and tool catalogues.
func sharable(rows []session.Row) map[named]bool {
	var out map[named]bool
	for i := range rows {
		for j := range rows[i].Lists {
			if rows[i].Lists[j].Name != spans.ListParams {
				continue
			}
			for _, item := range rows[i].Lists[j].Items {
				if it, err := spans.ParseItem(item); err == nil {
					if out == nil {
						out = map[named]bool{}
					}
					out[named{rows[i].Session, it.Block}] = true
				}
			}
		}
	}
	return out
}

// statusKeys names what the status column holds of each kind.
var statusKeys = [session.KindPayload + 1]attribute.Key{
	session.KindRun: spans.RunStatusKeyKey, session.KindTurn: spans.TurnStopReasonKey,
	session.KindToolCall: spans.ToolOutcomeKey, session.KindPermission: spans.PermissionActionKey,
}

var usageKeys = [...]attribute.Key{spans.UsageInputKey, spans.UsageOutputKey, spans.UsageReasoningKey, spans.UsageCacheReadKey, spans.UsageCacheWriteKey}

// row appends rowColumns.
func (e *encoder) row(b []byte, r *session.Row, canonical []byte) []byte {
	content := sha256.Sum256(canonical)
	b = appendString(b, r.Session.Tenant)
	b = appendString(b, r.Session.ID)
	b = appendI64(b, r.Start)
	b = append(b, r.Span[:]...)
	b = append(b, r.Trace[:]...)
	b = append(b, content[:8]...)
	b = append(b, r.Parent[:]...)
	b = append(b, byte(r.Kind), known(r.Known))
	b = appendI64(b, r.End)
	if r.Failed {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = appendString(b, text(r, statusKeys[r.Kind]))
	b = appendString(b, r.Run)
	b = appendI64(appendI64(b, r.RunStart), r.Turn)
	model, tool := "", ""
	switch r.Kind {
	case session.KindRun, session.KindTurn:
		if model = text(r, spans.ResponseModelKey); model == "" {
			model = text(r, spans.RequestModelKey)
		}
	case session.KindToolCall, session.KindPermission:
		tool = text(r, spans.ToolNameKey)
	}
	b = appendString(appendString(b, model), tool)
	for _, key := range usageKeys {
		n := int64(0)
		if r.Kind == session.KindTurn {
			n, _ = r.Attr(key).Int()
		}
		b = appendI64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(canonical)))
	return e.put(appendBytes(b, canonical))
}

func known(k spans.Known) byte {
	switch k {
	case spans.KnownLive:
		return 0
	case spans.KnownClosed:
		return 1
	default:
		return 2
	}
}

// text returns an attribute that is a text, empty for another.
func text(r *session.Row, key attribute.Key) string {
	if key == "" {
		return ""
	}
	if v := r.Attr(key); v.Type() == session.TypeString {
		return v.Str()
	}
	return ""
}

func (e *encoder) block(b []byte, k *session.Block) []byte {
	b = appendString(appendString(b, k.Session.Tenant), k.Session.ID)
	b = appendI64(append(b, k.ID[:]...), k.Size)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(k.Body)))
	return e.put(appendString(b, k.Body))
}

// share appends a reference, and the body unless it was written a short while ago.
func (e *encoder) share(k *session.Block) {
	b := appendString(appendString(e.b.refs, k.Session.Tenant), k.Session.ID)
	b = binary.LittleEndian.AppendUint32(append(b, k.ID[:]...), uint32(len(k.Body)))
	e.b.refs = e.put(b)
	id := sharedBody{k.Session.Tenant, k.ID}
	if slices.Contains(e.bodies, id) || e.s.sharedLately(id) {
		return
	}
	e.bodies = append(e.bodies, id)
	b = append(appendString(e.b.shared, id.tenant), id.id[:]...)
	e.b.shared = appendString(appendU64(b, e.at), k.Body)
}

func (s *Store) sharedLately(id sharedBody) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.shared[id]
	return ok && s.now().Sub(at) < sharedFor
}

// wrote notes what a Put wrote.
func (s *Store) wrote(b session.Batch, e *encoder) {
	if len(b.Blocks) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.shared)+len(e.bodies) > maxShared {
		clear(s.shared)
	}
	for _, id := range e.bodies {
		s.shared[id] = time.Unix(0, int64(e.at))
	}
	for i := range b.Blocks {
		k := &b.Blocks[i]
		id := knownBlock{k.Session, k.ID}
		if size, ok := s.known[id]; ok && !better(k.Size, size) {
			s.counts.BlocksKnown++
			s.counts.BytesKnown += int64(len(k.Body))
			continue
		}
		if len(s.known) >= maxKnown {
			clear(s.known)
		}
		s.known[id] = k.Size
		s.counts.BlocksNew++
		s.counts.BytesNew += int64(len(k.Body))
	}
}

// Counts implements store.Counter. A Put reads nothing, so that known blocks are those that this program has Put before and
// remembers, up to 65,536 of them; they are sent again, and the engine keeps one.
func (s *Store) Counts() store.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}
