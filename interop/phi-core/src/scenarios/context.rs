//! Scenarios in which the context sent to the model shrinks.

use super::*;
use crate::record::record;
use crate::scripted::{call, text, ScriptedTool};
use phi_core::context::{CompactionConfig, ContextConfig};
use phi_core::session::save_session;
use serde_json::json;
use std::time::Duration;

fn small_window() -> ContextConfig {
    ContextConfig {
        max_context_tokens: 250,
        system_prompt_tokens: 20,
        compaction: CompactionConfig {
            keep_first_turns: 1,
            keep_recent_turns: 1,
            tool_output_max_lines: 6,
            ..CompactionConfig::default()
        },
        ..ContextConfig::default()
    }
}

fn long_log(harbour: &str) -> String {
    (1..=8)
        .map(|hour| format!("{harbour} watch {hour}: wind south-west, no traffic"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The estimate passes the window after the second log; the next loop sees the compacted history.
pub async fn compaction_in_turn(events: Events) {
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![call(
            "call_log_east",
            "read_log",
            json!({"tower": "east tower"}),
        )]),
        Step::Answer(vec![call(
            "call_log_west",
            "read_log",
            json!({"tower": "west tower"}),
        )]),
        Step::Answer(vec![text("Both towers had a quiet day.")]),
        Step::Answer(vec![text("The wind came from the south-west.")]),
    ])
    .with_context_config(small_window())
    // The note that compaction leaves in the history must not share a millisecond with the log.
    .on_before_compaction_start(|_, _| {
        std::thread::sleep(Duration::from_millis(3));
        true
    })
    .with_tools(vec![ScriptedTool::returns(
        "read_log",
        long_log("Brackwater"),
    )
    .shared()]);
    agent
        .prompt_with_sender("Compare the logs of both towers.", events.clone())
        .await;
    user_types().await;
    agent.append_message(user("And where did the wind come from?"));
    agent
        .continue_loop_with_sender(events, ContinuationKind::Default)
        .await;
}

/// A host compacts between two prompts: AgentStart comes again with the previous loop's id.
/// It needs a Session for that, so it records its own events.
pub async fn compaction_standalone(events: Events, folder: PathBuf) {
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![call(
            "call_buoys",
            "read_log",
            json!({"tower": "buoy tender"}),
        )]),
        Step::Answer(vec![text("All fourteen buoys are lit.")]),
        Step::Answer(vec![text("The last buoy was painted in spring.")]),
    ])
    .with_tools(vec![ScriptedTool::returns(
        "read_log",
        long_log("Buoy tender"),
    )
    .shared()]);
    let (own, mut own_events) = tokio::sync::mpsc::unbounded_channel();
    agent.prompt_with_sender("Are all buoys lit?", own).await;
    let mut first_loop = vec![];
    while let Some(event) = own_events.recv().await {
        first_loop.push(event.clone());
        events.send(event).ok();
    }
    let session = record(first_loop).remove(0);
    agent = agent
        .with_session(session)
        .with_context_config(small_window());
    user_types().await;
    agent.compact_context_with_sender(&events).await;
    user_types().await;
    let compacted = agent.take_session().expect("the agent holds the session");
    save_session(&compacted, &folder).expect("save the compacted session");
    agent
        .prompt_with_sender("When was the last one painted?", events)
        .await;
}

pub async fn prun(events: Events) {
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![call(
            "call_charts",
            "search_charts",
            json!({"area": "Skerry Sound"}),
        )]),
        Step::Answer(vec![call(
            "call_prun_memo",
            "prun_with_memo",
            json!({"tokens": 60, "memo": "chart search found only the Skerry wreck"}),
        )]),
        Step::Answer(vec![call("call_prun", "prun", json!({"tokens": 12}))]),
        Step::Answer(vec![text("One wreck is charted in Skerry Sound.")]),
    ])
    .with_tools(vec![ScriptedTool::returns(
        "search_charts",
        long_log("Skerry Sound"),
    )
    .shared()])
    .with_prun_tool();
    agent
        .prompt_with_sender("Which wrecks are charted in Skerry Sound?", events)
        .await;
}

/// Two reverts that apply (one fading, one pinned) and one to a node that does not exist.
pub async fn revert(events: Events) {
    let revert_to = |id, category, step, summary| {
        call(
            id,
            "revert_to_state",
            json!({"category": category, "step": step, "summary": summary}),
        )
    };
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![call(
            "call_survey",
            "survey_reef",
            json!({"reef": "Cormorant Reef"}),
        )]),
        Step::Answer(vec![
            text("That survey is ten years old."),
            call("call_tow", "order_tow", json!({"tug": "tugboat Bravery"})),
            revert_to(
                "call_revert_1",
                "failure",
                "n1",
                "towing was the wrong plan",
            ),
        ]),
        Step::Answer(vec![
            call(
                "call_anchor",
                "order_anchor",
                json!({"anchor": "spare bow anchor"}),
            ),
            revert_to("call_revert_2", "completion", "n99", "node is not there"),
        ]),
        Step::Answer(vec![revert_to(
            "call_revert_3",
            "completion",
            "n1",
            "anchor question settled",
        )]),
        Step::Answer(vec![text("The Fulmar rides at anchor off the reef.")]),
    ])
    .with_tools(vec![
        ScriptedTool::returns("survey_reef", "reef dries two metres at low water").shared(),
        ScriptedTool::returns("order_tow", "tug arrives in ninety minutes").shared(),
        ScriptedTool::returns("order_anchor", "anchor dropped in six fathoms").shared(),
    ])
    .with_revert_tool();
    agent
        .prompt_with_sender("The Fulmar drifts towards the reef, help her.", events)
        .await;
}
