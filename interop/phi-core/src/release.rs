//! The only place where the two releases of phi-core differ for this program.

use phi_core::session::SessionRecorderConfig;
use phi_core::BasicAgent;

pub fn recorder_config() -> SessionRecorderConfig {
    SessionRecorderConfig {
        // Gone in 0.14.0 together with the events of a LoopRecord.
        #[cfg(not(feature = "event_log"))]
        include_streaming_events: false,
        capture_turn_requests: true,
        before_task: None,
        after_task: None,
    }
}

/// Denies every call of `tool`. The reason reaches the model only from 0.11.2 on.
#[cfg(not(feature = "event_log"))]
pub fn deny_tool(agent: BasicAgent, tool: &'static str, _reason: &'static str) -> BasicAgent {
    agent.on_before_tool_execution(move |name, _, _| name != tool)
}

#[cfg(feature = "event_log")]
pub fn deny_tool(agent: BasicAgent, tool: &'static str, reason: &'static str) -> BasicAgent {
    use phi_core::agent_loop::ToolGate;
    agent.on_before_tool_execution(move |name, _, _| {
        if name == tool {
            ToolGate::deny(reason)
        } else {
            ToolGate::Allow
        }
    })
}
