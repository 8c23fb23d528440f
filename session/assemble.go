package session

func Assemble(rows []Row) *Session { return &Session{} }
