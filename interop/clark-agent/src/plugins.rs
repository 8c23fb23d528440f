//! Scripted plugins: fixed decisions, and what they did in the run's record.

use crate::tools::text_of;
use crate::truth::{Conflict, Outcome, Truth};
use async_trait::async_trait;
use clark_agent::plugin::*;
use clark_agent::*;
use serde_json::Value;
use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

/// Blocks every call of one tool.
pub struct Guard {
    pub name: &'static str,
    pub tool: &'static str,
    pub reason: Option<&'static str>,
    pub details: Option<Value>,
    pub truth: Truth,
}

impl Plugin for Guard {
    fn name(&self) -> &'static str {
        self.name
    }
}

#[async_trait]
impl BeforeToolCall for Guard {
    async fn on_before_tool_call(&self, context: BeforeToolCallContext<'_>) -> BeforeToolDecision {
        if context.tool_call.name != self.tool {
            return BeforeToolDecision::allow();
        }
        let reason = self.reason.map(String::from);
        self.truth
            .blocked(&context.tool_call.id, self.name, reason.clone());
        BeforeToolDecision {
            block: true,
            reason,
            details: self.details.clone(),
        }
    }
}

/// Puts a fixed result in the place of every result of one tool.
pub struct Censor {
    pub tool: &'static str,
    pub result: ToolResult,
    pub truth: Truth,
}

impl Plugin for Censor {
    fn name(&self) -> &'static str {
        "censor"
    }
}

#[async_trait]
impl AfterToolCall for Censor {
    async fn on_after_tool_call(&self, context: AfterToolCallContext<'_>) -> AfterToolDecision {
        if context.tool_call.name != self.tool {
            return AfterToolDecision::passthrough();
        }
        let outcome = if self.result.is_error {
            Outcome::Error
        } else {
            Outcome::Ok
        };
        self.truth
            .rewritten(&context.tool_call.id, &text_of(&self.result), outcome);
        AfterToolDecision::override_result(self.result.clone())
    }
}

/// Allows a list of tools at each model call: the first list at the first call and so on, the last for all others.
pub struct Gate {
    name: &'static str,
    lists: Vec<Option<Vec<&'static str>>>,
    priority: i32,
    advisory: bool,
    suppressing: bool,
    denial: Option<&'static str>,
    conflict: Option<Conflict>,
    calls: Mutex<usize>,
    truth: Truth,
}

impl Gate {
    pub fn new(name: &'static str, lists: Vec<Option<Vec<&'static str>>>, truth: &Truth) -> Self {
        Self {
            name,
            lists,
            priority: 0,
            advisory: false,
            suppressing: false,
            denial: None,
            conflict: None,
            calls: Mutex::new(0),
            truth: truth.clone(),
        }
    }

    pub fn of_priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Only advises: a suppressing gate of higher priority silences it.
    pub fn advisory(mut self) -> Self {
        self.advisory = true;
        self
    }

    pub fn suppressing(mut self) -> Self {
        self.suppressing = true;
        self
    }

    /// Has a reason for a call outside its list.
    pub fn explaining(mut self, denial: &'static str) -> Self {
        self.denial = Some(denial);
        self
    }

    /// After this gate's first word nothing is allowed by all, and the loop has to choose, in this way.
    pub fn conflicting(mut self, conflict: Conflict) -> Self {
        self.conflict = Some(conflict);
        self
    }
}

impl Plugin for Gate {
    fn name(&self) -> &'static str {
        self.name
    }
}

#[async_trait]
impl ToolGate for Gate {
    async fn next_turn_tool_allowlist(&self, _: ToolGateContext<'_>) -> Option<HashSet<String>> {
        let call = {
            let mut calls = self.calls.lock().unwrap();
            *calls += 1;
            *calls - 1
        };
        let list = self.lists[call.min(self.lists.len() - 1)].clone();
        let sorted = list.clone().map(|mut list| {
            list.sort_unstable();
            list.into_iter().map(String::from).collect::<Vec<_>>()
        });
        self.truth.gate(self.name, sorted);
        if let Some(conflict) = self.conflict.as_ref().filter(|_| call == 0) {
            self.truth.conflict(conflict.clone());
        }
        list.map(|list| list.into_iter().map(String::from).collect())
    }

    async fn denial_reason(&self, _tool: &str, _: ToolGateContext<'_>) -> Option<String> {
        self.denial.map(String::from)
    }

    fn conflict_priority(&self) -> i32 {
        self.priority
    }

    fn tool_gate_class(&self) -> ToolGateClass {
        if self.advisory {
            ToolGateClass::Advisory
        } else {
            ToolGateClass::Required
        }
    }

