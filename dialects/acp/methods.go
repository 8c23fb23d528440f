package acp

// The methods of version 1, of the released protocol and of what SDK 2.4.0 has beside it.
const (
	mInitialize      = "initialize"
	mProxyInitialize = "_proxy/initialize" // what a conductor asks a proxy in place of it
	mNew             = "session/new"
	mLoad            = "session/load"
	mResume          = "session/resume"
	mFork            = "session/fork"
	mClose           = "session/close"
	mSetMode         = "session/set_mode"
	mSetModel        = "session/set_model"
	mSetConfig       = "session/set_config_option"
	mPrompt          = "session/prompt"
	mCancel          = "session/cancel"
	mCancelRequest   = "$/cancel_request"
	mUpdate          = "session/update"
	mPermission      = "session/request_permission"
	mReadFile        = "fs/read_text_file"
	mWriteFile       = "fs/write_text_file"
	mTermCreate      = "terminal/create"
	mTermOutput      = "terminal/output"
	mTermWait        = "terminal/wait_for_exit"
	mTermKill        = "terminal/kill"
	mTermRelease     = "terminal/release"
	mElicit          = "elicitation/create"
)

// method says what is known of a method.
type method struct {
	dir Direction
	// wants are members that a result of it always has; with them a response is told from that to another request of the same id.
	wants []string
}

var methods = map[string]method{
	mInitialize:            {ToAgent, []string{"protocolVersion"}},
	mProxyInitialize:       {ToAgent, []string{"protocolVersion"}},
	"authenticate":         {dir: ToAgent},
	"logout":               {dir: ToAgent},
	mNew:                   {ToAgent, []string{"sessionId"}},
	mLoad:                  {dir: ToAgent},
	mResume:                {dir: ToAgent},
	mFork:                  {ToAgent, []string{"sessionId"}},
	"session/list":         {ToAgent, []string{"sessions"}},
	"session/delete":       {dir: ToAgent},
	"session/archive":      {dir: ToAgent},
	"session/unarchive":    {dir: ToAgent},
	"session/status":       {dir: ToAgent},
	"session/set_title":    {dir: ToAgent},
	mClose:                 {dir: ToAgent},
	mSetMode:               {dir: ToAgent},
	mSetModel:              {dir: ToAgent},
	mSetConfig:             {ToAgent, []string{"configOptions"}},
	mPrompt:                {ToAgent, []string{"stopReason"}},
	mCancel:                {dir: ToAgent},
	mUpdate:                {dir: ToClient},
	mPermission:            {ToClient, []string{"outcome"}},
	mReadFile:              {ToClient, []string{"content"}},
	mWriteFile:             {dir: ToClient},
	mTermCreate:            {ToClient, []string{"terminalId"}},
	mTermOutput:            {ToClient, []string{"output", "truncated"}},
	mTermWait:              {dir: ToClient},
	mTermKill:              {dir: ToClient},
	mTermRelease:           {dir: ToClient},
	mElicit:                {ToClient, []string{"action"}},
	"elicitation/complete": {dir: ToClient},
	mCancelRequest:         {},
}

func knownMethod(name string) bool {
	_, known := methods[name]
	return known
}

// fits reports whether a result may be one of the method.
func (m method) fits(result []byte) bool {
	if len(m.wants) == 0 {
		return true
	}
	o, _ := members(result)
	for _, key := range m.wants {
		if o.raw(key) == nil {
			return false
		}
	}
	return true
}
