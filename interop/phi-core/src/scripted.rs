//! The two things a real run would reach over the network or the operating system, scripted:
//! a model provider that plays a queue of steps, and a tool with a fixed outcome.

use async_trait::async_trait;
use phi_core::provider::{ProviderError, StreamConfig, StreamEvent, StreamProvider};
use phi_core::types::*;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

/// Every model and tool call takes this long, so that neighbouring messages never share a millisecond:
/// phi-core orders a request's messages by millisecond timestamp.
const MODEL_CALL: Duration = Duration::from_millis(6);
const TOOL_CALL: Duration = Duration::from_millis(5);

pub async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Orders things that happen at the same time: one side cancels it, the other waits for that.
/// Waiting for different times would not do, on a busy machine they come at once.
pub type Signal = CancellationToken;

/// What the provider does in one model call.
pub enum Step {
    /// Streams the blocks and completes.
    Answer(Vec<Content>),
    /// As Answer, but not before the signal.
    AnswerAfter(Signal, Vec<Content>),
    /// As Answer, and gives the signal.
    AnswerAndSignal(Vec<Content>, Signal),
    /// Fails before anything is streamed.
    FailBeforeStart(ProviderError),
    /// Streams a beginning, then fails.
    FailAfter(&'static str, ProviderError),
    /// The provider reports an error inside the stream and calls the exchange completed.
    ErrorInStream { opened: bool, error: &'static str },
    /// Streams a beginning; then the user presses stop.
    StoppedAfter(&'static str, CancellationToken),
}

pub fn text(text: &str) -> Content {
    Content::Text { text: text.into() }
}

pub fn thinking(text: &str, signature: &str) -> Content {
    Content::Thinking {
        thinking: text.into(),
        signature: Some(signature.into()),
    }
}

pub fn call(id: &str, tool: &str, arguments: Value) -> Content {
    Content::ToolCall {
        id: id.into(),
        name: tool.into(),
        arguments,
    }
}

pub struct ScriptedProvider {
    steps: Mutex<VecDeque<Step>>,
}

impl ScriptedProvider {
    pub fn new(steps: Vec<Step>) -> Arc<Self> {
        Arc::new(Self {
            steps: Mutex::new(steps.into()),
        })
    }
}

#[async_trait]
impl StreamProvider for ScriptedProvider {
    fn provider_id(&self) -> &str {
        "scripted"
    }

    async fn stream(
        &self,
        config: StreamConfig,
        stream: UnboundedSender<StreamEvent>,
        cancel: CancellationToken,
    ) -> Result<Message, ProviderError> {
        let next = self.steps.lock().unwrap().pop_front();
        let step = next.expect("the scenario asks the model more often than its script allows");
        let send = |event| {
            stream.send(event).ok();
        };
        if let Step::AnswerAfter(signal, _) = &step {
            signal.cancelled().await;
        }
        tokio::time::sleep(MODEL_CALL).await;
        if let Step::AnswerAndSignal(_, signal) = &step {
            signal.cancel();
        }
        match step {
            Step::Answer(content)
            | Step::AnswerAfter(_, content)
            | Step::AnswerAndSignal(content, _) => {
                let message = answer(&config, content);
                stream_message(&message, send);
                Ok(message)
            }
            Step::FailBeforeStart(error) => Err(error),
            Step::FailAfter(beginning, error) => {
                send(StreamEvent::Start);
                stream_text(0, beginning, send);
                Err(error)
            }
            Step::ErrorInStream { opened, error } => {
                if opened {
                    send(StreamEvent::Start);
                    stream_text(0, "Opening the ledger page", send);
                }
                let message = failed_answer(&config, error);
                send(StreamEvent::Error {
                    message: message.clone(),
                });
                Ok(message)
            }
            Step::StoppedAfter(beginning, stop) => {
                send(StreamEvent::Start);
                stream_text(0, beginning, send);
                stop.cancel();
                cancel.cancelled().await;
                Err(ProviderError::Cancelled)
            }
        }
    }
}

pub fn answer(config: &StreamConfig, content: Vec<Content>) -> Message {
    let calls_tool = content
        .iter()
        .any(|block| matches!(block, Content::ToolCall { .. }));
    Message::Assistant {
        usage: usage(config, &content),
        content,
        stop_reason: if calls_tool {
            StopReason::ToolUse
        } else {
            StopReason::Stop
        },
        model: config.model_config.id.clone(),
        provider: config.model_config.provider.clone(),
        timestamp: now_ms(),
        error_message: None,
    }
}

/// An error answer with usage: the provider has already read the input.
fn failed_answer(config: &StreamConfig, error: &str) -> Message {
    Message::Assistant {
        content: vec![],
        stop_reason: StopReason::Error,
        model: config.model_config.id.clone(),
        provider: config.model_config.provider.clone(),
        usage: usage(config, &[]),
        timestamp: now_ms(),
        error_message: Some(error.into()),
    }
}

/// Counts like the crate's own providers: Anthropic leaves cached tokens out of `input` and never
/// fills `total_tokens`; OpenAI does the opposite and counts reasoning.
fn usage(config: &StreamConfig, content: &[Content]) -> Usage {
    let sent = 120 + 31 * config.messages.len() as u64;
    let cached = if config.messages.len() > 1 { 96 } else { 0 };
    let output: u64 = content.iter().map(|block| 9 + size(block) / 4).sum();
    if config.model_config.provider == "anthropic" {
        Usage {
            input: sent,
            output,
            cache_read: cached,
            cache_write: 96 - cached,
            ..Usage::default()
        }
    } else {
        Usage {
            input: sent + cached,
            output: output + 17,
            reasoning: 17,
            cache_read: cached,
            total_tokens: sent + cached + output + 17,
            ..Usage::default()
        }
    }
}

fn size(block: &Content) -> u64 {
    match block {
        Content::Text { text } => text.len() as u64,
        Content::Thinking { thinking, .. } => thinking.len() as u64,
        Content::ToolCall { arguments, .. } => arguments.to_string().len() as u64,
        Content::Image { .. } => 0,
    }
}

pub fn stream_message(message: &Message, send: impl Fn(StreamEvent)) {
    let Message::Assistant { content, .. } = message else {
        unreachable!("a provider answers with an assistant message")
    };
    send(StreamEvent::Start);
    for (content_index, block) in content.iter().enumerate() {
        match block {
            Content::Text { text } => stream_text(content_index, text, &send),
            Content::Thinking { thinking, .. } => deltas(thinking, |delta| {
                send(StreamEvent::ThinkingDelta {
                    content_index,
                    delta,
                })
            }),
            Content::ToolCall {
                id,
                name,
                arguments,
            } => {
                send(StreamEvent::ToolCallStart {
                    content_index,
                    id: id.clone(),
                    name: name.clone(),
                });
                deltas(&arguments.to_string(), |delta| {
                    send(StreamEvent::ToolCallDelta {
                        content_index,
                        delta,
                    })
                });
                send(StreamEvent::ToolCallEnd { content_index });
            }
            Content::Image { .. } => {}
        }
    }
    send(StreamEvent::Done {
        message: message.clone(),
    });
}

fn stream_text(content_index: usize, text: &str, send: impl Fn(StreamEvent)) {
    deltas(text, |delta| {
        send(StreamEvent::TextDelta {
            content_index,
            delta,
        })
    });
}

/// Two deltas are enough to be a stream; a short text comes in one. This keeps the fixtures small.
fn deltas(text: &str, emit: impl Fn(String)) {
    if text.chars().count() < 32 {
        return emit(text.into());
    }
    let middle = text.chars().count() / 2;
    emit(text.chars().take(middle).collect());
    emit(text.chars().skip(middle).collect());
}

type Hook = Arc<dyn Fn() + Send + Sync>;

/// A tool that waits, then returns or fails with a fixed text.
#[derive(Clone)]
pub struct ScriptedTool {
    name: &'static str,
    outcome: Result<String, String>,
    after: Option<Signal>,
    details: Value,
    updates: Vec<&'static str>,
    progress: Vec<&'static str>,
    waits_for_stop: bool,
    on_start: Option<Hook>,
    on_finish: Option<Hook>,
}

impl ScriptedTool {
    pub fn returns(name: &'static str, result: impl Into<String>) -> Self {
        Self {
            name,
            outcome: Ok(result.into()),
            after: None,
            details: Value::Null,
            updates: vec![],
            progress: vec![],
            waits_for_stop: false,
            on_start: None,
            on_finish: None,
        }
    }

    pub fn fails(name: &'static str, error: &str) -> Self {
        Self {
            outcome: Err(error.into()),
            ..Self::returns(name, "")
        }
    }

    /// Runs until it is cancelled (or dropped).
    pub fn runs_until_stopped(name: &'static str) -> Self {
        Self {
            waits_for_stop: true,
            ..Self::returns(name, "")
        }
    }

    /// Does not finish before `signal`.
    pub fn after(mut self, signal: &Signal) -> Self {
        self.after = Some(signal.clone());
        self
    }

    /// Gives `signal` when it finishes.
    pub fn then(self, signal: &Signal) -> Self {
        let signal = signal.clone();
        self.on_finish(move || signal.cancel())
    }

    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    pub fn reporting(mut self, update: &'static str, progress: &'static str) -> Self {
        self.updates.push(update);
        self.progress.push(progress);
        self
    }

    pub fn on_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_start = Some(Arc::new(hook));
        self
    }

    pub fn on_finish(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_finish = Some(Arc::new(hook));
        self
    }

    pub fn shared(self) -> Arc<dyn AgentTool> {
        Arc::new(self)
    }
}

#[async_trait]
impl AgentTool for ScriptedTool {
    fn name(&self) -> &str {
        self.name
    }

    fn label(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Harbour office tool, scripted for the interop fixtures"
    }

    fn parameters_schema(&self) -> Value {
        serde_json::json!({"type": "object", "properties": {"subject": {"type": "string"}}})
    }

    async fn execute(
        &self,
        _arguments: Value,
        context: ToolContext,
    ) -> Result<ToolResult, ToolError> {
        if let Some(hook) = &self.on_start {
            hook();
        }
        if self.waits_for_stop {
            context.cancel.cancelled().await;
            return Err(ToolError::Cancelled);
        }
        for update in &self.updates {
            if let Some(on_update) = &context.on_update {
                on_update(tool_result(update, Value::Null));
            }
        }
        for progress in &self.progress {
            if let Some(on_progress) = &context.on_progress {
                on_progress(progress.to_string());
            }
        }
        if let Some(signal) = &self.after {
            signal.cancelled().await;
        }
        tokio::time::sleep(TOOL_CALL).await;
        if let Some(hook) = &self.on_finish {
            hook();
        }
        match &self.outcome {
            Ok(result) => Ok(tool_result(result, self.details.clone())),
            Err(error) => Err(ToolError::Failed(error.clone())),
        }
    }
}

fn tool_result(content: &str, details: Value) -> ToolResult {
    ToolResult {
        content: vec![text(content)],
        details,
        child_loop_id: None,
    }
}
