//! What really happened, told by those who did it: the scripted model, the tools, the plugins and the host write
//! here while a scenario runs. Nothing in this file ever sees an AgentEvent.
//!
//! The types are the documented shape of `<scenario>.tree.json`; README.md describes every key.

use clark_agent::types::Usage;
use clark_agent::{AgentMessage, RunIdentity, StopReason};
use serde::Serialize;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard};

#[derive(Serialize)]
pub struct Tree {
    pub session: Option<String>,
    pub runs: Vec<Run>,
}

#[derive(Clone, Serialize)]
pub struct Run {
    pub run_id: Option<String>,
    pub parent_run_id: Option<String>,
    pub depth: usize,
    pub entry: &'static str,
    pub stream: String,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub turns: Vec<Turn>,
    /// Messages that arrived after the last turn: no model saw them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub late_inputs: Vec<String>,
    /// Its place in the tree's list.
    #[serde(skip)]
    number: usize,
    #[serde(skip)]
    ahead: Ahead,
}

/// What already happened for the model call that comes next.
#[derive(Clone, Default)]
struct Ahead {
    inputs: Vec<String>,
    compactions: Vec<Compaction>,
    gates: Vec<Gate>,
    conflict: Option<Conflict>,
}

#[derive(Clone, Serialize)]
pub struct Turn {
    pub index: usize,
    pub inputs: Vec<String>,
    pub attempts: Vec<Attempt>,
    pub stop_reason: Option<StopReason>,
    pub usage: Option<Usage>,
    pub text: String,
    pub tool_calls: Vec<ToolCall>,
    pub compactions: Vec<Compaction>,
    pub permissions: Vec<Permission>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unrequested_results: Vec<String>,
}

#[derive(Clone, Serialize)]
pub struct Attempt {
    pub messages: usize,
    pub tools: Vec<String>,
    pub model_id: Option<String>,
    pub temperature: Option<f32>,
    pub max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub system_messages: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Gate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Conflict>,
    pub usage: Option<Usage>,
    pub stop_reason: Option<StopReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub text: String,
    pub discarded: bool,
}

#[derive(Clone, Serialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub args: Value,
    pub result_text: Option<String>,
    pub outcome: Outcome,
    pub executed: bool,
    /// The run that the tool started: its place in the list, and its id if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_run: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_run_id: Option<String>,
    /// The tool ended, but the run ended before the loop said so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreported: bool,
    #[serde(skip)]
    pub fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok,
    Error,
    Denied,
    Skipped,
    Unfinished,
}

/// What the author of a scenario knows of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// The tool runs, and tells the outcome by itself.
    Runs,
    /// There is no such tool, or the arguments are refused.
    Unusable,
    /// It runs until the failure of a sibling stops it.
    CutShort,
    /// A plugin blocks it, and tells so by itself.
    Blocked,
    /// It was not offered, because of these gates.
    Hidden(&'static str),
    /// The loop passes it over.
    Skipped,
}

#[derive(Clone, Serialize)]
pub struct Compaction {
    pub plugin: String,
    pub attempt: usize,
    pub before: usize,
    pub after: usize,
}

#[derive(Clone, Serialize)]
pub struct Gate {
    pub plugin: String,
    pub allow: Option<Vec<String>>,
}

#[derive(Clone, Serialize)]
pub struct Conflict {
    pub plugins: Vec<String>,
    pub chosen_plugin: Option<String>,
    pub allow: Vec<String>,
}

#[derive(Clone, Serialize)]
pub struct Permission {
    pub call_id: String,
    pub tool: String,
    pub action: &'static str,
    pub source: &'static str,
    pub source_plugin: String,
    pub why: Option<String>,
}

/// One run's record, shared by everybody who takes part in the run.
#[derive(Clone)]
pub struct Truth(Arc<Mutex<Run>>);

