//! Tools that run, fail, or are never reached.

use crate::model::*;
use crate::plugins::Censor;

use crate::release;
use crate::stage::*;
use crate::tools::*;
use crate::truth::Fate;
use clark_agent::tool::arg_parse_error_value;
use clark_agent::ToolResult;
use serde_json::json;

pub async fn multi_turn(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, _| builder.temperature(0.2))
        .tools(vec![
            returns("read_gauge", "gauge at the bar: 2.31 m, rising"),
            returns_result(
                "draw_chart",
                ToolResult {
                    details: json!({"depth_m": 7.25, "pages": [3, 4], "chart": "1183"}),
                    narration: Some("Drew chart 1183.".into()),
                    ..ToolResult::text("chart 1183 drawn")
                },
            ),
        ])
        .script(vec![
            vec![answer(vec![
                text("First the gauge."),
                call("call_gauge", "read_gauge", json!({"where": "bar"})),
            ])],
            vec![answer(vec![
                text("Now the chart."),
                call(
                    "call_chart",
                    "draw_chart",
                    json!({"where": "bar", "scale": 12.5, "layers": null}),
                ),
            ])],
            vec![answer(vec![text(
                "The bar has 2.31 m and is rising; chart 1183 shows it.",
            )])],
        ])
        .play(vec![user("How much water is over the bar? Draw it.")])
        .await;
}

/// Three calls at once that end in another order than they began; one reports while it works.
pub async fn parallel(stage: Stage) {
    stage
        .main_run()
        .tools(vec![
            returns("read_gauge", "1.02 m").taking(60),
            returns("read_wind", "south-west, six").taking(10),
            returns("scan_radar", "two vessels, one buoy adrift")
                .taking(30)
                .reporting(&["sweep 1 of 2", "sweep 2 of 2"]),
        ])
        .script(vec![
            vec![answer(vec![
                call("call_a", "read_gauge", json!({"where": "lock"})),
                call("call_b", "read_wind", json!({})),
                call("call_c", "scan_radar", json!({"where": "fairway"})),
            ])],
            vec![answer(vec![text("Wait for the next tide.")])],
        ])
        .play(vec![user("Can the Teal enter?")])
        .await;
}

/// The same tool twice and another, one after the other because one of them wants the place for itself.
pub async fn sequential(stage: Stage) {
    stage
        .main_run()
        .tools(vec![
            returns("open_gate", "gate moves").taking(40).exclusive(),
            returns("read_gauge", "1.40 m").taking(5),
        ])
        .script(vec![
            vec![answer(vec![
                call("call_open_north", "open_gate", json!({"where": "north"})),
                call("call_level", "read_gauge", json!({"where": "chamber"})),
                call("call_open_south", "open_gate", json!({"where": "south"})),
            ])],
            vec![answer(vec![text("Both gates are open.")])],
        ])
        .play(vec![user("Open the lock.")])
        .await;
}

/// A tool that fails, one that reports an error, an unknown one, arguments that are no JSON, and arguments that lack a key.
pub async fn errors(stage: Stage) {
    stage
        .main_run()
        .tools(vec![
            fails("read_gauge", "the float is stuck in the mud"),
            returns_result(
                "call_pilot",
                ToolResult {
                    details: json!({"channel": 12, "answered": false}),
                    ..ToolResult::error("no answer on channel 12")
                },
            ),
            returns("log_entry", "never reached").requiring("where"),
        ])
        .script(vec![
            vec![answer(vec![
                call("call_fails", "read_gauge", json!({"where": "bar"})),
                call("call_reports", "call_pilot", json!({})),
                call("call_unknown", "read_barometer", json!({})).fate(Fate::Unusable),
                call(
                    "call_no_json",
                    "log_entry",
                    arg_parse_error_value(
                        "EOF while parsing a string at line 1 column 15",
                        "{\"where\": \"quay",
                    ),
                )
                .fate(Fate::Unusable),
                call("call_lacks_key", "log_entry", json!({"when": "now"})).fate(Fate::Unusable),
            ])],
            vec![answer(vec![text("Nothing works today.")])],
        ])
        .play(vec![user("Log the level at the bar.")])
        .await;
}

/// The host takes its time over a tool's reports: the last ones come behind the end.
pub async fn late_updates(stage: Stage) {
    let identity = stage.identity(&stage.conversation());
    let stream = stage.slow_stream(&identity);
    stage
        .run(Some(identity), &stream)
        .tools(vec![returns("scan_radar", "nothing").reporting(&[
            "sweep 1 of 3",
            "sweep 2 of 3",
            "sweep 3 of 3",
        ])])
        .script(vec![
            vec![answer(vec![call("call_scan", "scan_radar", json!({}))])],
            vec![answer(vec![text("Nothing on the radar.")])],
        ])
        .play(vec![user("Scan.")])
        .await;
}

/// Three calls where one is allowed: the first runs, the second is passed over, the third is unknown and costs nothing.
pub async fn over_the_limit(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, _| builder.max_tool_calls_per_turn(1))
        .tools(vec![returns("read_gauge", "1.10 m")])
        .script(vec![
            vec![answer(vec![
                call("call_first", "read_gauge", json!({"where": "bar"})),
                call("call_second", "read_gauge", json!({"where": "quay"})).fate(Fate::Skipped),
                call("call_unknown", "read_barometer", json!({})).fate(Fate::Unusable),
            ])],
            vec![answer(vec![text("One at a time, then.")])],
        ])
        .play(vec![user("Read everything.")])
        .await;
}

/// The failure of one tool stops its sibling, which runs at the same time and watches for that.
pub async fn sibling_cut_short(stage: Stage) {
    stage
        .main_run()
        .tools(vec![
            fails("start_pump", "the fuse is blown").aborting_siblings(),
            waits_for_stop("watch_pump").taking(1),
        ])
        .script(vec![
            vec![answer(vec![
                call("call_start", "start_pump", json!({})),
                call("call_watch", "watch_pump", json!({})).fate(Fate::CutShort),
            ])],
            vec![answer(vec![text("The pump has a blown fuse.")])],
        ])
        .play(vec![user("Start the pump and watch it.")])
        .await;
}

/// The same one after the other: in 0.4.0 the sibling never begins, in 0.2.0 it does.
pub async fn sibling_skipped(stage: Stage) {
    stage
        .main_run()
        .tools(vec![
            fails("start_pump", "the fuse is blown")
                .aborting_siblings()
                .exclusive(),
            returns("read_gauge", "0.80 m"),
        ])
        .script(vec![
            vec![answer(vec![
                call("call_start", "start_pump", json!({})),
                call("call_read", "read_gauge", json!({})).fate(release::SIBLING_AFTER_FAILURE),
            ])],
            vec![answer(vec![text("The pump has a blown fuse.")])],
        ])
        .play(vec![user("Start the pump, then read the gauge.")])
        .await;
}

/// A hook replaces a tool's result by an error.
pub async fn result_rewritten(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            builder.after_tool_call(Censor {
                tool: "read_crew_list",
                result: ToolResult::error("crew lists are not for models"),
                truth: truth.clone(),
            })
        })
        .tools(vec![
            returns("read_crew_list", "A. Mariner, B. Boatswain"),
            returns("read_gauge", "1.10 m"),
        ])
        .script(vec![
            vec![answer(vec![
                call("call_list", "read_crew_list", json!({})),
                call("call_read", "read_gauge", json!({})),
            ])],
            vec![answer(vec![text("I may not see the list.")])],
        ])
        .play(vec![user("Who is on board, and how deep is it?")])
        .await;
}
