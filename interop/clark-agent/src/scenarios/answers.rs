//! What a model can say, and what a run says of itself.

use crate::model::*;
use crate::stage::*;
use crate::tools::*;
use clark_agent::tool::ToolResultBlock;
use clark_agent::types::{ImageContent, TextContent, Usage, UserBlock};
use clark_agent::*;
use serde_json::json;

const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

pub async fn simple_text(stage: Stage) {
    stage
        .main_run()
        .script(vec![vec![answer(vec![text(
            "High water at the bar is at 04:12, five metres and ten.",
        )])]])
        .play(vec![user("When is high water at the bar?")])
        .await;
}

/// Every kind of block, of chunk and of message; a system and a custom message are in the history.
pub async fn content_of_every_kind(stage: Stage) {
    let picture = UserContent::Blocks(vec![
        UserBlock::Text(TextContent {
            text: "Which buoy is this?".into(),
        }),
        UserBlock::Image(ImageContent {
            source: PIXEL.into(),
            media_type: Some("image/png".into()),
            alt: Some("a buoy".into()),
        }),
        UserBlock::Image(ImageContent {
            source: "https://station.example/buoys/9.jpg".into(),
            media_type: None,
            alt: None,
        }),
    ]);
    let prompt = AgentMessage::User {
        content: picture,
        timestamp: None,
    };
    let history = vec![
        AgentMessage::System {
            content: "Answers are read over the radio.".into(),
            timestamp: None,
        },
        custom("station_notice", json!({"level": "green", "until": null})),
        custom("empty_notice", json!(null)),
    ];
    let encrypted = json!({
        "type": "reasoning.encrypted", "id": "rs_7", "format": "openai-responses-v1", "index": 0,
        "data": "gAAAAB+/9w==", "zeta": 1, "alpha": {"b": 1, "a": 2}
    });
    let signed =
        json!({"type": "reasoning.text", "text": "Red can.", "signature": "EuYB", "index": 1});
    stage
        .main_run()
        .history(history)
        .tools(vec![returns_result(
            "look_up_buoy",
            ToolResult {
                content: vec![
                    ToolResultBlock::Text(TextContent {
                        text: "Buoy 9, red can, ".into(),
                    }),
                    ToolResultBlock::Image(ImageContent {
                        source: PIXEL.into(),
                        media_type: Some("image/png".into()),
                        alt: None,
                    }),
                    ToolResultBlock::Text(TextContent {
                        text: "quick flashing".into(),
                    }),
                ],
                ..ToolResult::text("").with_narration("Looked up buoy 9.")
            },
        )])
        .script(vec![
            vec![answer(vec![
                thinking("A red can with a nine on it, I think; better look it up."),
                reasoning("The number is nine. "),
                reasoning_details(vec![encrypted, signed]),
                text("I look it up."),
                call(
                    "call_buoy",
                    "look_up_buoy",
                    json!({"where": "fairway", "number": 9}),
                ),
            ])],
            vec![answer(vec![
                reasoning("The register agrees."),
                text("Buoy 9, "),
                text("port hand."),
            ])],
        ])
        .play(vec![prompt])
        .await;
}

/// A transport that does not stream, as those that come with the crate; a provider that counts nothing; no model id.
pub async fn at_once(stage: Stage) {
    stage
        .main_run()
        .without_model_id()
        .tools(vec![returns("read_wind", "calm")])
        .script(vec![
            vec![answer(vec![call("call_wind", "read_wind", json!({}))])
                .at_once()
                .without_usage()],
            vec![answer(vec![text("No wind.")]).at_once().without_usage()],
        ])
        .play(vec![user("Is there wind?")])
        .await;
}

/// The input counts the cached tokens too, as some providers do; and a stop for a reason of its own.
pub async fn other_stop_and_counting(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, _| builder.temperature(0.7).max_output_tokens(4096))
        .history(vec![user("An older question that was never answered.")])
        .script(vec![vec![answer(vec![text("That is not for me to say.")])
            .stopped_by(StopReason::Other)
            .counted(|usage| Usage {
                input_tokens: usage.input_tokens + usage.cache_read_input_tokens,
                ..usage.clone()
            })]])
        .play(vec![user("Who dredges the bar?")])
        .await;
}

/// An answer without a word ends the run too.
pub async fn empty_answer(stage: Stage) {
    stage
        .main_run()
        .script(vec![vec![answer(vec![])]])
        .play(vec![user("Hm.")])
        .await;
}

/// Text that is hard on readers of lines and of JSON: in messages, names, ids, arguments and results.
pub async fn unicode_and_escapes(stage: Stage) {
    let hard = "Ærø «fjord» 🌊👩🏽‍✈️ \u{2028}\u{2029}\u{0000}\u{001b}[31m \"quoted\" \\back\\ </script>\r\n\tend\u{feff}";
    stage
        .main_run()
        .system_prompt("Stationens vagt: «Ærøskøbing»\nline two\u{2028}line three")
        .tools(vec![returns("læs_måler", hard)])
        .script(vec![
            vec![answer(vec![
                text(hard),
                call(
                    "call/1 \"é\"",
                    "læs_måler",
                    json!({
                        "where": hard, "": "empty key", "a.b[0]": [],
                        "big": 18_446_744_073_709_551_615_u64, "small": -9_223_372_036_854_775_808_i64,
                        "exact": 0.1, "tiny": 5e-324, "nested": {"z": {"y": [[{}]]}}
                    }),
                ),
            ])],
            vec![answer(vec![text("Ja.")])],
        ])
        .play(vec![user(hard)])
        .await;
}

pub async fn without_identity(stage: Stage) {
    let stream = stage.stream("", None);
    stage
        .run(None, &stream)
        .tools(vec![returns("read_gauge", "0.90 m")])
        .script(vec![
            vec![answer(vec![call("call_gauge", "read_gauge", json!({}))])],
            vec![answer(vec![text("Ninety centimetres.")])],
        ])
        .play(vec![user("How deep is the creek?")])
        .await;
}

/// An identity with a deadline, outside any conversation.
pub async fn without_conversation(stage: Stage) {
    let identity = stage
        .lone_identity()
        .with_deadline_unix_ms(1_786_785_000_000);
    let stream = stage.stream("", Some(&identity));
    stage
        .run(Some(identity), &stream)
        .script(vec![vec![answer(vec![text("Slack water.")])]])
        .play(vec![user("And now?")])
        .await;
}

pub async fn empty_conversation_id(stage: Stage) {
    let identity = stage.identity("");
    let stream = stage.stream("", Some(&identity));
    stage
        .run(Some(identity), &stream)
        .script(vec![vec![answer(vec![text("Half ebb.")])]])
        .play(vec![user("And in an hour?")])
        .await;
}
