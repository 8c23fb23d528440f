package writer

import (
	"reflect"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// Delivery reports content that could not be delivered. The Providers and the Exporter of otelsetup do.
type Delivery interface {
	// OnLost registers f, which is then called with the id of a session of which content was lost.
	OnLost(f func(session string))
}

// deliveries has the Delivery of each provider that otelsetup made.
var deliveries sync.Map

// SetDelivery makes d the Delivery of every Tracer that is made with p from now on. With nil it is forgotten.
func SetDelivery(p trace.TracerProvider, d Delivery) {
	if d == nil {
		deliveries.Delete(p)
	} else {
		deliveries.Store(p, d)
	}
}

// deliveryOf returns the Delivery of a provider: what otelsetup set, or the provider itself; nil without one.
func deliveryOf(p trace.TracerProvider) Delivery {
	if d, ok := p.(Delivery); ok {
		return d
	}
	if !reflect.TypeOf(p).Comparable() {
		return nil
	}
	if d, ok := deliveries.Load(p); ok {
		return d.(Delivery)
	}
	return nil
}
