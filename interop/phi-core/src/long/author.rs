//! Plays model and tools of a long session: every turn says something that no turn said before.

use super::library::{Excerpt, Library, Reader};
use crate::scripted::{answer, call, stream_message, text, thinking};
use async_trait::async_trait;
use phi_core::agents::AgentControlHandle;
use phi_core::provider::{ProviderError, StreamConfig, StreamEvent, StreamProvider};
use phi_core::types::*;
use serde_json::{json, Value};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

/// Bytes of each text, about.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub prompt: usize,
    pub thinking: usize,
    /// What the model says beside a tool call.
    pub remark: usize,
    /// What it says at the end of a run.
    pub answer: usize,
    pub result: usize,
}

const STEERING_EVERY: usize = 7;
const STEERING: usize = 240;

/// Waits until the clock shows another millisecond: phi-core orders the messages of a request by it.
pub async fn next_millisecond() {
    let now = now_ms();
    while now_ms() == now {
        tokio::task::yield_now().await;
    }
}

pub struct Author {
    prose: Reader,
    code: Reader,
    sizes: Sizes,
    /// Turns that the current run still has.
    left: usize,
    /// Turns and interruptions so far, in all runs.
    turns: usize,
    interruptions: usize,
    /// What the tool that was called is to return.
    outcome: Option<(String, Value)>,
    /// Set for a user who interrupts.
    pub steering: Option<AgentControlHandle>,
}

impl Author {
    pub fn new(library: &Library, sizes: Sizes) -> Self {
        Self {
            prose: library.prose(),
            code: library.code(),
            sizes,
            left: 0,
            turns: 0,
            interruptions: 0,
            outcome: None,
            steering: None,
        }
    }

    pub fn prose(&mut self, bytes: usize) -> String {
        self.prose.next(bytes).text
    }

    /// The user's question; the run that it starts ends after this many turns.
    pub fn prompt(&mut self, turns: usize) -> String {
        self.left = turns;
        self.prose(self.sizes.prompt)
    }

    fn turn(&mut self) -> Vec<Content> {
        assert!(self.left > 0, "the run has more turns than planned");
        self.left -= 1;
        self.turns += 1;
        let thought = self.prose(self.sizes.thinking);
        let signature = signature(&thought);
        if self.left == 0 {
            let answer = self.prose(self.sizes.answer);
            return vec![thinking(&thought, &signature), text(&answer)];
        }
        let remark = self.prose(self.sizes.remark);
        let (tool, arguments) = self.tool_call();
        vec![
            thinking(&thought, &signature),
            text(&remark),
            call(&format!("toolu_{:05}", self.turns), tool, arguments),
        ]
    }

    fn tool_call(&mut self) -> (&'static str, Value) {
        let Excerpt {
            path,
            line,
            text: result,
        } = self.code.next(self.sizes.result);
        let lines = result.lines().count();
        let last = line + lines;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let word = longest_word(&result);
        let mut details = Value::Null;
        let chosen = match self.turns % 6 {
            0 => (
                "read_file",
                json!({"path": path, "offset": line, "limit": lines}),
            ),
            1 => (
                "search",
                json!({"pattern": word, "path": folder, "glob": "*.rs", "max_results": 40}),
            ),
            2 => {
                details = json!({"exit_code": 0, "success": true});
                let command = format!("sed -n '{line},{last}p' {path} && cargo check --quiet");
                (
                    "bash",
                    json!({"command": command, "cwd": "/workspace", "timeout_secs": 120}),
                )
            }
            3 => {
                let old = self.code.next(120).text;
                let new = self.code.next(140).text;
                details = json!({"replacements": 1, "coverage": 0.5});
                (
                    "edit_file",
                    json!({"path": path, "old_text": old, "new_text": new, "replace_all": false}),
                )
            }
            4 => ("outline", json!({"path": path, "symbol": word, "depth": 2})),
            _ => (
                "run_tests",
                json!({"package": path.split('/').next(), "filter": word, "features": ["full"]}),
            ),
        };
        self.outcome = Some((result, details));
        chosen
    }

    /// Texts that the user types while a tool runs: one in every seventh turn, and every third time
    /// two. phi-core delivers one a turn, so the second one arrives a turn after it was typed.
    fn interruption(&mut self) -> Vec<String> {
        // The last turns are spared, so that every text arrives before the run ends.
        if self.steering.is_none() || self.turns % STEERING_EVERY > 0 || self.left < 3 {
            return vec![];
        }
        self.interruptions += 1;
        let texts = if self.interruptions.is_multiple_of(3) {
            2
        } else {
            1
        };
        (0..texts).map(|_| self.prose(STEERING)).collect()
    }
}

