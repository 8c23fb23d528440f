package stats

import (
	"math"
	"slices"
)

// Dist says how numbers are spread. Quantiles are exact, by nearest rank: P90 is the least of the numbers that nine
// tenths of them are not above.
type Dist struct {
	N   int64 `json:"n"`
	Sum int64 `json:"sum"`
	Min int64 `json:"min"`
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
	// Buckets are those from the one of Min to the one of Max, empty ones between them included.
	Buckets []Bucket `json:"buckets"`
}

// Bucket counts the numbers that are above the Le of the bucket before, and not above its own. Bounds are 0 and 1, 2, 5
// times powers of ten; what is below zero is in the bucket of 0.
type Bucket struct {
	Le int64 `json:"le"`
	N  int64 `json:"n"`
}

// newDist returns nil for no numbers. It sorts l.
func newDist(l []int64) *Dist {
	if len(l) == 0 {
		return nil
	}
	slices.Sort(l)
	d := &Dist{N: int64(len(l)), Min: l[0], Max: l[len(l)-1], P50: quantile(l, 50), P90: quantile(l, 90),
		P99: quantile(l, 99)}
	for _, v := range l {
		if s := d.Sum + v; (s > d.Sum) == (v > 0) || v == 0 {
			d.Sum = s
		} else if v > 0 {
			d.Sum = math.MaxInt64
		} else {
			d.Sum = math.MinInt64
		}
	}
	for at := 0; at < len(l); {
		le := bound(l[at])
		n, _ := slices.BinarySearch(l[at:], le+1)
		if le == math.MaxInt64 {
			n = len(l) - at
		}
		for len(d.Buckets) > 0 {
			next := bound(d.Buckets[len(d.Buckets)-1].Le + 1)
			if next >= le {
				break
			}
			d.Buckets = append(d.Buckets, Bucket{Le: next})
		}
		d.Buckets = append(d.Buckets, Bucket{Le: le, N: int64(n)})
		at += n
	}
	return d
}

// quantile returns the percent-th of sorted numbers by nearest rank.
func quantile(l []int64, percent int) int64 {
	rank := (len(l)*percent + 99) / 100
	return l[max(rank, 1)-1]
}

// bound returns the upper bound of the bucket that v is in.
func bound(v int64) int64 {
	if v <= 0 {
		return 0
	}
	for unit := int64(1); ; unit *= 10 {
		for _, m := range []int64{1, 2, 5} {
			if v <= m*unit {
				return m * unit
			}
		}
		if unit == 1e18 { // 10^19 is none of an int64
			return math.MaxInt64
		}
	}
}
