//! One function per scenario. Each runs phi-core's own agents and loops on one event channel.

mod context;
mod control;
#[cfg(feature = "event_log")]
mod event_log;
mod failures;
mod parallel;
mod sessions;
mod sub_agents;
mod turns;

use crate::scripted::{pause, ScriptedProvider, Step};
use phi_core::agent_loop::{agent_loop, AgentLoopConfig};
use phi_core::provider::ModelConfig;
use phi_core::types::*;
use phi_core::{Agent, BasicAgent, RetryConfig};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

/// Where a scenario's events go.
pub type Events = UnboundedSender<AgentEvent>;

type Run = Box<dyn FnOnce(Events, PathBuf) -> Pin<Box<dyn Future<Output = ()>>>>;

pub struct Scenario {
    pub name: &'static str,
    /// Gets the event channel, and a folder for files that phi-core itself writes.
    pub run: Run,
}

fn scenario<F>(name: &'static str, run: impl FnOnce(Events) -> F + 'static) -> Scenario
where
    F: Future<Output = ()> + 'static,
{
    Scenario {
        name,
        run: Box::new(|events, _| Box::pin(run(events))),
    }
}

fn scenario_with_files<F>(
    name: &'static str,
    run: impl FnOnce(Events, PathBuf) -> F + 'static,
) -> Scenario
where
    F: Future<Output = ()> + 'static,
{
    Scenario {
        name,
        run: Box::new(|events, folder| Box::pin(run(events, folder))),
    }
}

pub fn all() -> Vec<Scenario> {
    #[allow(unused_mut)] // 0.10.0 adds nothing
    let mut all = vec![
        scenario("plain-multi-turn", turns::plain_multi_turn),
        scenario("parallel-tools-one-error", turns::parallel_tools_one_error),
        scenario("unknown-tool-and-timeout", turns::unknown_tool_and_timeout),
        scenario("streaming-thinking-and-tool-deltas", turns::streaming),
        scenario("extension-message-and-image", turns::extension_and_image),
        scenario("provenance-hints", turns::provenance_hints),
        scenario("provider-error-before-start", failures::before_start),
        scenario("provider-error-after-start", failures::after_start),
        scenario("provider-error-in-stream", failures::in_stream),
        scenario("retries-exhausted", failures::retries_exhausted),
        scenario("retry-succeeds", failures::retry_succeeds),
        scenario("execution-limit", failures::execution_limit),
        scenario("killed", failures::killed),
        scenario("before-loop-veto", control::before_loop_veto),
        scenario("before-turn-veto", control::before_turn_veto),
        scenario("input-rejected-before-run", control::rejected_before_run),
        scenario("input-rejected-during-run", control::rejected_during_run),
        scenario("steering-and-follow-up", control::steering_and_follow_up),
        scenario("sequential-tools-skipped-by-steering", control::skipped),
        scenario("cancel-while-streaming", control::cancel_while_streaming),
        scenario("cancel-while-tool-runs", control::cancel_while_tool_runs),
        scenario("tool-denied-by-hook", control::tool_denied_by_hook),
        scenario("compaction-in-turn", context::compaction_in_turn),
        scenario_with_files("compaction-standalone", context::compaction_standalone),
        scenario("prun", context::prun),
        scenario("revert", context::revert),
        scenario("two-prompts-one-session", sessions::two_prompts),
        scenario("continue-rerun-branch", sessions::continue_rerun_branch),
        scenario("two-loops", sessions::two_loops),
        scenario("session-id-with-dots", sessions::session_id_with_dots),
        scenario("parallel-with-judge", parallel::with_judge),
        scenario("parallel-judge-over-budget", parallel::judge_over_budget),
        scenario("parallel-twice-one-session", parallel::twice_one_session),
        scenario("sub-agent-built-in", sub_agents::built_in),
        scenario("sub-agent-host-wired", sub_agents::host_wired),
    ];
    #[cfg(feature = "event_log")]
    all.extend([
        scenario_with_files("durable-event-log", event_log::two_prompts_and_a_restart),
        scenario(
            "progressive-tool-catalog",
            event_log::progressive_tool_catalog,
        ),
    ]);
    all
}

const SYSTEM_PROMPT: &str = "You keep the cargo ledger of the Brackwater harbour office.";

pub fn claude() -> ModelConfig {
    ModelConfig::anthropic("claude-sonnet-4-5", "Claude Sonnet 4.5", "unused-key")
}

fn gpt() -> ModelConfig {
    ModelConfig::openai("gpt-4o", "GPT-4o", "unused-key")
}

fn harbour_agent(steps: Vec<Step>) -> BasicAgent {
    BasicAgent::new(claude())
        .with_provider_override(ScriptedProvider::new(steps))
        .with_system_prompt(SYSTEM_PROMPT)
        .with_retry_config(RetryConfig {
            max_retries: 2,
            initial_delay_ms: 4,
            backoff_multiplier: 1.5,
            max_delay_ms: 20,
        })
}

fn loop_config(model: ModelConfig, steps: Vec<Step>) -> AgentLoopConfig {
    harbour_agent(steps)
        .with_model_config(model)
        .build_config()
        .expect("a BasicAgent always has a model")
}

fn user(text: &str) -> AgentMessage {
    Message::user(text).into()
}

/// The time between an answer and the user's next message. Without it both could fall into the same
/// millisecond, and phi-core would put the new question before the answer.
async fn user_types() {
    pause(5).await;
}

/// Messages a user types while the agent is busy.
#[derive(Clone, Default)]
struct Mailbox(Arc<Mutex<Vec<AgentMessage>>>);

impl Mailbox {
    fn post(&self, text: &str) {
        self.0.lock().unwrap().push(user(text));
    }

    fn reader(&self) -> Box<dyn Fn() -> Vec<AgentMessage> + Send + Sync> {
        let messages = self.0.clone();
        Box::new(move || std::mem::take(&mut *messages.lock().unwrap()))
    }
}

/// What a user can do to a running loop. A BasicAgent is mutably borrowed while `prompt` runs, so
/// in 0.10.0 nobody can reach it then; a host that wants this drives `agent_loop` itself.
#[derive(Clone, Default)]
struct Controls {
    steering: Mailbox,
    follow_ups: Mailbox,
    stop: CancellationToken,
}

impl Controls {
    /// Runs `prompt` as loop `number` of the agent's session, under these controls.
    async fn run(&self, agent: &BasicAgent, number: usize, prompt: &str, events: Events) {
        let mut config = agent
            .build_config()
            .expect("a BasicAgent always has a model");
        config.get_steering_messages = Some(self.steering.reader());
        config.get_follow_up_messages = Some(self.follow_ups.reader());
        let mut context = AgentContext {
            system_prompt: agent.system_prompt().into(),
            tools: agent.tools().to_vec(),
            agent_id: Some(agent.agent_id().into()),
            session_id: Some(agent.session_id().into()),
            loop_id: Some(format!("{}.harbour.{number}", agent.session_id())),
            ..AgentContext::default()
        };
        let stop = self.stop.clone();
        agent_loop(vec![user(prompt)], &mut context, &config, events, stop).await;
    }
}
