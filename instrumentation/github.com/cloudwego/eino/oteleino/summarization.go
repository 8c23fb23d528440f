package oteleino

import (
	"context"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/adk/middlewares/summarization"
	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/otelagent/otelagent/internal/writer"
)

// Summarization returns a copy of config whose summaries are recorded as compactions of the agent's run, and the call
// of the model that writes one as a turn of it. It needs a Handler that Eino calls; nil gives nil.
func Summarization(config *summarization.Config) *summarization.Config {
	if config == nil {
		return nil
	}
	c := *config
	if c.Model != nil {
		c.Model = &summarizer{c.Model}
	}
	theirs := config.Callback
	c.Callback = func(ctx context.Context, before, after adk.ChatModelAgentState) error {
		compacted(ctx, before.Messages, after.Messages)
		if theirs != nil {
			return theirs(ctx, before, after)
		}
		return nil
	}
	return &c
}

// compaction is one that runs.
type compaction struct {
	*writer.Compacting
	err error // of the last call of the model
}

// compacting starts a compaction unless the last call of the model has.
func (r *run) compacting(ctx context.Context) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compact == nil {
		in, c := (*writer.Run)(r.started()).StartCompaction(ctx, writer.Compaction{Trigger: "summarization"})
		ctx, r.compact = in, &compaction{Compacting: c}
	}
	return ctx
}

func compacted(ctx context.Context, before, after []*schema.Message) {
	defer writer.Guard(ScopeName)
	r := within(ctx)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compact != nil {
		r.compact.err = nil
		r.compact.end(before, after)
		r.compact = nil
	}
}

func (c *compaction) end(before, after []*schema.Message) {
	if c.err != nil || before == nil {
		no := false
		res := writer.CompactionResult{Applied: &no}
		if c.err != nil {
			res.Reason = c.err.Error()
		}
		c.End(res)
		return
	}
	yes, had, has := true, int64(len(before)), int64(len(after))
	res := writer.CompactionResult{Applied: &yes, MessagesBefore: &had, MessagesAfter: &has}
	if len(after) > 0 && after[len(after)-1] != nil {
		res.Summary = raw(plain(after[len(after)-1]))
	}
	c.End(res)
}

// summarizer is the model that writes summaries.
type summarizer struct{ model.BaseChatModel }

// start returns a context in which callbacks see the call.
func (s *summarizer) start(ctx context.Context) (context.Context, *run) {
	r := within(ctx)
	if r == nil {
		return ctx, nil
	}
	typ, _ := components.GetType(s.BaseChatModel)
	ctx = context.WithValue(r.compacting(ctx), utilityKey{}, true)
	info := &callbacks.RunInfo{Name: "summarization", Type: typ, Component: components.ComponentOfChatModel}
	return callbacks.ReuseHandlers(ctx, info), r
}

func (r *run) summarized(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compact != nil {
		r.compact.err = err
	}
}

func (s *summarizer) Generate(ctx context.Context, in []*schema.Message, opts ...model.Option) (
	*schema.Message, error) {
	ctx, r := s.start(ctx)
	if r == nil {
		return s.BaseChatModel.Generate(ctx, in, opts...)
	}
	inner := components.IsCallbacksEnabled(s.BaseChatModel)
	if !inner {
		ctx = callbacks.OnStart(ctx, &model.CallbackInput{Messages: in})
	}
	out, err := s.BaseChatModel.Generate(ctx, in, opts...)
	switch {
	case inner:
	case err != nil:
		callbacks.OnError(ctx, err)
	default:
		callbacks.OnEnd(ctx, &model.CallbackOutput{Message: out})
	}
	r.summarized(err)
	return out, err
}
