//! The ways in which a run can end.

use crate::model::*;
use crate::plugins::Mailbox;
use crate::release;
use crate::stage::*;
use crate::tools::*;
use clark_agent::stream::StreamErrorKind;
use clark_agent::*;
use serde_json::json;

/// The model fails for good in the second turn, after a beginning.
pub async fn fatal_stream_error(stage: Stage) {
    stage
        .main_run()
        .tools(vec![returns("read_gauge", "1.10 m")])
        .script(vec![
            vec![answer(vec![call("call_read", "read_gauge", json!({}))])],
            vec![failed(
                vec![text("It is one met")],
                StreamErrorKind::Fatal,
                "the request was rejected: unsupported model",
            )],
        ])
        .play(vec![user("How deep?")])
        .await;
}

/// It fails before anything was streamed, in the first turn.
pub async fn fatal_before_start(stage: Stage) {
    stage
        .main_run()
        .script(vec![vec![failed(
            vec![],
            StreamErrorKind::Fatal,
            "invalid api key",
        )
        .at_once()]])
        .play(vec![user("How deep?")])
        .await;
}

/// The request is too long and the host has no way to shorten it.
pub async fn overflow_without_recovery(stage: Stage) {
    stage
        .main_run()
        .script(vec![vec![failed(
            vec![],
            StreamErrorKind::ContextOverflow,
            "maximum context length is 400 tokens",
        )
        .at_once()]])
        .play(vec![user("Read the whole log.")])
        .await;
}

/// The user presses stop while the model speaks.
pub async fn abort_during_stream(stage: Stage) {
    stage
        .main_run()
        .script(vec![vec![failed(
            vec![text("Let me tell you the whole history of the")],
            StreamErrorKind::Aborted,
            "stopped by the user",
        )]])
        .play(vec![user("Tell me about the bar.")])
        .await;
}

/// The user presses stop while the only tool runs.
pub async fn abort_during_tool(stage: Stage) {
    let stop = stage.stop();
    stage
        .main_run()
        .tools(vec![
            is_stopped("tow_barge", stop).reporting(&["line is fast"])
        ])
        .script(vec![vec![answer(vec![
            text("I tow it."),
            call("call_tow", "tow_barge", json!({"where": "basin"})),
        ])]])
        .play(vec![user("Tow the barge away.")])
        .await;
}

/// The user presses stop while a tool runs that does not watch for it: the turn ends, and no other begins.
pub async fn abort_between_turns(stage: Stage) {
    let stop = stage.stop();
    let tool = works("read_gauge", move |_, _| {
        stop.cancel();
        async { ToolResult::text("1.10 m") }
    });
    stage
        .main_run()
        .tools(vec![tool])
        .script(vec![vec![answer(vec![call(
            "call_read",
            "read_gauge",
            json!({}),
        )])]])
        .play(vec![user("How deep?")])
        .await;
}

/// The user pressed stop before the first model call.
pub async fn abort_before_model(stage: Stage) {
    stage.stop().cancel();
    stage.main_run().play(vec![user("Never mind.")]).await;
}

/// The user presses stop while the second of three tools runs, one after the other.
pub async fn abort_in_sequence(stage: Stage) {
    let stop = stage.stop();
    stage
        .main_run()
        .configure(|builder, _| builder.default_execution_mode(ExecutionMode::Sequential))
        .tools(vec![
            returns("read_gauge", "1.10 m"),
            is_stopped("tow_barge", stop),
        ])
        .script(vec![vec![answer(vec![
            call("call_before", "read_gauge", json!({"where": "basin"})),
            call("call_tow", "tow_barge", json!({})),
            call("call_after", "read_gauge", json!({"where": "basin"})),
        ])]])
        .play(vec![user("Tow the barge away.")])
        .await;
}

/// The user presses stop while two tools run at once, of which one has ended: the loop reports neither.
pub async fn abort_in_parallel(stage: Stage) {
    let stop = stage.stop();
    let run = stage.main_run();
    let truth = run.truth.clone();
    run.tools(vec![
        returns("read_gauge", "1.10 m").taking(5),
        is_stopped("tow_barge", stop).taking(60),
    ])
    .script(vec![vec![answer(vec![
        call("call_read", "read_gauge", json!({})),
        call("call_tow", "tow_barge", json!({})),
    ])]])
    .play(vec![user("Tow the barge away.")])
    .await;
    truth.lost_batch();
}

/// A tool ends the run by an error that is not meant for the model.
pub async fn fatal_tool(stage: Stage) {
    stage
        .main_run()
        .tools(vec![fails_fatally(
            "read_gauge",
            "the station's disk is full",
        )])
        .script(vec![vec![answer(vec![call(
            "call_read",
            "read_gauge",
            json!({}),
        )])]])
        .play(vec![user("How deep?")])
        .await;
}

