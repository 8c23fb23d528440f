//! The scripted model: answers each call of the loop with the next attempt of its script.

use crate::clock;
use crate::truth::{self, Fate, Outcome, Truth};
use async_trait::async_trait;
use clark_agent::stream::StreamErrorKind;
use clark_agent::types::{TextContent, Usage};
use clark_agent::*;
use futures::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time to the first event of an answer, then between two.
const FIRST_TOKEN: Duration = Duration::from_millis(120);
const NEXT_TOKEN: Duration = Duration::from_millis(10);

/// One model call.
pub struct Attempt {
    parts: Vec<Part>,
    streamed: bool,
    ending: Ending,
    usage: Option<fn(&Usage) -> Usage>,
}

pub enum Part {
    Block(AssistantBlock),
    Call(ToolCall, Fate),
}

enum Ending {
    Done(StopReason, Option<&'static str>),
    Error(StreamErrorKind, &'static str),
    /// The connection closes without a word.
    Nothing,
}

/// The turns of a run, each with its attempts, of which the last one counts.
pub type Script = Vec<Vec<Attempt>>;

pub fn text(text: &str) -> Part {
    let text = text.into();
    Part::Block(AssistantBlock::Text(TextContent { text }))
}

pub fn thinking(text: &str) -> Part {
    let text = text.into();
    Part::Block(AssistantBlock::Thinking(TextContent { text }))
}

pub fn reasoning(text: &str) -> Part {
    let text = text.into();
    Part::Block(AssistantBlock::Reasoning(TextContent { text }))
}

pub fn reasoning_details(details: Vec<Value>) -> Part {
    Part::Block(AssistantBlock::ReasoningDetails(
        ReasoningDetailsContent::new(details),
    ))
}

pub fn call(id: &str, name: &str, arguments: Value) -> Part {
    Part::Call(
        ToolCall {
            id: id.into(),
            name: name.into(),
            arguments,
        },
        Fate::Runs,
    )
}

impl Part {
    pub fn fate(self, fate: Fate) -> Self {
        match self {
            Part::Call(call, _) => Part::Call(call, fate),
            Part::Block(_) => unreachable!("only calls have a fate"),
        }
    }
}

/// A complete answer, streamed.
pub fn answer(parts: Vec<Part>) -> Attempt {
    let calls = parts.iter().any(|part| matches!(part, Part::Call(..)));
    let stop = if calls {
        StopReason::ToolUse
    } else {
        StopReason::EndTurn
    };
    Attempt {
        parts,
        streamed: true,
        ending: Ending::Done(stop, None),
        usage: Some(Usage::clone),
    }
}

/// An answer cut off at the output limit.
pub fn truncated(parts: Vec<Part>) -> Attempt {
    Attempt {
        ending: Ending::Done(StopReason::MaxTokens, None),
        ..answer(parts)
    }
}

/// An answer that the transport completes with stop reason error.
pub fn marked_failed(parts: Vec<Part>, error: &'static str) -> Attempt {
    Attempt {
        ending: Ending::Done(StopReason::Error, Some(error)),
        ..answer(parts)
    }
}

/// A beginning, then an error.
pub fn failed(parts: Vec<Part>, kind: StreamErrorKind, error: &'static str) -> Attempt {
    Attempt {
        ending: Ending::Error(kind, error),
        usage: None,
        ..answer(parts)
    }
}

/// A beginning, then the end of the connection.
pub fn broken_off(parts: Vec<Part>) -> Attempt {
    Attempt {
        ending: Ending::Nothing,
        usage: None,
        ..answer(parts)
    }
}

impl Attempt {
    /// Not streamed: the whole answer at once, as the transports that come with the crate do it.
    pub fn at_once(mut self) -> Self {
        self.streamed = false;
        self
    }

    /// The provider counts no tokens.
    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    /// The provider counts in another way.
    pub fn counted(mut self, count: fn(&Usage) -> Usage) -> Self {
        self.usage = Some(count);
        self
    }

    pub fn stopped_by(mut self, stop: StopReason) -> Self {
        self.ending = Ending::Done(stop, None);
        self
    }

    fn content(&self) -> AssistantContent {
        let block = |part: &Part| match part {
            Part::Block(block) => block.clone(),
            Part::Call(call, _) => AssistantBlock::ToolCall(call.clone()),
        };
        AssistantContent {
            blocks: self.parts.iter().map(block).collect(),
        }
    }

    fn calls(&self) -> Vec<truth::ToolCall> {
        let call = |part: &Part| match part {
            Part::Call(call, fate) => Some(truth::ToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                args: call.arguments.clone(),
                result_text: None,
                outcome: Outcome::Unfinished,
                executed: false,
                child_run: None,
                child_run_id: None,
                unreported: false,
                fate: *fate,
            }),
            Part::Block(_) => None,
        };
        self.parts.iter().filter_map(call).collect()
    }
}

pub struct ScriptedModel {
    turns: Mutex<VecDeque<VecDeque<Attempt>>>,
    /// Whether the next attempt is a turn's first.
    fresh: Mutex<bool>,
    model_id: Option<String>,
    truth: Truth,
}

impl ScriptedModel {
    pub fn new(script: Script, model_id: Option<String>, truth: Truth) -> Self {
        Self {
            turns: Mutex::new(script.into_iter().map(VecDeque::from).collect()),
            fresh: Mutex::new(true),
            model_id,
            truth,
        }
    }