impl Truth {
    pub fn new(
        number: usize,
        identity: Option<&RunIdentity>,
        entry: &'static str,
        stream: &str,
    ) -> Self {
        Self(Arc::new(Mutex::new(Run {
            run_id: identity.map(|identity| identity.run_id.clone()),
            parent_run_id: identity.and_then(|identity| identity.parent_run_id.clone()),
            depth: identity.map_or(0, |identity| identity.depth),
            entry,
            stream: stream.into(),
            status: "running",
            error: None,
            turns: vec![],
            late_inputs: vec![],
            number,
            ahead: Ahead::default(),
        })))
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        self.0.lock().unwrap()
    }

    pub fn so_far(&self) -> Run {
        self.run().clone()
    }

    /// The host or a plugin gives a message to the loop.
    pub fn input(&self, text: String) {
        self.run().ahead.inputs.push(text);
    }

    pub fn compaction(&self, plugin: &str, before: usize, after: usize) {
        self.run().ahead.compactions.push(Compaction {
            plugin: plugin.into(),
            attempt: 0, // known when the model is called
            before,
            after,
        });
    }

    pub fn gate(&self, plugin: &str, allow: Option<Vec<String>>) {
        let plugin = plugin.into();
        self.run().ahead.gates.push(Gate { plugin, allow });
    }

    pub fn conflict(&self, conflict: Conflict) {
        self.run().ahead.conflict = Some(conflict);
    }

    /// The model is called: the first attempt of the next turn, or one more of the last.
    pub fn model_called(&self, first: bool, mut attempt: Attempt) {
        let run = &mut *self.run();
        if first {
            run.turns.push(Turn {
                index: run.turns.len(),
                inputs: vec![],
                attempts: vec![],
                stop_reason: None,
                usage: None,
                text: String::new(),
                tool_calls: vec![],
                compactions: vec![],
                permissions: vec![],
                unrequested_results: vec![],
            });
        }
        let ahead = std::mem::take(&mut run.ahead);
        let turn = run.turns.last_mut().expect("a first attempt");
        turn.inputs.extend(ahead.inputs);
        for mut compaction in ahead.compactions {
            compaction.attempt = turn.attempts.len();
            turn.compactions.push(compaction);
        }
        attempt.gates = ahead.gates;
        attempt.conflict = ahead.conflict;
        if let Some(failed) = turn.attempts.last_mut() {
            failed.discarded = true;
        }
        turn.attempts.push(attempt);
    }

    /// The model answered for good: its calls are now the turn's.
    pub fn model_answered(&self, calls: Vec<ToolCall>) {
        let run = &mut *self.run();
        let turn = run.turns.last_mut().expect("a model call");
        let attempt = turn.attempts.last().expect("a model call");
        turn.stop_reason = attempt.stop_reason;
        turn.usage = attempt.usage.clone();
        turn.text = attempt.text.clone();
        turn.tool_calls = calls;
    }

    /// A tool ran.
    pub fn executed(&self, call_id: &str, text: &str, outcome: Outcome) {
        self.with_open_call(call_id, |call, _| {
            assert_eq!(call.fate, Fate::Runs, "{call_id} ran");
            call.executed = true;
            call.result_text = Some(text.into());
            call.outcome = outcome;
        });
    }

    /// A tool began and has not ended: what is known if the run ends now.
    pub fn begun(&self, call_id: &str) {
        self.with_open_call(call_id, |call, _| call.executed = true);
    }

    /// A plugin put another result in the place of the tool's.
    pub fn rewritten(&self, call_id: &str, text: &str, outcome: Outcome) {
        let run = &mut *self.run();
        let turn = run.turns.last_mut().expect("a model call");
        let mut calls = turn.tool_calls.iter_mut();
        let call = calls
            .find(|call| call.id == call_id)
            .expect("a call of this turn");
        call.result_text = Some(text.into());
        call.outcome = outcome;
    }