/// A tool's result ends the run: no further model call, and nobody asks for steering or follow-ups.
pub async fn terminal_tool(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            builder
                .steering(Mailbox::new(vec![None, Some(user("never read"))], truth))
                .follow_up(Mailbox::new(vec![Some(user("never read"))], truth))
        })
        .tools(vec![returns_result(
            "deliver",
            ToolResult::terminal("delivered"),
        )])
        .script(vec![vec![answer(vec![call(
            "call_deliver",
            "deliver",
            json!({"text": "High water is at 04:12."}),
        )])]])
        .play(vec![user("When is high water?")])
        .await;
}

/// The model talks where it should call: the loop tells it so, by a message that no event shows.
pub async fn plain_text_nudged(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, _| {
            builder
                .plain_text_terminal_fallback_tool("deliver")
                .plain_text_terminal_fallback_eager(true)
                .plain_text_terminal_fallback_eager_nudge(true)
        })
        .tools(vec![returns_result(
            "deliver",
            ToolResult::terminal("delivered"),
        )])
        .script(vec![
            vec![answer(vec![text("High water is at 04:12.")])],
            vec![answer(vec![call(
                "call_deliver",
                "deliver",
                json!({"text": "High water is at 04:12."}),
            )])],
        ])
        .play(vec![user("When is high water?")])
        .await;
}

/// Three times talk. 0.2.0 then gives up and delivers the first of the texts, 0.4.0 goes on telling.
pub async fn plain_text_three_times(stage: Stage) {
    let mut script = vec![
        vec![answer(vec![text("High water is at 04:12.")])],
        vec![answer(vec![text("As I said.")])],
        vec![answer(vec![text("At 04:12!")])],
    ];
    if release::NUDGES_FOREVER {
        script.push(vec![answer(vec![call(
            "call_deliver",
            "deliver",
            json!({}),
        )])]);
    }
    stage
        .main_run()
        .configure(|builder, _| {
            builder
                .plain_text_terminal_fallback_tool("deliver")
                .plain_text_terminal_fallback_eager(true)
                .plain_text_terminal_fallback_eager_nudge(true)
        })
        .tools(vec![returns_result(
            "deliver",
            ToolResult::terminal("delivered"),
        )])
        .script(script)
        .play(vec![user("When is high water?")])
        .await;
}

/// No telling at all: the loop makes a tool result of the text, of a call that was never made.
pub async fn plain_text_delivered(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, _| {
            builder
                .plain_text_terminal_fallback_tool("deliver")
                .plain_text_terminal_fallback_eager(true)
        })
        .tools(vec![returns_result(
            "deliver",
            ToolResult::terminal("delivered"),
        )])
        .script(vec![vec![answer(vec![text("High water is at 04:12.")])]])
        .play(vec![user("When is high water?")])
        .await;
}

/// The transport completes an answer and calls it an error: both ends come, then the run fails. Later releases try again.
#[cfg(not(feature = "newest"))]
pub async fn answer_marked_failed(stage: Stage) {
    stage
        .main_run()
        .script(vec![vec![marked_failed(
            vec![text("High wa")],
            "upstream said 529",
        )]])
        .play(vec![user("When is high water?")])
        .await;
}

/// Two turns are allowed and both call tools. The follow-up comes after the last turn; no model sees it.
#[cfg(not(feature = "newest"))]
pub async fn iteration_limit(stage: Stage) {
    let read = |id| answer(vec![call(id, "read_gauge", json!({}))]);
    stage
        .main_run()
        .configure(|builder, truth| {
            builder
                .max_iterations(2)
                .grace_iterations(0)
                .follow_up(Mailbox::new(
                    vec![Some(user("You should deliver now."))],
                    truth,
                ))
        })
        .tools(vec![returns("read_gauge", "1.10 m")])
        .script(vec![vec![read("call_1")], vec![read("call_2")]])
        .play(vec![user("Watch the gauge.")])
        .await;
}

/// Shortly before the limit the loop asks the model to come to an end.
#[cfg(not(feature = "newest"))]
pub async fn wrapped_up(stage: Stage) {
    let read = |id| answer(vec![call(id, "read_gauge", json!({}))]);
    stage
        .main_run()
        .configure(|builder, truth| {
            let truth = truth.clone();
            builder
                .max_iterations(4)
                .grace_iterations(2)
                .graceful_turn_limit_message_provider(move || {
                    let message = "Two turns are left; come to an end.";
                    truth.input(message.into());
                    message.into()
                })
        })
        .tools(vec![returns("read_gauge", "1.10 m")])
        .script(vec![
            vec![read("call_1")],
            vec![read("call_2")],
            vec![answer(vec![text("It stays at one metre ten.")])],
        ])
        .play(vec![user("Watch the gauge.")])
        .await;
}

/// The model answers without a call more often than allowed: agent_end comes, and the run is an error.
#[cfg(not(feature = "newest"))]
pub async fn empty_outcome_budget(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            builder
                .empty_outcome_retry_budget(1)
                .follow_up(Mailbox::new(vec![Some(user("Use a tool."))], truth))
        })
        .tools(vec![returns("deliver", "delivered")])
        .script(vec![
            vec![answer(vec![text("I will.")])],
            vec![answer(vec![text("Soon.")])],
        ])
        .play(vec![user("Deliver the tide table.")])
        .await;
}
