package spans

// Redactable is content that a process is about to send or store, as a redactor sees it.
type Redactable struct {
	// Body must be neither changed nor kept.
	Body []byte
	// JSON says that Body is JSON; else it is text.
	JSON bool
	// Place says where it is: one of the values below, or the name of the list that it is alone in (ListArgs,
	// ListResult, ListSummary, ListMetadata, ListRules, ListOptions).
	Place string
	// Role is that of a message: user, assistant, toolResult, or what the loop says.
	Role string
	// Provenance says where a message of a request came from. The same message outside a request has none.
	Provenance ProvenanceKind
}

// Values of Redactable.Place that are not names of lists.
const (
	PlaceMessage = "message" // of a request, a reply or an input
	PlaceSystem  = "system"  // the system prompt
	PlaceTools   = "tools"   // the tool catalogue
	PlaceRest    = "rest"    // of a request: each other parameter, as an object of one member
	PlaceEvent   = "event"   // what an event without a place of its own carried
	PlaceFact    = "fact"    // the value of a fact
	PlaceConfig  = "config"  // of a run
	PlaceText    = "text"    // error texts, reasons, patterns
)

// Redactor takes out of content what the process must not send. It sees every piece before it is hashed, from any
// goroutine, and not again as long as a message is remembered; what is new it may see several times. It must not
// call the adapter: calls for the same session wait for it. Package otelagent/redact has one that works by rules.
type Redactor interface {
	// Redact returns what may be sent, and the number of places where that differs from p.Body; p.Body itself when it is
	// none. It gives the same for the same piece, and of JSON JSON. A panic withholds the piece.
	Redact(p Redactable) (body []byte, changed int)
}
