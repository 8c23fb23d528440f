package session

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/otelagent/otelagent/spans"
)

// Bounds of what recipes make.
const (
	// maxLevel bounds how deep recipes are made of recipes.
	maxLevel = 8
	// maxMade bounds one body.
	maxMade = 64 << 20
	// maxWork bounds the bytes that are put together to make all bodies of a set once, and workRatio adds so many times what the set holds: a
	// few bytes can ask for many. What is beyond counts as not there. A body that was made once and not kept is made again at any time: that
	// never takes more than it took first.
	maxWork   = 4 << 30
	workRatio = 64
	// pieceWork is what a piece counts for at least.
	pieceWork = 64
	// maxKept bounds the bodies of a set that are kept once they were made; others are made again when they are asked for.
	maxKept = 64 << 20
)

// recipes are those of a BlockSet. What they come to depends on the set alone, not on what was asked for before, until maxWork is reached.
type recipes struct {
	mu      sync.Mutex
	seen    map[spans.BlockID]struct{} // by spans.RecipeID
	all     []recipe
	makers  map[spans.ShortID]*maker
	settled bool
	kept    int64
	held    int64 // bytes of all bodies and recipes of the set
	work    int64 // for what was made the first time
}

// most returns the bound on work.
func (x *recipes) most() int64 { return maxWork + workRatio*x.held }

type recipe struct {
	spans.Recipe
	text string
}

// maker makes one block. Of several recipes those count that need the fewest levels, so no recipe ever needs itself.
type maker struct {
	level int // 0: none makes the block
	size  int64
	whole []*recipe // of that level
	// cut is the recipe that says most of a block that was cut or withheld, beginning how many bytes that is.
	cut       *recipe
	beginning int64
	cutDone   bool // the beginning was made once,
	cutGood   bool // and could be

	done bool
	good *recipe // the one whose body has the id that it should have
	id   spans.BlockID
	body string
	kept bool
}

func (x *recipes) add(text string) {
	r, err := spans.ParseRecipe(text)
	if err != nil {
		return
	}
	id := spans.RecipeID(r.ID, text)
	if _, ok := x.seen[id]; ok {
		return
	}
	if x.seen == nil {
		x.seen = map[spans.BlockID]struct{}{}
	}
	x.seen[id] = struct{}{}
	x.held += int64(len(text))
	x.all = append(x.all, recipe{r, text})
}

// settle finds out, from sizes alone, which recipes make a body and which say that one was cut: level by level, each made of what
// the levels below make.
func (s *BlockSet) settle() {
	x := &s.recipes
	x.settled, x.kept = true, 0
	x.makers = map[spans.ShortID]*maker{}
	slices.SortFunc(x.all, func(a, b recipe) int { return strings.Compare(a.text, b.text) })
	open := make([]*recipe, 0, len(x.all))
	for i := range x.all {
		open = append(open, &x.all[i])
	}
	for level := 1; level <= maxLevel; level++ {
		n := len(open)
		open = slices.DeleteFunc(open, func(r *recipe) bool {
			size, ok := s.sizeOf(r, level)
			if !ok {
				return false
			}
			short := r.ID.Short()
			m := x.makers[short]
			if m == nil {
				m = &maker{}
				x.makers[short] = m
			}
			switch {
			case size < r.Size:
				if m.cut == nil || cmp.Or(cmp.Compare(boolByte(r.Full), boolByte(m.cut.Full)), cmp.Compare(size, m.beginning)) > 0 {
					m.cut, m.beginning = r, size
				}
			case size == r.Size && size <= maxMade && (m.level == 0 || m.level == level):
				if m.level == 0 {
					m.level, m.size = level, size
				}
				m.whole = append(m.whole, r)
			}
			return true
		})
		if len(open) == n {
			return
		}
	}
}

// sizeOf returns what the pieces of r come to, where all are held or made by levels below this one.
func (s *BlockSet) sizeOf(r *recipe, level int) (int64, bool) {
	total := int64(0)
	for i := range r.Pieces {
		p := &r.Pieces[i]
		if p.Block == (spans.ShortID{}) {
			total += int64(len(p.Text))
			continue
		}
		var size int64
		if l := s.byShort[p.Block]; len(l) > 0 {
			if len(l) > 1 || l[0].cut {
				return 0, false
			}
			size = int64(len(l[0].body))
		} else if m := s.recipes.makers[p.Block]; m != nil && m.level > 0 && m.level < level {
			size = m.size
		} else {
			return 0, false
		}
		switch {
		case p.To < 0:
			total += size
		case p.To > size:
			return 0, false
		default:
			total += p.To - p.From
		}
		if total > r.Size {
			break
		}
	}
	return total, true
}

