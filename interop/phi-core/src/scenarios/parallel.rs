//! agent_loop_parallel: several configurations answer the same prompt.

use super::*;
use crate::scripted::{text, Signal};
use phi_core::agent_loop::agent_loop_parallel;
use phi_core::context::{CompactionConfig, ContextConfig};
use phi_core::{LlmJudgeEvaluation, PickFirstEvaluation, TokenEfficientEvaluation};

/// The second branch answers when the first has.
fn branches(first: &str, second: &str) -> Vec<AgentLoopConfig> {
    let first_answered = Signal::new();
    let mut fast = loop_config(
        claude(),
        vec![Step::AnswerAndSignal(
            vec![text(first)],
            first_answered.clone(),
        )],
    );
    fast.config_id = Some("fast".into());
    let thorough = loop_config(
        gpt(),
        vec![Step::AnswerAfter(first_answered, vec![text(second)])],
    );
    vec![fast, thorough]
}

async fn ask(
    context: AgentContext,
    question: &str,
    configs: Vec<AgentLoopConfig>,
    strategy: Arc<dyn EvaluationStrategy>,
    events: Events,
) {
    let stop = CancellationToken::new();
    agent_loop_parallel(
        vec![user(question)],
        context,
        configs,
        strategy,
        events,
        stop,
    )
    .await;
}

pub async fn with_judge(events: Events) {
    let context = AgentContext {
        system_prompt: SYSTEM_PROMPT.into(),
        ..AgentContext::default()
    };
    let configs = branches(
        "Anchor in the lee of the island.",
        "Anchor in the lee of the island, but leave before the tide turns.",
    );
    let judge = LlmJudgeEvaluation {
        judge_config: loop_config(claude(), vec![Step::Answer(vec![text("2")])]),
        system_prompt: Some("You compare the advice of two pilots.".into()),
    };
    ask(
        context,
        "Where should the Dunlin anchor?",
        configs,
        Arc::new(judge),
        events,
    )
    .await;
}

/// The judge's window does not hold both answers even after cutting them: phi-core cuts to 802
/// characters each, counts 201 tokens each, and has 401. The warning has an empty loop id.
pub async fn judge_over_budget(events: Events) {
    let mut judge_config = loop_config(claude(), vec![Step::Answer(vec![text("1")])]);
    judge_config.context_config = Some(ContextConfig {
        max_context_tokens: 502,
        compaction: CompactionConfig {
            compact_at_pct: 100.0, // never, it would shrink the judge's only message
            ..CompactionConfig::default()
        },
        ..ContextConfig::default()
    });
    let configs = branches(
        &"Keep the spire in line with the leading light. ".repeat(18),
        &"Follow the green buoys and sound every cable. ".repeat(18),
    );
    let judge = LlmJudgeEvaluation {
        judge_config,
        system_prompt: None,
    };
    ask(
        AgentContext::default(),
        "How do I enter the harbour?",
        configs,
        Arc::new(judge),
        events,
    )
    .await;
}

/// The branches are numbered from 1 in every call, so all loop ids come twice.
pub async fn twice_one_session(events: Events) {
    let context = || AgentContext {
        agent_id: Some("pilot-office".into()),
        session_id: Some("pilot-session-1887".into()),
        ..AgentContext::default()
    };
    let configs = branches("Take the northern passage.", "Take the southern passage.");
    ask(
        context(),
        "Which passage for the Gadwall?",
        configs,
        Arc::new(PickFirstEvaluation),
        events.clone(),
    )
    .await;
    let configs = branches("Wait for the flood tide.", "Sail with the ebb tide.");
    ask(
        context(),
        "When should the Gadwall sail?",
        configs,
        Arc::new(TokenEfficientEvaluation),
        events,
    )
    .await;
}