    /// A tool starts a run.
    pub fn child_run(&self, call_id: &str, child: &Truth) {
        let child = child.so_far();
        self.with_open_call(call_id, |call, _| {
            call.child_run = Some(child.number);
            call.child_run_id = child.run_id;
        });
    }

    /// A plugin blocked a call.
    pub fn blocked(&self, call_id: &str, plugin: &str, why: Option<String>) {
        self.with_open_call(call_id, |call, permissions| {
            assert_eq!(call.fate, Fate::Blocked, "{call_id} was blocked");
            call.outcome = Outcome::Denied;
            permissions.push(Permission {
                call_id: call.id.clone(),
                tool: call.name.clone(),
                action: "deny",
                source: "before_tool_call",
                source_plugin: plugin.into(),
                why,
            });
        });
    }

    fn with_open_call(&self, id: &str, act: impl FnOnce(&mut ToolCall, &mut Vec<Permission>)) {
        let run = &mut *self.run();
        let turn = run.turns.last_mut().expect("a model call");
        let mut calls = turn.tool_calls.iter_mut();
        let call = calls
            .find(|call| call.id == id && call.result_text.is_none())
            .expect("a call of this turn");
        act(call, &mut turn.permissions);
    }

    /// What the model is told next, or the host at the end of the run: the results of calls that no tool ran.
    pub fn told(&self, messages: &[AgentMessage]) {
        let run = &mut *self.run();
        let Some(turn) = run.turns.last_mut() else {
            return;
        };
        let answer = |message: &AgentMessage| matches!(message, AgentMessage::Assistant { .. });
        let since = messages
            .iter()
            .rposition(answer)
            .map_or(0, |answer| answer + 1);
        for message in &messages[since..] {
            let AgentMessage::ToolResult {
                tool_call_id,
                content,
                is_error,
                ..
            } = message
            else {
                continue;
            };
            let text = content.plain_text();
            if tool_call_id.starts_with("plain_text_terminal_fallback_") {
                turn.unrequested_results.push(text);
                continue;
            }
            let mut calls = turn.tool_calls.iter_mut();
            let Some(call) =
                calls.find(|call| call.id == *tool_call_id && call.result_text.is_none())
            else {
                continue;
            };
            assert!(*is_error, "no tool ran {}", call.id);
            match call.fate {
                Fate::Runs => panic!("{} did not run", call.id),
                Fate::Unusable | Fate::CutShort => call.outcome = Outcome::Error,
                Fate::Skipped => call.outcome = Outcome::Skipped,
                Fate::Blocked => assert!(call.outcome == Outcome::Denied, "{}", call.id),
                Fate::Hidden(gate) => {
                    call.outcome = Outcome::Denied;
                    turn.permissions.push(Permission {
                        call_id: call.id.clone(),
                        tool: call.name.clone(),
                        action: "deny",
                        source: "tool_gate",
                        source_plugin: gate.into(),
                        why: Some(text.clone()),
                    });
                }
            }
            call.result_text = Some(text);
        }
    }

    /// The run broke off while a batch of tools ran at once: the loop reports none of them.
    pub fn lost_batch(&self) {
        let run = &mut *self.run();
        let turn = run.turns.last_mut().expect("a model call");
        for call in &mut turn.tool_calls {
            call.unreported = call.result_text.is_some();
        }
    }

    /// The loop returned to the host.
    pub fn returned(&self, status: &'static str, error: Option<String>) {
        let run = &mut *self.run();
        if let Some(turn) = run.turns.last_mut() {
            // A turn that never got its answer has what was there of it.
            if turn.stop_reason.is_none() {
                let attempt = turn.attempts.last().expect("a model call");
                turn.stop_reason = attempt.stop_reason;
                turn.text = attempt.text.clone();
            }
        }
        run.status = status;
        run.error = error;
        run.late_inputs = std::mem::take(&mut run.ahead.inputs);
    }
}