    fn suppresses_advisory_gates(&self, _: ToolGateContext<'_>) -> bool {
        self.suppressing
    }
}

/// A transform, watched: whether it changed the messages.
pub struct Watched<T> {
    pub transform: T,
    pub truth: Truth,
}

impl<T: ContextTransform> Plugin for Watched<T> {
    fn name(&self) -> &'static str {
        self.transform.name()
    }
}

#[async_trait]
impl<T: ContextTransform> ContextTransform for Watched<T> {
    fn should_run(&self, messages: &[AgentMessage], context: &TransformContext<'_>) -> bool {
        self.transform.should_run(messages, context)
    }

    async fn transform(
        &self,
        messages: Vec<AgentMessage>,
        context: &TransformContext<'_>,
    ) -> Vec<AgentMessage> {
        let before = messages.clone();
        let after = self.transform.transform(messages, context).await;
        if before != after {
            self.truth
                .compaction(self.transform.name(), before.len(), after.len());
        }
        after
    }
}

/// Keeps the first message and the last few.
pub struct KeepLast(pub usize);

impl KeepLast {
    fn keep(&self, messages: Vec<AgentMessage>) -> Vec<AgentMessage> {
        let from = messages.len().saturating_sub(self.0).max(1);
        let kept = |(number, message)| (number == 0 || number >= from).then_some(message);
        messages.into_iter().enumerate().filter_map(kept).collect()
    }
}

impl Plugin for KeepLast {
    fn name(&self) -> &'static str {
        "keep_last"
    }
}

#[async_trait]
impl ContextTransform for KeepLast {
    async fn transform(
        &self,
        messages: Vec<AgentMessage>,
        _: &TransformContext<'_>,
    ) -> Vec<AgentMessage> {
        self.keep(messages)
    }
}

/// Only looks.
pub struct Inspector;

impl Plugin for Inspector {
    fn name(&self) -> &'static str {
        "inspector"
    }
}

#[async_trait]
impl ContextTransform for Inspector {
    async fn transform(
        &self,
        messages: Vec<AgentMessage>,
        _: &TransformContext<'_>,
    ) -> Vec<AgentMessage> {
        messages
    }
}

/// Shortens the history after the provider refused it.
#[cfg(feature = "newest")]
pub struct Shrinker {
    pub keep: KeepLast,
    pub truth: Truth,
}

#[cfg(feature = "newest")]
#[async_trait]
impl ContextOverflowRecovery for Shrinker {
    async fn recover(
        &self,
        messages: Vec<AgentMessage>,
        _: &TransformContext<'_>,
    ) -> Vec<AgentMessage> {
        let before = messages.len();
        let after = self.keep.keep(messages);
        self.truth.compaction(self.name(), before, after.len());
        after
    }
}

/// Delivers messages of the user: as steering between two turns, or as a follow-up when the loop would end.
pub struct Mailbox {
    /// What is delivered at the first opportunity, the second and so on; `None` is no message.
    pub letters: Mutex<VecDeque<Option<AgentMessage>>>,
    pub truth: Truth,
}

impl Mailbox {
    pub fn new(letters: Vec<Option<AgentMessage>>, truth: &Truth) -> Self {
        Self {
            letters: Mutex::new(letters.into()),
            truth: truth.clone(),
        }
    }

    fn next(&self) -> Vec<AgentMessage> {
        let letter = self.letters.lock().unwrap().pop_front().flatten();
        if let Some(letter) = &letter {
            self.truth.input(text_of_user(letter));
        }
        letter.into_iter().collect()
    }
}

impl Plugin for Mailbox {
    fn name(&self) -> &'static str {
        "mailbox"
    }
}

#[async_trait]
impl SteeringSource for Mailbox {
    async fn next_steering_messages(&self) -> Vec<AgentMessage> {
        self.next()
    }
}

#[async_trait]
impl FollowUpSource for Mailbox {
    async fn next_follow_up_messages(&self) -> Vec<AgentMessage> {
        self.next()
    }
}

/// The text of a message from the user's side; of a custom message its kind.
pub fn text_of_user(message: &AgentMessage) -> String {
    let block = |block: &UserBlock| match block {
        UserBlock::Text(text) => Some(text.text.clone()),
        UserBlock::Image(_) => None,
    };
    match message {
        AgentMessage::User { content, .. } => match content {
            UserContent::Text(text) => text.clone(),
            UserContent::Blocks(blocks) => blocks.iter().filter_map(block).collect(),
        },
        AgentMessage::System { content, .. } => content.clone(),
        AgentMessage::Custom { kind, .. } => kind.clone(),
        AgentMessage::Assistant { .. } | AgentMessage::ToolResult { .. } => {
            unreachable!("not from the user's side")
        }
    }
}
