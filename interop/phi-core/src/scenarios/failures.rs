//! Providers that fail, limits, and a process that dies.

use super::*;
use crate::scripted::{call, text, ScriptedTool};
use phi_core::context::ExecutionLimits;
use phi_core::provider::ProviderError;
use serde_json::json;

pub async fn before_start(events: Events) {
    let refused = ProviderError::Api("the billing account of the harbour is suspended".into());
    harbour_agent(vec![Step::FailBeforeStart(refused)])
        .prompt_with_sender("List the vessels expected tonight.", events)
        .await;
}

pub async fn after_start(events: Events) {
    let broken = ProviderError::Other("stream ended inside a frame".into());
    harbour_agent(vec![Step::FailAfter(
        "Tonight we expect the Curlew from the north and",
        broken,
    )])
    .prompt_with_sender("List the vessels expected this evening.", events)
    .await;
}

/// Both forms: before anything was streamed, and after a beginning.
pub async fn in_stream(events: Events) {
    let mut agent = harbour_agent(vec![
        Step::ErrorInStream {
            opened: false,
            error: "overloaded: the lighthouse model is busy",
        },
        Step::ErrorInStream {
            opened: true,
            error: "content filter tripped on the word gunpowder",
        },
    ]);
    agent
        .prompt_with_sender("How many barrels are in warehouse six?", events.clone())
        .await;
    user_types().await;
    agent
        .prompt_with_sender("How many barrels are in warehouse seven?", events)
        .await;
}

pub async fn retries_exhausted(events: Events) {
    let dropped = || ProviderError::Network("connection reset by the breakwater relay".into());
    harbour_agent(vec![
        Step::FailAfter("First attempt at the tally", dropped()),
        Step::FailBeforeStart(dropped()),
        Step::FailAfter("Third attempt at the tally", dropped()),
    ])
    .prompt_with_sender("Tally the herring catch.", events)
    .await;
}

pub async fn retry_succeeds(events: Events) {
    harbour_agent(vec![
        Step::FailBeforeStart(ProviderError::RateLimited {
            retry_after_ms: Some(15),
        }),
        Step::Answer(vec![text(
            "Four hundred and six boxes of herring were landed.",
        )]),
    ])
    .prompt_with_sender("Tally the herring catch once more.", events)
    .await;
}

pub async fn execution_limit(events: Events) {
    let weigh = |id| {
        call(
            id,
            "weigh_crate",
            json!({"crate": "marked with a red anchor"}),
        )
    };
    harbour_agent(vec![
        Step::Answer(vec![weigh("call_weigh_1")]),
        Step::Answer(vec![weigh("call_weigh_2")]),
    ])
    .with_execution_limits(ExecutionLimits {
        max_turns: 2,
        ..ExecutionLimits::default()
    })
    .with_tools(vec![ScriptedTool::returns(
        "weigh_crate",
        "one hundred and four kilograms",
    )
    .shared()])
    .prompt_with_sender("Weigh every crate on the quay.", events)
    .await;
}

/// The process dies while the tool of the second turn runs: one turn is complete, one is not.
pub async fn killed(events: Events) {
    let death = CancellationToken::new();
    let power_cut = death.clone();
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![
            text("First the lamp, then the foghorn."),
            call(
                "call_lamp",
                "test_lamp",
                json!({"lamp": "green starboard light"}),
            ),
        ]),
        Step::Answer(vec![call(
            "call_foghorn",
            "test_foghorn",
            json!({"blasts": "two long blasts"}),
        )]),
    ])
    .with_tools(vec![
        ScriptedTool::returns("test_lamp", "lamp burns steadily").shared(),
        ScriptedTool::runs_until_stopped("test_foghorn")
            .on_start(move || power_cut.cancel())
            .shared(),
    ]);
    tokio::select! {
        _ = agent.prompt_with_sender("Test the lamp and the foghorn.", events) => {
            unreachable!("the foghorn never ends")
        }
        _ = death.cancelled() => {}
    }
}
