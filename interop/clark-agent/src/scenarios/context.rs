//! Requests that are not simply the transcript, and model calls that are made more than once.

use crate::model::*;
use crate::plugins::*;
use crate::release;
use crate::stage::*;
use crate::tools::*;
use clark_agent::stream::StreamErrorKind;
use clark_agent::*;
use serde_json::json;
use std::sync::Arc;

/// A transform that runs at every model call and changes nothing.
pub async fn transform_without_effect(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            builder.context_transform(Watched {
                transform: Inspector,
                truth: truth.clone(),
            })
        })
        .tools(vec![returns("read_gauge", "1.10 m")])
        .script(vec![
            vec![answer(vec![call("call_read", "read_gauge", json!({}))])],
            vec![answer(vec![text("One metre ten.")])],
        ])
        .play(vec![user("How deep?")])
        .await;
}

/// Four turns; from the third on a transform leaves messages out of the request. It stands between two that change nothing.
pub async fn transform_that_trims(stage: Stage) {
    let read = |id, place| answer(vec![call(id, "read_gauge", json!({"where": place}))]);
    stage
        .main_run()
        .configure(|builder, truth| {
            let inspector = || Watched {
                transform: Inspector,
                truth: truth.clone(),
            };
            let trimmer = Watched {
                transform: KeepLast(2),
                truth: truth.clone(),
            };
            builder
                .context_transform(inspector())
                .context_transform(trimmer)
                .context_transform(inspector())
        })
        .tools(vec![returns("read_gauge", "1.10 m")])
        .script(vec![
            vec![read("call_1", "bar")],
            vec![read("call_2", "quay")],
            vec![read("call_3", "lock")],
            vec![answer(vec![text("The same everywhere.")])],
        ])
        .play(vec![user("Read all gauges.")])
        .await;
}

/// The crate's own budgets, for tool results and for all tokens, shorten texts: as many messages as before, and not the
/// same.
pub async fn transform_that_shortens(stage: Stage) {
    let log = "0412 level 1.10 m, wind calm, nothing to report. ".repeat(40);
    let read = |id, day| answer(vec![call(id, "read_log", json!({"where": day}))]);
    stage
        .main_run()
        .configure(|builder, truth| {
            let results = ToolResultBudget::new(Arc::new(ToolRegistry::new()));
            let all = TokenBudget {
                max_tokens: 900,
                ..TokenBudget::default()
            };
            builder
                .context_transform(Watched {
                    transform: results.with_default_max_chars(600),
                    truth: truth.clone(),
                })
                .context_transform(Watched {
                    transform: all,
                    truth: truth.clone(),
                })
        })
        .tools(vec![returns("read_log", &log)])
        .script(vec![
            vec![read("call_monday", "monday")],
            vec![read("call_tuesday", "tuesday")],
            vec![answer(vec![text("Nothing to report.")])],
        ])
        .play(vec![user("What is in the log?")])
        .await;
}

/// Two answers are cut off at the output limit, each with more room than the one before; the third is complete. In the
/// next turn once more.
pub async fn escalation(stage: Stage) {
    let begin = || {
        truncated(vec![text(
            "The tides of the week are, beginning with Monday,",
        )])
    };
    stage
        .main_run()
        .configure(|builder, _| release::escalate(builder, 64))
        .tools(vec![returns("read_table", "04:12 16:40 / 05:01 17:25")])
        .script(vec![
            vec![
                begin(),
                begin(),
                answer(vec![
                    text("I read the table."),
                    call("call_table", "read_table", json!({})),
                ]),
            ],
            vec![begin(), answer(vec![text("Monday 04:12 and 16:40.")])],
        ])
        .play(vec![user("Write out the tides of the week.")])
        .await;
}

/// No limit was set: the loop has nothing to double and takes the answer as it is.
pub async fn truncated_without_limit(stage: Stage) {
    stage
        .main_run()
        .script(vec![vec![truncated(vec![text(
            "The tides of the week are, beginning",
        )])]])
        .play(vec![user("Write out the tides of the week.")])
        .await;
}

/// The connection closes twice without a word, once after some text and once before; then the transport has nothing to show
/// for its tokens. Both releases try again.
pub async fn empty_streams(stage: Stage) {
    stage
        .main_run()
        .tools(vec![returns("read_wind", "calm")])
        .script(vec![
            vec![
                broken_off(vec![text("The wi")]),
                broken_off(vec![]).at_once(),
                answer(vec![call("call_wind", "read_wind", json!({}))]),
            ],
            vec![
                failed(
                    vec![reasoning("I should call something.")],
                    StreamErrorKind::ZeroOutputTransport,
                    "no output before the connection closed",
                ),
                answer(vec![text("Calm.")]),
            ],
        ])
        .play(vec![user("How is the wind?")])
        .await;
}

/// Failures that pass. 0.2.0 ends at the first, 0.4.0 tries again after each.
pub async fn passing_failures(stage: Stage) {
    let first = failed(
        vec![text("High water")],
        StreamErrorKind::Transient,
        "connection reset by peer",
    );
    let turn = if release::REPEATS_PASSING_FAILURES {
        vec![
            first,
            failed(vec![], StreamErrorKind::ProviderRateLimited, "slow down").at_once(),
            marked_failed(vec![text("High wa")], "upstream said 529"),
            answer(vec![text("High water is at 04:12.")]),
        ]
    } else {
        vec![first]
    };
    stage
        .main_run()
        .script(vec![turn])
        .play(vec![user("When is high water?")])
        .await;
}

/// Some providers number their calls anew in every answer.
pub async fn repeated_call_ids(stage: Stage) {
    let read = |place| answer(vec![call("call_0", "read_gauge", json!({"where": place}))]);
    stage
        .main_run()
        .tools(vec![returns("read_gauge", "1.10 m")])
        .script(vec![
            vec![read("bar")],
            vec![read("quay")],
            vec![answer(vec![text("Both the same.")])],
        ])
        .play(vec![user("Read two gauges.")])
        .await;
}

/// The same with the transform that gives them other ids in the request.
#[cfg(feature = "newest")]
pub async fn unique_call_ids(stage: Stage) {
    let read = |place| answer(vec![call("call_0", "read_gauge", json!({"where": place}))]);
    stage
        .main_run()
        .configure(|builder, truth| {
            builder.context_transform(Watched {
                transform: UniqueToolCallIds,
                truth: truth.clone(),
            })
        })
        .tools(vec![returns("read_gauge", "1.10 m")])
        .script(vec![
            vec![read("bar")],
            vec![read("quay")],
            vec![answer(vec![text("Both the same.")])],
        ])
        .play(vec![user("Read two gauges.")])
        .await;
}

/// The provider refuses a request as too long, twice; the host's recovery shortens the history each time, for good.
#[cfg(feature = "newest")]
pub async fn context_overflow(stage: Stage) {
    let too_long = || {
        failed(
            vec![],
            StreamErrorKind::ContextOverflow,
            "maximum context length is 400 tokens",
        )
        .at_once()
    };
    let read = |id| answer(vec![call(id, "read_log", json!({"where": id}))]);
    stage
        .main_run()
        .configure(|builder, truth| {
            builder.overflow_recovery(Shrinker {
                keep: KeepLast(2),
                truth: truth.clone(),
            })
        })
        .tools(vec![returns("read_log", "nothing to report")])
        .script(vec![
            vec![read("call_monday")],
            vec![read("call_tuesday")],
            vec![too_long(), read("call_wednesday")],
            vec![too_long(), answer(vec![text("Nothing all week.")])],
        ])
        .play(vec![user("Sum up the week.")])
        .await;
}
