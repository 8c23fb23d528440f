//! Runs scenarios and writes what phi-core makes of them.

use crate::release::recorder_config;
use crate::scenarios::{self, Scenario};
use phi_core::session::{Session, SessionRecorder};
use phi_core::types::AgentEvent;
use std::fs;
use std::io;
use std::path::Path;
use tokio::sync::mpsc::unbounded_channel;

/// Writes `<scenario>.events.ndjson` and `<scenario>.sessions.json` of every scenario, and
/// `<scenario>.<file>` for a file that phi-core wrote by itself during the scenario.
pub async fn generate(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for scenario in scenarios::all() {
        generate_one(scenario, folder).await?;
    }
    Ok(())
}

async fn generate_one(scenario: Scenario, folder: &Path) -> io::Result<()> {
    let own_files = folder.join(format!("{}.tmp", scenario.name));
    let (sender, mut receiver) = unbounded_channel();
    (scenario.run)(sender, own_files.clone()).await;

    let mut events = vec![];
    while let Some(event) = receiver.recv().await {
        events.push(event);
    }
    let mut lines = String::new();
    for event in &events {
        lines += &serde_json::to_string(event)?;
        lines += "\n";
    }
    fs::write(
        folder.join(format!("{}.events.ndjson", scenario.name)),
        lines,
    )?;

    // Between the lines of the array each session has the bytes that save_session would write.
    let sessions: Vec<String> = record(events)
        .iter()
        .map(serde_json::to_string_pretty)
        .collect::<Result<_, _>>()?;
    let array = format!("[\n{}\n]\n", sessions.join(",\n"));
    fs::write(
        folder.join(format!("{}.sessions.json", scenario.name)),
        array,
    )?;

    if own_files.exists() {
        for (number, entry) in fs::read_dir(&own_files)?.enumerate() {
            let file = entry?.path();
            // Session ids change from run to run and are not wanted in file names.
            let kind = file.file_name().unwrap().to_string_lossy();
            let kind = kind.split_once('.').expect("{session_id}.{kind}").1;
            assert_eq!(number, 0, "one file per scenario");
            fs::rename(
                &file,
                folder.join(format!("{}.saved.{kind}", scenario.name)),
            )?;
        }
        fs::remove_dir(own_files)?;
    }
    Ok(())
}

/// What phi-core's recorder makes of the events of one run, oldest session first.
pub fn record(events: Vec<AgentEvent>) -> Vec<Session> {
    let mut recorder = SessionRecorder::new(recorder_config());
    for event in events {
        recorder.on_event(event);
    }
    recorder.flush();
    let mut sessions = recorder.drain_completed();
    sessions.sort_by_key(|session| session.created_at);
    sessions
}