// maker returns what the recipes make of a block, or nil, with its body if that is wanted; ok is false where it has none.
func (s *BlockSet) maker(short spans.ShortID, want bool) (m *maker, body string, ok bool) {
	s.recipes.mu.Lock()
	defer s.recipes.mu.Unlock()
	if !s.recipes.settled {
		s.settle()
	}
	if m = s.recipes.makers[short]; m == nil {
		return nil, "", false
	}
	body, ok = s.make(m)
	if want && m.good != nil && !ok {
		var work int64
		body, ok = s.again(m, &work)
	}
	return m, body, ok || !want && m.good != nil
}

// again returns the body of m, which is done, and adds to work what that takes where it was not kept.
func (s *BlockSet) again(m *maker, work *int64) (string, bool) {
	switch {
	case m.good == nil:
		return "", false
	case m.kept:
		return m.body, true
	}
	return s.put(m.good, m.size, work)
}

// cutOf returns the beginning that the recipes of m say of a block that was cut or withheld, empty where they take too much.
func (s *BlockSet) cutOf(m *maker) string {
	s.recipes.mu.Lock()
	defer s.recipes.mu.Unlock()
	var again int64
	work := &again
	if !m.cutDone {
		m.cutDone, work = true, &s.recipes.work
	} else if !m.cutGood {
		return ""
	}
	beginning, ok := s.put(m.cut, m.beginning, work)
	m.cutGood = ok
	return beginning
}

// Kept returns how many bytes of bodies that recipes make the set keeps at most, besides what was added to it; 64 MiB is the bound. Safe for
// concurrent use with reads, not with Add.
func (s *BlockSet) Kept() int64 {
	if s == nil || len(s.recipes.all) == 0 {
		return 0
	}
	s.recipes.mu.Lock()
	defer s.recipes.mu.Unlock()
	if !s.recipes.settled {
		s.settle()
	}
	total := int64(0)
	for _, m := range s.recipes.makers {
		if m.level > 0 {
			total += m.size // of at most maxMade each, and no more of them than recipes
		}
	}
	return min(total, maxKept)
}

// make makes the body of m, if it was not made before, and finds the recipe that does it. It returns the body where it has it.
func (s *BlockSet) make(m *maker) (string, bool) {
	if m.done {
		return m.body, m.kept
	}
	m.done = true
	for _, r := range m.whole {
		body, ok := s.put(r, m.size, &s.recipes.work)
		if !ok {
			continue
		}
		id := spans.BlockOfString(body)
		if id.Short() != r.ID.Short() || r.Full && id != r.ID {
			continue
		}
		m.good, m.id = r, id
		if s.recipes.kept+int64(len(body)) <= maxKept {
			s.recipes.kept += int64(len(body))
			m.body, m.kept = body, true
		}
		return body, true
	}
	return "", false
}

// put puts the pieces of r together, which come to size bytes, and adds to work what that takes; false where it would be too much.
func (s *BlockSet) put(r *recipe, size int64, work *int64) (string, bool) {
	var b strings.Builder
	x := &s.recipes
	if size <= maxMade && *work+size <= x.most() {
		b.Grow(int(size))
	}
	for i := range r.Pieces {
		p := &r.Pieces[i]
		if *work += pieceWork; *work > x.most() {
			return "", false
		}
		*work += int64(len(p.Text))
		if p.Block == (spans.ShortID{}) {
			b.WriteString(p.Text)
			continue
		}
		var body string
		if l := s.byShort[p.Block]; len(l) == 1 && !l[0].cut {
			body = l[0].body
		} else if m := s.recipes.makers[p.Block]; m != nil && m.level > 0 {
			var ok bool
			if body, ok = s.make(m); !ok {
				if body, ok = s.again(m, work); !ok {
					return "", false
				}
			}
		} else {
			return "", false
		}
		if p.To >= 0 {
			if p.To > int64(len(body)) {
				return "", false
			}
			body = body[p.From:p.To]
		}
		*work += int64(len(body))
		if b.Len()+len(body) > maxMade {
			return "", false
		}
		b.WriteString(body)
	}
	return b.String(), true
}
