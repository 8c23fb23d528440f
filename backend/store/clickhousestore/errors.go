package clickhousestore

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/otelagent/otelagent/backend/store"
)

// ServerError is the error response of a server. Its text holds the code and nothing of the server's text, which may
// quote what was stored. The server's log has it.
type ServerError struct {
	// Code is that of ClickHouse's exception, 0 when the answer names none (a proxy, another program).
	Code int
	// Status is the HTTP status; 200 when the exception came in the middle of a result.
	Status int
}

// codes are the exceptions that people meet, by their names in ClickHouse.
var codes = map[int]string{
	16: "NO_SUCH_COLUMN_IN_TABLE", 33: "CANNOT_READ_ALL_DATA", 36: "BAD_ARGUMENTS", 47: "UNKNOWN_IDENTIFIER",
	57: "TABLE_ALREADY_EXISTS",
	60: "UNKNOWN_TABLE", 62: "SYNTAX_ERROR", 81: "UNKNOWN_DATABASE", 115: "UNKNOWN_SETTING", 131: "TOO_LARGE_STRING_SIZE",
	159: "TIMEOUT_EXCEEDED",
	164: "READONLY", 170: "CLUSTER_DOESNT_EXIST", 192: "UNKNOWN_USER", 193: "WRONG_PASSWORD", 194: "REQUIRED_PASSWORD",
	201: "QUOTA_EXCEEDED",
	202: "TOO_MANY_SIMULTANEOUS_QUERIES", 209: "SOCKET_TIMEOUT", 210: "NETWORK_ERROR", 225: "NO_ZOOKEEPER",
	241: "MEMORY_LIMIT_EXCEEDED",
	242: "TABLE_IS_READ_ONLY", 243: "NOT_ENOUGH_SPACE", 252: "TOO_MANY_PARTS", 279: "ALL_CONNECTION_TRIES_FAILED",
	285: "TOO_FEW_LIVE_REPLICAS", 286: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE", 289: "REPLICA_IS_NOT_IN_QUORUM",
	291: "DATABASE_ACCESS_DENIED",
	319: "UNKNOWN_STATUS_OF_INSERT", 497: "ACCESS_DENIED", 516: "AUTHENTICATION_FAILED", 999: "KEEPER_EXCEPTION",
}

// Error names the code, or the status where there is none.
func (e *ServerError) Error() string {
	switch n := codes[e.Code]; {
	case e.Code == 0 && e.Status == http.StatusOK:
		return "the server's answer is not what a ClickHouse server gives"
	case e.Code == 0:
		return fmt.Sprintf("the server answers with HTTP status %d", e.Status)
	case n != "":
		return fmt.Sprintf("the server says code %d (%s)", e.Code, n)
	}
	return fmt.Sprintf("the server says code %d", e.Code)
}

// Unwrap returns what the error means to the caller of Put: a value that no server would take fails again, a full disk
// may be emptied, and everything else may go away.
func (e *ServerError) Unwrap() error {
	switch e.Code {
	case 131:
		return store.ErrData
	case 243:
		return store.ErrFull
	}
	return nil
}

// unusable reports whether the error is permanent.
func (e *ServerError) unusable() bool {
	switch e.Code {
	case 0: // no ClickHouse; 5xx and these come from proxies in front of one that is away
		return e.Status < 500 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
	case 36, 57, 62, 115, 164, 170, 192, 193, 194, 291, 497, 516, 701:
		return true
	}
	return false
}

// opening wraps permanent errors of opening in store.ErrUnusable.
func opening(err error) error {
	if e := (*ServerError)(nil); errors.As(err, &e) && e.unusable() {
		return fmt.Errorf("%w: %w", store.ErrUnusable, err)
	}
	return err
}
