package store

import (
	"context"

	"github.com/otelagent/otelagent/session"
)

// ManyDeleter is what a Store may be beside: one that deletes many sessions for less than one after the other.
type ManyDeleter interface {
	// DeleteAll is Delete of each of keys. With an error those that are not seen any more are deleted, as with Delete.
	DeleteAll(ctx context.Context, keys []session.Key) error
}

// DeleteAll deletes sessions in the way that costs st least.
func DeleteAll(ctx context.Context, st Store, keys []session.Key) error {
	if m, ok := st.(ManyDeleter); ok {
		return m.DeleteAll(ctx, keys)
	}
	for _, k := range keys {
		if err := st.Delete(ctx, k); err != nil {
			return err
		}
	}
	return nil
}