fn longest_word(text: &str) -> &str {
    text.split(|it: char| !it.is_alphanumeric() && it != '_')
        .max_by_key(|word| word.len())
        .unwrap_or_default()
}

/// Stands for a provider's signature of a thought: no two alike, nothing in them to compress.
fn signature(thought: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = thought
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
    (0..160)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(LETTERS[(state >> 58) as usize])
        })
        .collect()
}

pub type SharedAuthor = Arc<Mutex<Author>>;

pub struct Model(pub SharedAuthor);

#[async_trait]
impl StreamProvider for Model {
    fn provider_id(&self) -> &str {
        "scripted"
    }

    async fn stream(
        &self,
        config: StreamConfig,
        stream: UnboundedSender<StreamEvent>,
        _cancel: CancellationToken,
    ) -> Result<Message, ProviderError> {
        next_millisecond().await;
        let content = self.0.lock().unwrap().turn();
        let message = answer(&config, content);
        stream_message(&message, |event| {
            stream.send(event).ok();
        });
        Ok(message)
    }
}

/// The names of the tools and of their parameters; the author calls six of them.
const TOOLS: [(&str, &[&str]); 20] = [
    ("bash", &["command", "cwd", "timeout_secs"]),
    ("read_file", &["path", "offset", "limit"]),
    ("write_file", &["path", "content", "mode"]),
    (
        "edit_file",
        &["path", "old_text", "new_text", "replace_all"],
    ),
    ("list_files", &["path", "pattern", "depth"]),
    ("search", &["pattern", "path", "glob", "max_results"]),
    ("outline", &["path", "symbol", "depth"]),
    ("run_tests", &["package", "filter", "features"]),
    ("build", &["package", "target", "profile"]),
    ("lint", &["package", "fix", "deny"]),
    ("format", &["path", "check", "edition"]),
    ("git_diff", &["revision", "path", "context"]),
    ("git_log", &["revision", "path", "limit"]),
    ("git_commit", &["message", "paths", "amend"]),
    ("fetch_page", &["url", "selector", "max_bytes"]),
    ("web_search", &["query", "site", "max_results"]),
    ("remember", &["topic", "note", "tags"]),
    ("recall", &["topic", "limit", "since"]),
    ("ask_user", &["question", "choices", "deadline_secs"]),
    ("delegate", &["agent", "task", "budget_tokens"]),
];
const DESCRIPTION: usize = 260;
const PARAMETER: usize = 95;

pub struct Tool {
    name: &'static str,
    description: String,
    schema: Value,
    author: SharedAuthor,
}

/// The catalogue: about 16 KB of names, descriptions and schemas.
pub fn tools(author: &SharedAuthor) -> Vec<Arc<dyn AgentTool>> {
    let mut texts = author.lock().unwrap();
    TOOLS
        .iter()
        .map(|&(name, parameters)| {
            let description = texts.prose(DESCRIPTION);
            let properties: serde_json::Map<String, Value> = parameters
                .iter()
                .map(|parameter| {
                    (
                        parameter.to_string(),
                        schema(parameter, texts.prose(PARAMETER)),
                    )
                })
                .collect();
            Arc::new(Tool {
                name,
                description,
                schema: json!({
                    "type": "object",
                    "properties": properties,
                    "required": [parameters[0]],
                    "additionalProperties": false,
                }),
                author: author.clone(),
            }) as Arc<dyn AgentTool>
        })
        .collect()
}

fn schema(parameter: &str, description: String) -> Value {
    match parameter {
        "offset" | "limit" | "depth" | "max_results" | "timeout_secs" | "context" | "max_bytes"
        | "deadline_secs" | "budget_tokens" => {
            json!({"type": "integer", "minimum": 0, "default": 40, "description": description})
        }
        "replace_all" | "fix" | "check" | "amend" => {
            json!({"type": "boolean", "default": false, "description": description})
        }
        "features" | "paths" | "tags" | "choices" => {
            json!({"type": "array", "items": {"type": "string"}, "description": description})
        }
        _ => json!({"type": "string", "description": description}),
    }
}

#[async_trait]
impl AgentTool for Tool {
    fn name(&self) -> &str {
        self.name
    }

    fn label(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters_schema(&self) -> Value {
        self.schema.clone()
    }

    async fn execute(&self, _: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        let interruption = self.author.lock().unwrap().interruption();
        for typed in interruption {
            next_millisecond().await;
            let message = Message::user(typed).into();
            if let Some(user) = &self.author.lock().unwrap().steering {
                user.steer_message(message);
            }
        }
        next_millisecond().await;
        let outcome = self.author.lock().unwrap().outcome.take();
        let (result, details) = outcome.expect("the author called this tool");
        Ok(ToolResult {
            content: vec![text(&result)],
            details,
            child_loop_id: None,
        })
    }
}