    /// The next attempt, whether it is its turn's first, and whether its last.
    fn next(&self) -> (Attempt, bool, bool) {
        let mut turns = self.turns.lock().unwrap();
        let mut fresh = self.fresh.lock().unwrap();
        let turn = turns
            .front_mut()
            .expect("the scenario asks the model more often than its script allows");
        let attempt = turn.pop_front().expect("a turn has attempts");
        let first = *fresh;
        let last = turn.is_empty();
        if last {
            turns.pop_front();
        }
        *fresh = last;
        (attempt, first, last)
    }

    pub fn assert_all_played(&self) {
        let left = self.turns.lock().unwrap().len();
        assert_eq!(left, 0, "turns of the script that were not played");
    }
}

#[async_trait]
impl StreamFn for ScriptedModel {
    async fn stream(
        &self,
        request: StreamRequest,
        _signal: CancellationToken,
    ) -> BoxStream<'static, StreamEvent> {
        self.truth.told(&request.messages);
        let (attempt, first, last) = self.next();
        let content = attempt.content();
        let usage = attempt
            .usage
            .map(|count| count(&tokens(&request, &content)));
        let (stop_reason, error) = match &attempt.ending {
            Ending::Done(stop, error) => (Some(*stop), *error),
            Ending::Error(StreamErrorKind::Aborted, error) => {
                (Some(StopReason::Aborted), Some(*error))
            }
            Ending::Error(_, error) => (Some(StopReason::Error), Some(*error)),
            Ending::Nothing => (Some(StopReason::Error), None),
        };
        self.truth.model_called(
            first,
            truth::Attempt {
                messages: request.messages.len(),
                tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
                model_id: self.model_id.clone(),
                temperature: request.temperature,
                max_output_tokens: request.max_output_tokens,
                system_messages: system_messages(&request),
                gates: vec![],
                conflict: None,
                usage: usage.clone(),
                stop_reason,
                error: error.map(String::from),
                text: content.plain_text(),
                discarded: false,
            },
        );
        if last && matches!(attempt.ending, Ending::Done(..)) {
            self.truth.model_answered(attempt.calls());
        }
        events(attempt, content, usage)
    }
}

fn system_messages(request: &StreamRequest) -> Vec<String> {
    let system = |message: &AgentMessage| match message {
        AgentMessage::System { content, .. } => Some(content.clone()),
        _ => None,
    };
    request.messages.iter().filter_map(system).collect()
}

