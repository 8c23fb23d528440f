//! Scripted tools: a fixed outcome, and what they did in the run's record.

use crate::truth::{Outcome, Truth};
use async_trait::async_trait;
use clark_agent::error::{ToolError, ToolValidationError};
use clark_agent::*;
use serde_json::{json, Value};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What a host's own tool does with a call: it gets the call's id and arguments.
type Work =
    Arc<dyn Fn(String, Value) -> Pin<Box<dyn Future<Output = ToolResult> + Send>> + Send + Sync>;

#[derive(Clone)]
enum Act {
    Returns(ToolResult),
    Fails(&'static str),
    FailsFatally(&'static str),
    /// The user presses stop while it runs.
    IsStopped(CancellationToken),
    /// It watches for stop, as a long running tool should.
    WaitsForStop,
    Works(Work),
}

#[derive(Clone)]
pub struct Tool {
    name: &'static str,
    act: Act,
    takes: u64,
    updates: Vec<&'static str>,
    required: &'static str,
    exclusive: bool,
    aborts_siblings: bool,
    truth: Option<Truth>,
}

/// Returns `text` after some milliseconds.
pub fn returns(name: &'static str, text: &str) -> Tool {
    Tool::new(name, Act::Returns(ToolResult::text(text)))
}

pub fn returns_result(name: &'static str, result: ToolResult) -> Tool {
    Tool::new(name, Act::Returns(result))
}

pub fn fails(name: &'static str, error: &'static str) -> Tool {
    Tool::new(name, Act::Fails(error))
}

pub fn fails_fatally(name: &'static str, error: &'static str) -> Tool {
    Tool::new(name, Act::FailsFatally(error))
}

pub fn is_stopped(name: &'static str, stop: CancellationToken) -> Tool {
    Tool::new(name, Act::IsStopped(stop))
}

pub fn waits_for_stop(name: &'static str) -> Tool {
    Tool::new(name, Act::WaitsForStop)
}

pub fn works<F>(
    name: &'static str,
    work: impl Fn(String, Value) -> F + Send + Sync + 'static,
) -> Tool
where
    F: Future<Output = ToolResult> + Send + 'static,
{
    let work: Work = Arc::new(move |id, arguments| Box::pin(work(id, arguments)));
    Tool::new(name, Act::Works(work))
}

impl Tool {
    fn new(name: &'static str, act: Act) -> Self {
        Self {
            name,
            act,
            takes: 15,
            updates: vec![],
            required: "",
            exclusive: false,
            aborts_siblings: false,
            truth: None,
        }
    }

    pub fn taking(mut self, milliseconds: u64) -> Self {
        self.takes = milliseconds;
        self
    }

    pub fn reporting(mut self, updates: &[&'static str]) -> Self {
        self.updates = updates.to_vec();
        self
    }

    /// Refuses arguments without this key.
    pub fn requiring(mut self, key: &'static str) -> Self {
        self.required = key;
        self
    }

    /// A batch with this tool runs one call after the other.
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// Its failure stops the other calls of the batch.
    pub fn aborting_siblings(mut self) -> Self {
        self.aborts_siblings = true;
        self
    }

    /// For one run, whose record it keeps.
    pub fn of(mut self, truth: &Truth) -> Arc<dyn AgentTool> {
        self.truth = Some(truth.clone());
        Arc::new(self)
    }

    fn truth(&self) -> &Truth {
        self.truth.as_ref().expect("a tool belongs to a run")
    }
}

#[async_trait]
impl AgentTool for Tool {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "Tide office tool, scripted for the interop fixtures"
    }

    fn parameters_schema(&self) -> Value {
        let mut schema = json!({"type": "object", "properties": {"where": {"type": "string"}}});
        if !self.required.is_empty() {
            schema["required"] = json!([self.required]);
        }
        schema
    }

    fn requires_exclusive_sandbox(&self) -> bool {
        self.exclusive
    }

    fn aborts_siblings_on_error(&self) -> bool {
        self.aborts_siblings
    }

    fn validate(&self, arguments: &Value) -> Result<(), ToolValidationError> {
        if self.required.is_empty() || arguments.get(self.required).is_some() {
            return Ok(());
        }
        Err(ToolValidationError::MissingField {
            tool: self.name.into(),
            action: "call".into(),
            field: self.required.into(),
        })
    }

    async fn execute(
        &self,
        call_id: &str,
        arguments: Value,
        signal: CancellationToken,
        update: ToolUpdateSink,
    ) -> Result<ToolResult, ToolError> {
        let truth = self.truth();
        truth.begun(call_id);
        for report in &self.updates {
            tokio::time::sleep(Duration::from_millis(3)).await;
            update.send(ToolResult::text(*report)).ok();
        }
        tokio::time::sleep(Duration::from_millis(self.takes)).await;
        let result = match &self.act {
            Act::Returns(result) => result.clone(),
            Act::Fails(error) => {
                let error = ToolError::Execution((*error).into());
                truth.executed(call_id, &error.to_string(), Outcome::Error);
                return Err(error);
            }
            Act::FailsFatally(error) => return Err(ToolError::Fatal((*error).into())),
            Act::IsStopped(stop) => {
                stop.cancel();
                return Err(ToolError::Aborted);
            }
            Act::WaitsForStop => {
                signal.cancelled().await;
                return Err(ToolError::Aborted);
            }
            Act::Works(work) => work(call_id.into(), arguments).await,
        };
        let outcome = if result.is_error {
            Outcome::Error
        } else {
            Outcome::Ok
        };
        truth.executed(call_id, &text_of(&result), outcome);
        Ok(result)
    }
}

pub fn text_of(result: &ToolResult) -> String {
    let blocks = result.content.clone();
    ToolResultContent { blocks }.plain_text()
}
