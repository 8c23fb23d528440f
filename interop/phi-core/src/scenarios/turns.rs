//! Ordinary turns: tools, streaming, message kinds.

use super::*;
use crate::scripted::{call, text, thinking, ScriptedTool, Signal};
use serde_json::json;
use std::time::Duration;

pub async fn plain_multi_turn(events: Events) {
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![
            text("I will look up the manifest of the Albatross."),
            call(
                "call_manifest",
                "read_manifest",
                json!({"vessel": "MV Albatross"}),
            ),
        ]),
        Step::Answer(vec![call(
            "call_berth",
            "assign_berth",
            json!({"vessel": "MV Albatross", "berth": 14, "draught_m": 7.0}),
        )]),
        Step::Answer(vec![text(
            "The Albatross lies at berth fourteen with 212 crates of cinnamon.",
        )]),
    ])
    .with_tools(vec![
        ScriptedTool::returns(
            "read_manifest",
            "212 crates of cinnamon, 9 barrels of pitch",
        )
        .with_details(json!({"manifest_pages": 3, "customs_weight_kg": 18250.5}))
        .shared(),
        ScriptedTool::returns("assign_berth", "Berth 14 reserved until Thursday noon").shared(),
    ]);
    agent
        .prompt_with_sender(
            "Where does the Albatross moor and what does she carry?",
            events,
        )
        .await;
}

/// Three tools at once that end in another order than they were called.
pub async fn parallel_tools_one_error(events: Events) {
    let (customs_done, crane_done) = (Signal::new(), Signal::new());
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![
            text("Checking tide, crane and customs together."),
            call(
                "call_tide",
                "read_tide_table",
                json!({"station": "Brackwater Bar"}),
            ),
            call(
                "call_crane",
                "inspect_crane",
                json!({"crane": "north gantry"}),
            ),
            call(
                "call_customs",
                "query_customs",
                json!({"seal": "CH-77121-X"}),
            ),
        ]),
        Step::Answer(vec![text(
            "Tide and customs are fine, but the north gantry is out of order.",
        )]),
    ])
    .with_tools(vec![
        ScriptedTool::returns("read_tide_table", "High water at 04:52, 3.9 metres")
            .after(&crane_done)
            .shared(),
        ScriptedTool::fails("inspect_crane", "hydraulic pressure sensor unreachable")
            .after(&customs_done)
            .then(&crane_done)
            .shared(),
        ScriptedTool::returns("query_customs", "Seal CH-77121-X intact, duty paid in full")
            .reporting(
                "customs form 3 of 8 compared",
                "Waiting for the customs office",
            )
            .then(&customs_done)
            .shared(),
    ]);
    agent
        .prompt_with_sender("Can we unload the Heron before dawn?", events)
        .await;
}

pub async fn unknown_tool_and_timeout(events: Events) {
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![
            call(
                "call_submarine",
                "launch_submarine",
                json!({"depth": "forty fathoms"}),
            ),
            call(
                "call_dredger",
                "hail_dredger",
                json!({"message": "please answer on channel nine"}),
            ),
        ]),
        Step::Answer(vec![text(
            "Neither the submarine nor the dredger could be reached.",
        )]),
    ])
    .with_tool_timeout(Duration::from_millis(30))
    .with_tools(vec![
        ScriptedTool::runs_until_stopped("hail_dredger").shared()
    ]);
    agent
        .prompt_with_sender("Send the submarine and call the dredger.", events)
        .await;
}

pub async fn streaming(events: Events) {
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![
            thinking(
                "The pilot needs both soundings before the ebb.",
                "c2lnbmF0dXJlLXNvdW5kaW5n",
            ),
            text("Taking both soundings — east and west channel."),
            call(
                "call_east",
                "take_sounding",
                json!({"channel": "east \"inner\" channel"}),
            ),
            call(
                "call_west",
                "take_sounding",
                json!({"channel": "west channel, 6½ fathoms?"}),
            ),
        ]),
        Step::Answer(vec![
            thinking(
                "Both readings agree with the chart.",
                "c2lnbmF0dXJlLWNoYXJ0",
            ),
            text("Both channels carry five fathoms.\nThe pilot may come in."),
        ]),
    ])
    .with_thinking(ThinkingLevel::High)
    .with_temperature(0.7)
    .with_max_tokens(1500)
    .with_tools(vec![ScriptedTool::returns(
        "take_sounding",
        "five fathoms over grey mud",
    )
    .shared()]);
    agent
        .prompt_with_sender("Is there water enough for the Kingfisher?", events)
        .await;
}

pub async fn extension_and_image(events: Events) {
    // A transparent picture of one pixel.
    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let mut agent = harbour_agent(vec![Step::Answer(vec![text(
        "The photograph shows an empty quay at dusk.",
    )])]);
    let notice = ExtensionMessage::new(
        "operator_notice",
        json!({"banner": "storm warning for the outer roads", "severity": 3}),
    );
    let photograph = Message::User {
        content: vec![
            text("What is on this photograph of the quay?"),
            Content::Image {
                data: PIXEL.into(),
                mime_type: "image/png".into(),
            },
        ],
        timestamp: now_ms(),
    };
    agent
        .prompt_messages_with_sender(
            vec![AgentMessage::Extension(notice), photograph.into()],
            events,
        )
        .await;
}

pub async fn provenance_hints(events: Events) {
    let mut agent = harbour_agent(vec![Step::Answer(vec![text(
        "As noted last autumn, the Plover pays half harbour dues.",
    )])]);
    let remembered = LlmMessage::new(Message::user(
        "Remembered: the Plover is exempt from half the harbour dues.",
    ))
    .with_provenance_hint(BlockProvenance::MemoryTier {
        tier: "long-term".into(),
        record_id: "memory-record-0042".into(),
    });
    user_types().await;
    let question = user("What dues does the Plover owe?");
    agent
        .prompt_messages_with_sender(vec![AgentMessage::Llm(remembered), question], events)
        .await;
}