/// Counts like a provider that leaves cached tokens out of the input.
fn tokens(request: &StreamRequest, content: &AssistantContent) -> Usage {
    let size = serde_json::to_string(content).expect("JSON").len() as i64;
    let cached = if request.messages.len() > 1 { 96 } else { 0 };
    Usage {
        input_tokens: 120 + 31 * request.messages.len() as i64,
        output_tokens: 4 + size / 4,
        cache_creation_input_tokens: 96 - cached,
        cache_read_input_tokens: cached,
    }
}

fn events(
    attempt: Attempt,
    content: AssistantContent,
    usage: Option<Usage>,
) -> BoxStream<'static, StreamEvent> {
    let partial = assistant(AssistantContent { blocks: vec![] }, StopReason::Other);
    let mut events = vec![];
    if attempt.streamed {
        let partial = partial.clone();
        events.push(StreamEvent::Start { partial });
        events.extend(chunks(&content).into_iter().map(StreamEvent::Chunk));
    }
    match attempt.ending {
        Ending::Done(stop, error) => {
            let mut message = assistant(content, stop);
            if let AgentMessage::Assistant {
                usage: counted,
                error_message,
                ..
            } = &mut message
            {
                *counted = usage;
                *error_message = error.map(String::from);
            }
            events.push(StreamEvent::Done { message });
        }
        Ending::Error(kind, error) => events.push(StreamEvent::Error {
            partial: assistant(content, StopReason::Other),
            kind,
            message: error.into(),
        }),
        Ending::Nothing => {}
    }
    stream::iter(events.into_iter().enumerate())
        .then(|(number, mut event)| async move {
            tokio::time::sleep(if number == 0 { FIRST_TOKEN } else { NEXT_TOKEN }).await;
            if let StreamEvent::Done {
                message: AgentMessage::Assistant { timestamp, .. },
            } = &mut event
            {
                *timestamp = Some(clock::milliseconds());
            }
            event
        })
        .boxed()
}

fn assistant(content: AssistantContent, stop_reason: StopReason) -> AgentMessage {
    AgentMessage::Assistant {
        content,
        stop_reason,
        error_message: None,
        timestamp: None,
        usage: None,
    }
}

fn chunks(content: &AssistantContent) -> Vec<AssistantStreamChunk> {
    let mut chunks = vec![];
    let mut calls = 0;
    for block in &content.blocks {
        match block {
            AssistantBlock::Text(text) => {
                chunks.extend(halves(&text.text).map(|delta| AssistantStreamChunk::Text { delta }))
            }
            AssistantBlock::Thinking(text) => chunks
                .extend(halves(&text.text).map(|delta| AssistantStreamChunk::Thinking { delta })),
            AssistantBlock::Reasoning(text) => chunks
                .extend(halves(&text.text).map(|delta| AssistantStreamChunk::Reasoning { delta })),
            AssistantBlock::ReasoningDetails(details) => {
                let delta = details.details.clone();
                chunks.push(AssistantStreamChunk::ReasoningDetails { delta });
            }
            AssistantBlock::ToolCall(call) => {
                let index = calls;
                calls += 1;
                chunks.push(AssistantStreamChunk::ToolCallDelta {
                    index,
                    id_delta: Some(call.id.clone()),
                    name_delta: Some(call.name.clone()),
                    arguments_delta: None,
                });
                chunks.extend(halves(&call.arguments.to_string()).map(|delta| {
                    AssistantStreamChunk::ToolCallDelta {
                        index,
                        id_delta: None,
                        name_delta: None,
                        arguments_delta: Some(delta),
                    }
                }));
            }
        }
    }
    chunks
}

/// Two deltas are enough to be a stream; a short text comes in one. This keeps the fixtures small.
fn halves(text: &str) -> impl Iterator<Item = String> {
    let middle = text.chars().count() / 2;
    let halves = if middle < 16 {
        vec![text.to_string()]
    } else {
        vec![
            text.chars().take(middle).collect(),
            text.chars().skip(middle).collect(),
        ]
    };
    halves.into_iter()
}
