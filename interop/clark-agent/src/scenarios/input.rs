//! What the user's side says while a run is under way and after it.

use crate::model::*;
use crate::plugins::Mailbox;
use crate::stage::*;
use crate::tools::*;
use clark_agent::stream::StreamErrorKind;
use clark_agent::*;
use serde_json::json;

/// The user types before the first model call and while a tool runs; when the model is done there is one more question.
pub async fn steering_and_follow_up(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            let steering = Mailbox::new(
                vec![
                    Some(user("The Teal, not the Tern.")),
                    Some(user("And be quick.")),
                ],
                truth,
            );
            let follow_ups = Mailbox::new(
                vec![
                    Some(user("What about the Tern?")),
                    Some(custom("reminder", json!({"about": "logbook"}))),
                ],
                truth,
            );
            builder.steering(steering).follow_up(follow_ups)
        })
        .tools(vec![returns("find_vessel", "at the outer buoy")])
        .script(vec![
            vec![answer(vec![call(
                "call_find",
                "find_vessel",
                json!({"where": "roads"}),
            )])],
            vec![answer(vec![text("The Teal is at the outer buoy.")])],
            vec![answer(vec![text("The Tern has not reported.")])],
            vec![answer(vec![text("Written down.")])],
        ])
        .play(vec![user("Where is the Tern?")])
        .await;
}

/// Three runs of one conversation on one stream, each with an identity of its own.
pub async fn three_prompts(stage: Stage) {
    let stream = stage.stream("", None);
    let mut history = vec![];
    for (question, reply) in [
        ("Is the lock open?", "It opens at six."),
        ("And the bridge?", "The bridge opens on request."),
        ("Request it.", "Requested."),
    ] {
        let identity = stage.identity(&stage.conversation());
        history = stage
            .run(Some(identity), &stream)
            .history(history)
            .script(vec![vec![answer(vec![text(reply)])]])
            .play(vec![user(question)])
            .await;
    }
}

/// The model fails for good after a tool ran; the host sends the same transcript again, under the same run id.
pub async fn continued_after_failure(stage: Stage) {
    let identity = stage.identity(&stage.conversation());
    let stream = stage.stream("", Some(&identity));
    let prompt = user("How high is the surge?");
    let tool = || returns("read_surge", "surge 0.45 m");
    let calls = || {
        vec![
            text("I read it."),
            call("call_surge", "read_surge", json!({"where": "pier"})),
        ]
    };
    stage
        .run(Some(identity.clone()), &stream)
        .tools(vec![tool()])
        .script(vec![
            vec![answer(calls())],
            vec![failed(
                vec![text("The surge is")],
                StreamErrorKind::Fatal,
                "the model's account is closed",
            )],
        ])
        .play(vec![prompt.clone()])
        .await;
    // The host lost the tool's result with the run.
    stage
        .continuation(Some(identity), &stream)
        .history(vec![prompt])
        .tools(vec![tool()])
        .script(vec![
            vec![answer(calls())],
            vec![answer(vec![text("The surge is forty-five centimetres.")])],
        ])
        .play(vec![])
        .await;
}

/// A run that completed goes on under the same run id, because the host put a tool result behind it.
pub async fn continued_after_result(stage: Stage) {
    let identity = stage.identity(&stage.conversation());
    let stream = stage.stream("", Some(&identity));
    let mut history = stage
        .run(Some(identity.clone()), &stream)
        .tools(vec![returns_result(
            "ask_harbour_master",
            ToolResult::terminal("asked; the answer comes later"),
        )])
        .script(vec![vec![answer(vec![call(
            "call_ask",
            "ask_harbour_master",
            json!({"where": "office"}),
        )])]])
        .play(vec![user("May the Knot berth tonight?")])
        .await;
    if let Some(AgentMessage::ToolResult { content, .. }) = history.last_mut() {
        *content = ToolResultContent::text("the harbour master says yes");
    }
    stage
        .continuation(Some(identity), &stream)
        .history(history)
        .script(vec![vec![answer(vec![text("The Knot may berth.")])]])
        .play(vec![])
        .await;
}
