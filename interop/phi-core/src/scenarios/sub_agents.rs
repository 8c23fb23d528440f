//! An agent that delegates to another one.

use super::*;
use crate::scripted::{call, text, ScriptedTool};
use async_trait::async_trait;
use phi_core::SubAgentTool;
use serde_json::{json, Value};

fn delegating_steps() -> Vec<Step> {
    vec![
        Step::Answer(vec![
            text("The cargo inspector shall look at hold three."),
            call(
                "call_delegate",
                "cargo_inspector",
                json!({"task": "Inspect hold three for damp grain"}),
            ),
        ]),
        Step::Answer(vec![text(
            "Hold three is dry; the inspector found nothing.",
        )]),
    ]
}

fn inspector_steps() -> Vec<Step> {
    vec![
        Step::Answer(vec![call(
            "call_hygrometer",
            "read_hygrometer",
            json!({"hold": "hold three aft"}),
        )]),
        Step::Answer(vec![text("Grain in hold three is dry throughout.")]),
    ]
}

fn inspector_tools() -> Vec<Arc<dyn AgentTool>> {
    vec![ScriptedTool::returns("read_hygrometer", "humidity eleven percent").shared()]
}

const INSPECTOR_PROMPT: &str = "You inspect ship holds and report in one sentence.";

/// phi-core's own tool: the child's loop id is all that is seen of the child.
pub async fn built_in(events: Events) {
    let inspector = SubAgentTool::new("cargo_inspector", claude())
        .with_provider_override(ScriptedProvider::new(inspector_steps()))
        .with_system_prompt(INSPECTOR_PROMPT)
        .with_tools(inspector_tools());
    harbour_agent(delegating_steps())
        .with_sub_agent(inspector)
        .prompt_with_sender("Is the grain in hold three damp?", events)
        .await;
}

/// A host's own tool that puts the child's events on the parent's channel and links both sessions.
struct WiredInspector {
    events: Events,
    parent_loop_id: String,
}

#[async_trait]
impl AgentTool for WiredInspector {
    fn name(&self) -> &str {
        "cargo_inspector"
    }

    fn label(&self) -> &str {
        "Cargo inspector"
    }

    fn description(&self) -> &str {
        "Delegates an inspection to the cargo inspector"
    }

    fn parameters_schema(&self) -> Value {
        json!({"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]})
    }

    async fn execute(&self, arguments: Value, call: ToolContext) -> Result<ToolResult, ToolError> {
        let task = arguments["task"].as_str().unwrap_or_default();
        let child_session = "inspector-session-3".to_string();
        let child_loop = format!("{child_session}.sub.1");
        let mut config = loop_config(claude(), inspector_steps());
        config.first_turn_trigger = TurnTrigger::SubAgent;
        let mut child = AgentContext {
            system_prompt: INSPECTOR_PROMPT.into(),
            tools: inspector_tools(),
            agent_id: Some("cargo-inspector".into()),
            session_id: Some(child_session),
            loop_id: Some(child_loop.clone()),
            parent_loop_id: Some(self.parent_loop_id.clone()),
            ..AgentContext::default()
        };
        agent_loop(
            vec![user(task)],
            &mut child,
            &config,
            self.events.clone(),
            call.cancel,
        )
        .await;
        Ok(ToolResult {
            content: vec![text("Inspector: grain in hold three is dry throughout.")],
            details: json!({"inspected_hold": "hold three aft"}),
            child_loop_id: Some(child_loop),
        })
    }
}

pub async fn host_wired(events: Events) {
    let agent = harbour_agent(delegating_steps()).with_config_id("harbour");
    let inspector = WiredInspector {
        events: events.clone(),
        parent_loop_id: format!("{}.harbour.1", agent.session_id()),
    };
    agent
        .with_tools(vec![Arc::new(inspector)])
        .prompt_with_sender("Is the grain in hold three damp today?", events)
        .await;
}
