//! Asks phi-core whether it can read a session file.

use phi_core::session::Session;
use serde_json::value::RawValue;
use std::fs;

/// `file` holds one session, or an array of them.
pub fn accept(file: &str) -> Result<(), String> {
    let content = fs::read_to_string(file).map_err(|error| error.to_string())?;
    if !content.trim_start().starts_with('[') {
        return read(&content);
    }
    let sessions: Vec<Box<RawValue>> =
        serde_json::from_str(&content).map_err(|error| error.to_string())?;
    for (index, session) in sessions.iter().enumerate() {
        read(session.get()).map_err(|error| format!("session {index}: {error}"))?;
    }
    Ok(())
}

fn read(session: &str) -> Result<(), String> {
    serde_json::from_str::<Session>(session)
        .map(|_| ())
        .map_err(|error| error.to_string())
}
