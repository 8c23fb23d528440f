//! A clark-agent agent that is traced by otelagent: every AgentEvent goes to standard output, one JSON object a line.
//!
//!     cargo run | otelagent send --capture content -
//!
//! That is the sink at the top; the rest is an agent as any other, with a script in the place of the model so that it
//! runs without a key.

use async_trait::async_trait;
use clark_agent::event::EventSink;
use clark_agent::plugin::BeforeToolCallContext;
use clark_agent::types::Usage;
use clark_agent::*;
use futures::stream::{self, BoxStream};
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_util::sync::CancellationToken;

/// What otelagent needs. The events of the crate have no times, so the envelope brings them; without it the time of
/// arrival counts.
struct Lines;

#[async_trait]
impl EventSink for Lines {
    async fn emit(&self, event: AgentEvent) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        println!("{}", json!({"ts": now.as_nanos() as u64, "event": event}));
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = AgentBuilder::new()
        .event_sink(Arc::new(Lines))
        .stream(Arc::new(Script::new())) // a transport of yours asks the model
        .model_id("estuary/large-2")
        .tools(
            ToolRegistry::new()
                .with(Arc::new(Almanac("read_tides")))
                .with(Arc::new(Almanac("erase_tides"))),
        )
        .before_tool_call(Guard)
        .build()?;
    let mut context =
        AgentContext::new("You keep the tide tables of a pilot station. Answer in one sentence.");
    // Says which session a run belongs to.
    context.identity = Some(RunIdentity::root().with_conversation_id("tides-of-today"));
    let question = AgentMessage::User {
        content: UserContent::Text("When is high water? Then erase the table.".into()),
        timestamp: None,
    };
    run(vec![question], context, &config, CancellationToken::new()).await?;
    Ok(())
}

/// Lets no table be erased.
struct Guard;

impl Plugin for Guard {
    fn name(&self) -> &'static str {
        "guard"
    }
}

#[async_trait]
impl BeforeToolCall for Guard {
    async fn on_before_tool_call(&self, context: BeforeToolCallContext<'_>) -> BeforeToolDecision {
        if context.tool_call.name != "erase_tides" {
            return BeforeToolDecision::allow();
        }
        BeforeToolDecision {
            block: true,
            reason: Some("tables are never erased".into()),
            details: None,
        }
    }
}

/// The tools of the station.
struct Almanac(&'static str);

#[async_trait]
impl AgentTool for Almanac {
    fn name(&self) -> &str {
        self.0
    }

    fn description(&self) -> &str {
        "Works on the tide tables of the pilot station"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {"day": {"type": "string"}}})
    }

    async fn execute(
        &self,
        _call: &str,
        arguments: Value,
        _: CancellationToken,
        _: ToolUpdateSink,
    ) -> Result<ToolResult, ToolError> {
        let day = arguments["day"].as_str().unwrap_or("no day");
        Ok(ToolResult::text(format!(
            "{day}: high water at 04:52, 3.9 metres"
        )))
    }
}

/// A model that says what is written down for it.
struct Script(Mutex<VecDeque<Vec<AssistantBlock>>>);

impl Script {
    fn new() -> Self {
        let call = |id: &str, name: &str, arguments| {
            AssistantBlock::ToolCall(ToolCall {
                id: id.into(),
                name: name.into(),
                arguments,
            })
        };
        let text = |text: &str| AssistantBlock::Text(TextContent { text: text.into() });
        Self(Mutex::new(VecDeque::from([
            vec![
                text("I look it up."),
                call("call_1", "read_tides", json!({"day": "today"})),
            ],
            vec![call("call_2", "erase_tides", json!({}))],
            vec![text("High water is at 04:52, and the table stays.")],
        ])))
    }
}

#[async_trait]
impl StreamFn for Script {
    async fn stream(
        &self,
        request: StreamRequest,
        _: CancellationToken,
    ) -> BoxStream<'static, StreamEvent> {
        tokio::time::sleep(Duration::from_millis(20)).await; // thinks
        let blocks = self
            .0
            .lock()
            .unwrap()
            .pop_front()
            .expect("three answers are enough");
        let calls = blocks
            .iter()
            .any(|b| matches!(b, AssistantBlock::ToolCall(_)));
        let message = AgentMessage::Assistant {
            content: AssistantContent { blocks },
            stop_reason: if calls {
                StopReason::ToolUse
            } else {
                StopReason::EndTurn
            },
            error_message: None,
            timestamp: None,
            usage: Some(Usage {
                input_tokens: 40 * request.messages.len() as i64,
                output_tokens: 25,
                cache_creation_input_tokens: 0,
                cache_read_input_tokens: 30 * (request.messages.len() as i64 - 1),
            }),
        };
        Box::pin(stream::iter([StreamEvent::Done { message }]))
    }
}
