//! A phi-core agent that is traced by otelagent: every AgentEvent goes to standard output, one JSON object a line.
//!
//!     cargo run | otelagent send --capture content -
//!
//! Those are the few lines of `main` around the channel; the rest is an agent as any other, with a script in the place of
//! the model so that it runs without a key.

use async_trait::async_trait;
use phi_core::agent_loop::ToolGate;
use phi_core::provider::{ModelConfig, ProviderError, StreamConfig, StreamEvent, StreamProvider};
use phi_core::types::*;
use phi_core::BasicAgent;
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // What otelagent needs: a channel, and a task that prints what comes out of it.
    let (sender, mut events) = unbounded_channel::<AgentEvent>();
    let printer = tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            println!(
                "{}",
                serde_json::to_string(&event).expect("an event is JSON")
            );
        }
    });

    let model = ModelConfig::anthropic("claude-sonnet-4-5", "Claude Sonnet 4.5", "no-key-needed");
    let mut agent = BasicAgent::new(model)
        .with_provider_override(Arc::new(Script::new())) // leave this out to ask the model
        .with_system_prompt(
            "You keep the cargo ledger of a harbour office. Answer in one sentence.",
        )
        .with_tools(vec![
            Arc::new(Ledger("read_manifest")),
            Arc::new(Ledger("burn_ledger")),
        ])
        .on_before_tool_execution(|tool, _, _| match tool {
            "burn_ledger" => ToolGate::deny("ledgers are never destroyed"),
            _ => ToolGate::Allow,
        });
    agent
        .prompt_with_sender(
            "What does the Albatross carry? Then burn the ledger.",
            sender,
        )
        .await;
    printer.await.expect("the printer does not panic");
}

/// The tools of the office.
struct Ledger(&'static str);

#[async_trait]
impl AgentTool for Ledger {
    fn name(&self) -> &str {
        self.0
    }

    fn label(&self) -> &str {
        self.0
    }

    fn description(&self) -> &str {
        "Works on the ledger of the harbour office"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {"vessel": {"type": "string"}}})
    }

    async fn execute(&self, arguments: Value, _: ToolContext) -> Result<ToolResult, ToolError> {
        let vessel = arguments["vessel"].as_str().unwrap_or("nobody");
        Ok(ToolResult {
            content: vec![Content::Text {
                text: format!("{vessel}: 212 crates of cinnamon"),
            }],
            details: Value::Null,
            child_loop_id: None,
        })
    }
}

/// A model that says what is written down for it.
struct Script(Mutex<VecDeque<Vec<Content>>>);

impl Script {
    fn new() -> Self {
        let call = |id: &str, name: &str, arguments| Content::ToolCall {
            id: id.into(),
            name: name.into(),
            arguments,
        };
        let text = |text: &str| Content::Text { text: text.into() };
        Self(Mutex::new(VecDeque::from([
            vec![
                text("I look it up."),
                call("call_1", "read_manifest", json!({"vessel": "MV Albatross"})),
            ],
            vec![call("call_2", "burn_ledger", json!({}))],
            vec![text("She carries cinnamon, and the ledger stays.")],
        ])))
    }
}

#[async_trait]
impl StreamProvider for Script {
    fn provider_id(&self) -> &str {
        "script"
    }

    async fn stream(
        &self,
        config: StreamConfig,
        stream: UnboundedSender<StreamEvent>,
        _: CancellationToken,
    ) -> Result<Message, ProviderError> {
        tokio::time::sleep(Duration::from_millis(20)).await; // thinks
        let content = self
            .0
            .lock()
            .unwrap()
            .pop_front()
            .expect("three answers are enough");
        let calls = content
            .iter()
            .any(|c| matches!(c, Content::ToolCall { .. }));
        let message = Message::Assistant {
            content,
            stop_reason: if calls {
                StopReason::ToolUse
            } else {
                StopReason::Stop
            },
            model: config.model_config.id.clone(),
            provider: config.model_config.provider.clone(),
            usage: Usage {
                input: 40 * config.messages.len() as u64,
                output: 25,
                cache_read: 30 * (config.messages.len() as u64 - 1),
                ..Usage::default()
            },
            timestamp: now_ms(),
            error_message: None,
        };
        stream.send(StreamEvent::Start).ok();
        stream
            .send(StreamEvent::Done {
                message: message.clone(),
            })
            .ok();
        Ok(message)
    }
}
