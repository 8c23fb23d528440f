package opencode

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
)

// Tables are those of a database of OpenCode that are read.
var Tables = []string{"session", "message", "part"}

// document is the path of a session in a storage folder: that folder, the name in it, and the id of the session.
var document = regexp.MustCompile(`^(.*storage)/(session/[^/]+/([^/]+)\.json)$`)

// withDatabase opens a database, which OpenCode may write meanwhile.
func withDatabase(path string, read func(*input.Database) error) error {
	file, err := input.OpenSQLite(path)
	if err != nil {
		return err
	}
	defer file.Close()
	db, err := input.NewDatabase(context.Background(), file, Tables...)
	if err != nil {
		return err
	}
	return read(db)
}

// readDatabase reads the sessions of a database by the time of their creation and id. What was written after a session
// was read comes with the next reading. It holds the ids of all sessions and of the messages of one.
func (d *reader) readDatabase(db *input.Database) error {
	ids, err := db.IDs(input.Sorted("id, time_created", "session", "time_created, id"))
	for i := 0; i < len(ids) && err == nil && !d.Stopped(); i++ {
		if err = db.Measure(); err == nil {
			err = d.readSession(db, ids[i])
		}
	}
	return err
}

func (d *reader) readSession(db *input.Database, id any) error {
	err := db.Each(input.Sorted("*", "session WHERE id = ?", "id"), func(row []byte) {
		d.sessionRow(object.Of("session", row))
	}, id)
	if err != nil || d.session == nil {
		return err
	}
	messages, err := db.IDs(input.Sorted("id, time_created", "message WHERE session_id = ?", "time_created, id"), id)
	i, place := -1, ""
	for len(messages) > 0 && err == nil && !d.Stopped() {
		some, _ := json.Marshal(messages[:min(len(messages), 64)])
		messages = messages[min(len(messages), 64):]
		err = db.Scan(messagesAndParts, func(_ []string, columns []any) {
			isPart := columns[2] != nil
			if !isPart {
				d.endMessage()
				i++
				place = "messages[" + strconv.Itoa(i) + "].data"
			}
			id, _ := columns[1].(string)
			text, ok := columns[3].(string)
			if bytes, isBytes := columns[3].([]byte); !ok && isBytes {
				text = string(bytes)
			}
			switch o := d.parse(place, []byte(text)); {
			case o == nil:
			case isPart:
				d.partRow(o)
			default:
				d.messageRow(o, id)
			}
		}, string(some))
	}
	return err
}

// messagesAndParts is the query of messages, each with its parts behind it.
var messagesAndParts = input.Sorted("m.time_created, m.id, NULL AS part, m.data", "message m WHERE m.id IN (SELECT "+
	"value FROM json_each(?1)) UNION ALL SELECT m.time_created, m.id, p.id, p.data FROM message m JOIN part p ON "+
	"p.message_id = m.id WHERE m.id IN (SELECT value FROM json_each(?1))", "time_created, id, part")

// readFolder reads a session of a storage folder: its own document, those of its messages in message/SESSION, and of
// their parts in part/MESSAGE, by their names. It follows no symbolic link.
func (d *reader) readFolder(folder, name, session string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if o := d.file(root, name); o != nil {
		d.sessionRow(o)
	}
	if d.session == nil || d.session.id != session {
		return nil
	}
	return d.each(root, "message/"+session, func(message string, o *object.Object) error {
		d.messageRow(o, message)
		return d.each(root, "part/"+message, func(_ string, o *object.Object) error {
			d.partRow(o)
			return nil
		})
	})
}

// file reads a document of a storage folder; nil when it is none.
func (d *reader) file(root *os.Root, name string) *object.Object {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	kind, _, _ := strings.Cut(name, "/")
	if info.Size() > int64(d.Settings.MaxLine) {
		d.reject("", kind, "longer than "+strconv.Itoa(d.Settings.MaxLine)+" bytes")
		return nil
	}
	text, err := root.ReadFile(name)
	if err != nil {
		return nil
	}
	return d.parse(kind, text)
}

// each calls fn with the documents of a folder and their names without .json, in the order of these. A folder that is
// not there has none.
func (d *reader) each(root *os.Root, folder string, fn func(name string, o *object.Object) error) error {
	entries, err := fs.ReadDir(root.FS(), folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for i := 0; i < len(entries) && err == nil && !d.Stopped(); i++ {
		name, isJSON := strings.CutSuffix(entries[i].Name(), ".json")
		if !isJSON {
			continue
		}
		if o := d.file(root, folder+"/"+entries[i].Name()); o != nil {
			err = fn(name, o)
		}
	}
	return err
}
