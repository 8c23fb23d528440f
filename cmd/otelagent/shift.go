package main

import (
	"io"
	"reflect"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
)

// shiftToNow returns by how much the times of the files are moved for the last of them to be now. It reads them all.
func (o *sendOptions) shiftToNow(a *app) (by time.Duration, err error) {
	in, err := o.open(&app{stdin: a.stdin, stderr: io.Discard}, nil)
	if err != nil {
		return 0, err
	}
	defer in.close()
	p := &pump{o: o, in: in}
	var last time.Time
	for _, s := range in.list {
		for ev, err := range p.eventsOf(s) {
			if ev == nil || err != nil {
				continue // it is named when it is sent
			}
			eachTime(reflect.ValueOf(ev).Elem(), func(t time.Time) time.Time {
				if t.After(last) {
					last = t
				}
				return t
			})
		}
	}
	if last.IsZero() {
		return 0, nil
	}
	return time.Since(last), nil
}

// shifted returns a copy of an event with all its times moved.
func shifted(ev event.Event, by time.Duration) event.Event {
	v := reflect.New(reflect.TypeOf(ev).Elem())
	v.Elem().Set(reflect.ValueOf(ev).Elem())
	eachTime(v.Elem(), func(t time.Time) time.Time { return t.Add(by) })
	return v.Interface().(event.Event)
}

// eachTime replaces each time in v that is stated. What v points to is copied where it has times: decoders return some
// values twice.
func eachTime(v reflect.Value, replace func(time.Time) time.Time) {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := v.Interface().(time.Time); ok {
			if !t.IsZero() {
				v.Set(reflect.ValueOf(replace(t)))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				eachTime(v.Field(i), replace)
			}
		}
	case reflect.Pointer:
		if v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return
		}
		c := reflect.New(v.Type().Elem())
		c.Elem().Set(v.Elem())
		eachTime(c.Elem(), replace)
		v.Set(c)
	case reflect.Slice:
		if v.IsNil() || v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			eachTime(c.Index(i), replace)
		}
		v.Set(c)
	}
}
