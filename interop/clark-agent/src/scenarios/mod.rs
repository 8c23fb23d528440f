//! One function per scenario.

mod answers;
mod children;
mod context;
mod endings;
mod gates;
mod input;
mod tool_calls;

use crate::stage::Stage;
use std::future::Future;
use std::pin::Pin;

type Play = Box<dyn FnOnce(Stage) -> Pin<Box<dyn Future<Output = ()>>>>;

pub struct Scenario {
    pub name: &'static str,
    pub play: Play,
}

fn scenario<F>(name: &'static str, play: impl FnOnce(Stage) -> F + 'static) -> Scenario
where
    F: Future<Output = ()> + 'static,
{
    let play: Play = Box::new(|stage| Box::pin(play(stage)));
    Scenario { name, play }
}

pub fn all() -> Vec<Scenario> {
    let mut all = vec![
        scenario("simple-text", answers::simple_text),
        scenario("content-of-every-kind", answers::content_of_every_kind),
        scenario("at-once", answers::at_once),
        scenario("other-stop-and-counting", answers::other_stop_and_counting),
        scenario("empty-answer", answers::empty_answer),
        scenario("unicode-and-escapes", answers::unicode_and_escapes),
        scenario("without-identity", answers::without_identity),
        scenario("without-conversation", answers::without_conversation),
        scenario("empty-conversation-id", answers::empty_conversation_id),
        scenario("multi-turn-tools", tool_calls::multi_turn),
        scenario("parallel-tools", tool_calls::parallel),
        scenario("sequential-tools", tool_calls::sequential),
        scenario("tool-errors", tool_calls::errors),
        scenario("late-tool-updates", tool_calls::late_updates),
        scenario("over-the-call-limit", tool_calls::over_the_limit),
        scenario("sibling-cut-short", tool_calls::sibling_cut_short),
        scenario("sibling-skipped", tool_calls::sibling_skipped),
        scenario("result-rewritten", tool_calls::result_rewritten),
        scenario("one-gate", gates::one_gate),
        scenario("agreeing-gates", gates::agreeing_gates),
        scenario("conflicting-gates", gates::conflicting_gates),
        scenario("silenced-gate", gates::silenced_gate),
        scenario("gates-allow-nothing", gates::gates_that_allow_nothing),
        scenario("call-outside-list", gates::call_outside_the_list),
        scenario(
            "call-outside-list-unexplained",
            gates::call_outside_the_list_unexplained,
        ),
        scenario("blocked-by-hooks", gates::blocked_by_hooks),
        scenario("blocked-in-sequence", gates::blocked_in_sequence),
        scenario(
            "transform-without-effect",
            context::transform_without_effect,
        ),
        scenario("transform-trims", context::transform_that_trims),
        scenario("transform-shortens", context::transform_that_shortens),
        scenario("output-tokens-escalation", context::escalation),
        scenario("truncated-without-limit", context::truncated_without_limit),
        scenario("empty-streams", context::empty_streams),
        scenario("passing-failures", context::passing_failures),
        scenario("repeated-call-ids", context::repeated_call_ids),
        scenario("steering-and-follow-up", input::steering_and_follow_up),
        scenario("three-prompts", input::three_prompts),
        scenario("continued-after-failure", input::continued_after_failure),
        scenario("continued-after-result", input::continued_after_result),
        scenario("fatal-stream-error", endings::fatal_stream_error),
        scenario("fatal-before-start", endings::fatal_before_start),
        scenario(
            "overflow-without-recovery",
            endings::overflow_without_recovery,
        ),
        scenario("abort-during-stream", endings::abort_during_stream),
        scenario("abort-during-tool", endings::abort_during_tool),
        scenario("abort-between-turns", endings::abort_between_turns),
        scenario("abort-before-model", endings::abort_before_model),
        scenario("abort-in-sequence", endings::abort_in_sequence),
        scenario("abort-in-parallel", endings::abort_in_parallel),
        scenario("fatal-tool", endings::fatal_tool),
        scenario("terminal-tool", endings::terminal_tool),
        scenario("plain-text-nudged", endings::plain_text_nudged),
        scenario("plain-text-three-times", endings::plain_text_three_times),
        scenario("plain-text-delivered", endings::plain_text_delivered),
        scenario("child-shared-sink", children::shared_sink),
        scenario(
            "children-without-details",
            children::shared_sink_without_details,
        ),
        scenario("child-shared-recorder", children::shared_recorder),
        scenario("child-own-sink", children::own_sink),
        scenario(
            "parallel-children-shared-sink",
            children::parallel_shared_sink,
        ),
        scenario(
            "parallel-children-shared-recorder",
            children::parallel_shared_recorder,
        ),
        scenario("parallel-children-own-sinks", children::parallel_own_sinks),
        scenario("strangers-shared-sink", children::strangers),
        scenario("nameless-parent", children::nameless_parent),
        scenario("dying-child", children::dying_child),
        scenario("grandchild", children::grandchild),
        scenario("child-without-identities", children::without_identities),
    ];
    all.extend(of_this_release());
    all
}

#[cfg(not(feature = "newest"))]
fn of_this_release() -> Vec<Scenario> {
    vec![
        scenario("answer-marked-failed", endings::answer_marked_failed),
        scenario("iteration-limit", endings::iteration_limit),
        scenario("wrapped-up", endings::wrapped_up),
        scenario("empty-outcome-budget", endings::empty_outcome_budget),
    ]
}

#[cfg(feature = "newest")]
fn of_this_release() -> Vec<Scenario> {
    vec![
        scenario("context-overflow", context::context_overflow),
        scenario("unique-call-ids", context::unique_call_ids),
    ]
}
