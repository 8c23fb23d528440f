package sqlitestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
)

// Rows in files name no dictionary but by its number: with another one they are lost.
func TestRowDictIsFrozen(t *testing.T) {
	const want = "a091232b625125f213edd7aab9f8825cd8fec208ad99e8d4d5cd33f3d2528550"
	if sum := sha256.Sum256(rowDictBytes); hex.EncodeToString(sum[:]) != want {
		t.Errorf("rows.dict2 has the sum %x, want %s: rows that were written with it cannot be read", sum, want)
	}
	// Written by the first program that had it.
	const packed = "0281026401be94b770ad92e0757ece16f482d65ae358039a0b228cf5ab0011015401610572756e2d308080d0e2c6bfce972f" +
		"020202d08f0d0c04b8970d092402040005636f646572045a4d023c636c617564652d6f7075732d342d361c39124a0c0708a4" +
		"131df90c09203608073c70097a2e737472696e677305020161002221102c00020664696765737400010e01e7010044414141" +
		"2073740102074d7973746572790b4201011842424242424204"
	value := must.Get(hex.DecodeString(packed))(t)
	r := storetest.Row(key("a"), 1)
	if got, err := unpackRow(nil, value); err != nil || !bytes.Equal(got, r.AppendCanonical(nil)) {
		t.Errorf("a row came back as %x, %v", got, err)
	}
}

func TestPackRow(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 3000)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	random[0] = rowPlain
	var out []byte
	for n, canonical := range [][]byte{{rowPlain}, random[:1], random[:50], random, bytes.Repeat(random, 100),
		append([]byte{rowPlain}, strings.Repeat("x", 1<<20)...)} {
		packed := packRow([]byte("before"), canonical)
		if !bytes.HasPrefix(packed, []byte("before")) || len(packed) > len("before")+len(canonical) {
			t.Errorf("%d: %d bytes became %d", n, len(canonical), len(packed))
		}
		var err error
		if out, err = unpackRow(out, packed[len("before"):]); err != nil || !bytes.Equal(out, canonical) {
			t.Errorf("%d: %d bytes came back as %d, %v", n, len(canonical), len(out), err)
		}
		out = nil
	}
}

func FuzzUnpackRow(f *testing.F) {
	r := storetest.Row(key("a"), 1)
	f.Add(packRow(nil, r.AppendCanonical(nil)))
	f.Add([]byte{rowS2, 0xff, 0xff, 0xff, 0xff, 0x0f})
	r.Service = strings.Repeat("service ", rowLarge/8)
	f.Add(packRow(nil, r.AppendCanonical(nil)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		canonical, err := unpackRow(nil, value)
		if err != nil {
			if !errors.Is(err, store.ErrData) {
				t.Errorf("error %v is no ErrData", err)
			}
			return
		}
		if again, err := unpackRow(nil, packRow(nil, canonical)); len(canonical) > 0 && canonical[0] == rowPlain &&
			(err != nil || !bytes.Equal(again, canonical)) {
			t.Errorf("%x came back as %x, %v", canonical, again, err)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	body := packEncoder().EncodeAll([]byte("some text some text"), nil)
	f.Add(body, int64(19))
	f.Add(body, int64(20))
	f.Add(append(bytes.Clone(body), body...), int64(38))
	f.Fuzz(func(t *testing.T, body []byte, raw int64) {
		out, err := unpack(nil, body, 1, raw)
		if err != nil && !errors.Is(err, store.ErrData) || err == nil && int64(len(out)) != raw {
			t.Errorf("%d bytes, want %d, %v", len(out), raw, err)
		}
	})
}

// What is damaged in the file is named, and nothing panics.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, damage string
		want         string
	}{
		{"body", "UPDATE packs SET body = zeroblob(length(body))", "pack 1"},
		{"end of a body", "UPDATE packs SET body = substr(body, 1, length(body) - 3)", "pack 1"},
		{"one byte", "UPDATE packs SET body = CAST(substr(body, 1, 12) || x'ff' || substr(body, 14) AS BLOB)", "pack 1"},
		{"size", "UPDATE packs SET raw = raw + 1", "pack 1"},
		{"huge size", "UPDATE packs SET raw = 1 << 40", "pack 1"},
		{"negative size", "UPDATE packs SET raw = -1", "pack 1"},
		{"no pack", "DELETE FROM packs", "session a: bad pack: bad data: 0 of 1 bodies are in packs"},
		{"withheld", "DELETE FROM packs; DELETE FROM blocks; INSERT INTO withheld VALUES (1, x'', 3, x'')",
			"a block id of 0 bytes"},
		{"a length", fmt.Sprintf("UPDATE packs SET raw = 2, body = x'%x'", packEncoder().EncodeAll([]byte("\x09x"), nil)),
			"session a: pack 1: bad pack: bad data: a body of 9 bytes, 1 are left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			s := newStore(t, path)
			b := storetest.Block(key("a"), "one text and another text, and one text more")
			must.Do(t, s.Put(t.Context(), session.Batch{Blocks: []session.Block{b}}))
			exec1(t, path, tt.damage)
			n := 0
			for b, err := range s.Blocks(t.Context(), key("a")) {
				if n++; err == nil || !strings.Contains(err.Error(), tt.want) || b != (session.Block{}) {
					t.Errorf("%+v, %v, want %q in it", b, err, tt.want)
				}
			}
			if n != 1 {
				t.Errorf("%d steps", n)
			}
		})
	}
}

// A merge does not join a damaged pack with the next one: the error names it, and it stays as it is.
func TestMergeDamaged(t *testing.T) {
	path, k := filepath.Join(t.TempDir(), "x.db"), key("a")
	s := newStore(t, path)
	for _, body := range []string{"one", "two", "three"} {
		must.Do(t, s.Put(t.Context(), session.Batch{Blocks: []session.Block{storetest.Block(k, body)}}))
	}
	exec1(t, path, fmt.Sprintf("UPDATE packs SET raw = 4, body = x'%x' WHERE pack = 2",
		packEncoder().EncodeAll([]byte("\x05two"), nil)))
	mark := must.Get(s.Revision(t.Context(), k))(t)
	const want = "session a: pack 2: bad pack: bad data: a body of 5 bytes, 3 are left"
	for range 2 {
		err := s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: mark})
		if !errors.Is(err, store.ErrData) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %q at its end", err, want)
		}
	}
	if _, err := session.NewBlockSet(s.Blocks(t.Context(), k)); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q at its end", err, want)
	}
}
