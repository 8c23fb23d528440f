package main

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// engine is the one ClickHouse engine of this process. It takes one statement at a time, all on one thread, because
// libchdb allows no other statement on a connection while one runs.
type engine struct {
	work chan func()
	conn uintptr

	connect       func(argc int32, argv unsafe.Pointer) unsafe.Pointer
	query         func(conn uintptr, sql unsafe.Pointer, n uintptr, format unsafe.Pointer, m uintptr) uintptr
	resultBuffer  func(result uintptr) unsafe.Pointer
	resultLength  func(result uintptr) uintptr
	resultError   func(result uintptr) unsafe.Pointer
	rowsRead      func(result uintptr) uint64
	rowsWritten   func(result uintptr) uint64
	resultDestroy func(result uintptr)

	insert        func(conn uintptr, sql unsafe.Pointer, n uintptr, format unsafe.Pointer, m uintptr) uintptr
	insertAppend  func(stream uintptr, data unsafe.Pointer, n uintptr) int32
	insertDone    func(stream uintptr) uintptr
	insertError   func(stream uintptr) unsafe.Pointer
	insertCancel  func(stream uintptr)
	insertDestroy func(stream uintptr)
}

// result is what a statement came to.
type result struct {
	body          []byte
	read, written uint64
}

// open loads the library and opens the folder as the engine's. Nobody else may have the folder open.
func open(library, folder string) (*engine, error) {
	lib, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	e := &engine{work: make(chan func())}
	for name, f := range map[string]any{
		"chdb_connect": &e.connect, "chdb_query_n": &e.query,
		"chdb_result_buffer": &e.resultBuffer, "chdb_result_length": &e.resultLength, "chdb_result_error": &e.resultError,
		"chdb_result_rows_read": &e.rowsRead, "chdb_result_rows_written": &e.rowsWritten,
		"chdb_destroy_query_result": &e.resultDestroy,
		"chdb_stream_insert_n":      &e.insert, "chdb_stream_append": &e.insertAppend, "chdb_stream_done": &e.insertDone,
		"chdb_stream_insert_error": &e.insertError, "chdb_stream_cancel_insert": &e.insertCancel,
		"chdb_destroy_insert_stream": &e.insertDestroy,
	} {
		purego.RegisterLibFunc(f, lib, name)
	}
	go func() {
		runtime.LockOSThread() // the engine keeps the state of a statement by thread
		for f := range e.work {
			f()
		}
	}()
	e.do(func() {
		args := []*byte{cstring("clickhouse"), cstring("--path=" + folder)}
		conn := e.connect(int32(len(args)), unsafe.Pointer(&args[0]))
		runtime.KeepAlive(args)
		if conn == nil {
			err = fmt.Errorf("the engine does not open %s", folder)
			return
		}
		e.conn = *(*uintptr)(conn)
	})
	return e, err
}

// do runs f on the engine's thread, after what others asked for.
func (e *engine) do(f func()) {
	done := make(chan struct{})
	e.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// exec runs one statement; on the engine's thread only. Its whole output is in memory.
func (e *engine) exec(sql, format string) (result, error) {
	return e.take(e.query(e.conn, pointer(sql), uintptr(len(sql)), pointer(format), uintptr(len(format))))
}

// insertBody runs an INSERT that has no FORMAT, with data in that format; on the engine's thread only. Data is never
// put into the text of the statement: the engine cuts binary rows there at places that depend on the data.
func (e *engine) insertBody(sql, format string, data []byte) (result, error) {
	stream := e.insert(e.conn, pointer(sql), uintptr(len(sql)), pointer(format), uintptr(len(format)))
	defer e.insertDestroy(stream)
	if err := text(e.insertError(stream)); err != "" {
		return result{}, errors.New(err)
	}
	const piece = 1 << 20
	for len(data) > 0 {
		n := min(piece, len(data))
		if e.insertAppend(stream, unsafe.Pointer(&data[0]), uintptr(n)) != 0 {
			err := text(e.insertError(stream))
			e.insertCancel(stream)
			return result{}, errors.New(err)
		}
		data = data[n:]
	}
	return e.take(e.insertDone(stream))
}

func (e *engine) take(r uintptr) (result, error) {
	if r == 0 {
		return result{}, errors.New("the engine gave no result")
	}
	defer e.resultDestroy(r)
	if err := text(e.resultError(r)); err != "" {
		return result{}, errors.New(err)
	}
	out := result{read: e.rowsRead(r), written: e.rowsWritten(r)}
	if n := e.resultLength(r); n > 0 {
		out.body = append(out.body, unsafe.Slice((*byte)(e.resultBuffer(r)), n)...)
	}
	return out, nil
}

// pointer returns where the bytes of s are; the callee takes their number too.
func pointer(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

func cstring(s string) *byte {
	b := append([]byte(s), 0)
	return &b[0]
}

// text copies a C string; nil is empty.
func text(p unsafe.Pointer) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}
