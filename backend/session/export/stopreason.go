package export

import "strings"

// stopReason is a stop reason in the names of phi-core and of ACP, empty where a format has none.
type stopReason struct{ phi, acp string }

var (
	stopEnd     = stopReason{phi: "stop"}
	stopTool    = stopReason{phi: "toolUse"}
	stopLength  = stopReason{"length", "max_tokens"}
	stopTurns   = stopReason{"maxTurns", "max_turn_requests"}
	stopAbort   = stopReason{"aborted", "cancelled"}
	stopRefusal = stopReason{"guardRail", "refusal"}
)

// stopReasons are the stop reasons of loops and providers, in small letters alone.
var stopReasons = map[string]stopReason{
	"stop": stopEnd, "endturn": stopEnd, "stopsequence": stopEnd, "completed": stopEnd, "complete": stopEnd,
	"tooluse": stopTool, "toolcalls": stopTool, "toolcall": stopTool,
	"length": stopLength, "maxtokens": stopLength, "maxoutputtokens": stopLength,
	"maxturnrequests": stopTurns, "maxturns": stopTurns, "maxsteps": {acp: stopTurns.acp},
	"steplimit": {acp: stopTurns.acp}, "executionlimit": {acp: stopTurns.acp},
	"aborted": stopAbort, "abort": stopAbort, "cancelled": stopAbort, "canceled": stopAbort,
	"userstop": {acp: stopAbort.acp},
	"refusal":  stopRefusal, "contentfilter": stopRefusal, "contentfiltered": {acp: stopRefusal.acp},
	"safety": {acp: stopRefusal.acp}, "guardrail": {acp: stopRefusal.acp},
	"error": {phi: "error"},
}

func stopReasonOf(word string) stopReason {
	return stopReasons[strings.Map(func(c rune) rune {
		if c |= 0x20; c >= 'a' && c <= 'z' {
			return c
		}
		return -1
	}, word)]
}
