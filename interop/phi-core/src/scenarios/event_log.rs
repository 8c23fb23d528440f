//! What 0.10.0 does not have.

use super::*;
use crate::scripted::{call, text, ScriptedTool};
use phi_core::agent_loop::ProgressiveToolCatalog;
use phi_core::session::{EventLog, FileSystemEventLog};
use serde_json::json;

/// Two prompts of one process, then a third after a restart: the log's ordinals begin again at 1
/// in the same file.
pub async fn two_prompts_and_a_restart(events: Events, folder: PathBuf) {
    const SESSION: &str = "logged-session-7";
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![
            text("Asking the weather station."),
            call(
                "call_weather",
                "read_barometer",
                json!({"station": "Lighthouse Point"}),
            ),
        ]),
        Step::Answer(vec![text("The barometer is falling quickly.")]),
        Step::Answer(vec![text("Yes, expect a gale by midnight.")]),
        Step::Answer(vec![text("The gale has passed to the north.")]),
    ])
    .with_session_id(SESSION)
    .with_tools(vec![ScriptedTool::returns(
        "read_barometer",
        "987 hectopascal, falling",
    )
    .shared()]);
    for prompts in [
        &["How is the barometer?", "Will there be a gale?"][..],
        &["Is the gale over?"][..],
    ] {
        let log = Arc::new(FileSystemEventLog::new(&folder));
        agent = agent.with_event_log(log.clone());
        for prompt in prompts {
            user_types().await;
            // With a log, events can still arrive after the call has returned: read to the end
            // of the channel before flushing.
            let (own, mut own_events) = tokio::sync::mpsc::unbounded_channel();
            agent.prompt_with_sender(*prompt, own).await;
            while let Some(event) = own_events.recv().await {
                events.send(event).ok();
            }
        }
        log.flush(SESSION).await.expect("flush the event log");
    }
}

/// The request lists stubs instead of the tools' schemas.
pub async fn progressive_tool_catalog(events: Events) {
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![call(
            "call_help",
            "tool_help",
            json!({"tool_name": "splice_rope"}),
        )]),
        Step::Answer(vec![text("I know how to splice the rope now.")]),
    ])
    .with_tools(vec![ScriptedTool::returns(
        "splice_rope",
        "rope spliced neatly",
    )
    .shared()])
    .with_tool_help()
    .with_progressive_tool_catalog(ProgressiveToolCatalog {
        enabled: true,
        min_tools: 1,
        engage_on_large_schema: true,
    });
    agent
        .prompt_with_sender("How would you splice this rope?", events)
        .await;
}
