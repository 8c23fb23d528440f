//! How loops relate to each other and to sessions.

use super::*;
use crate::scripted::{call, text, ScriptedTool, Signal};
use serde_json::json;

/// Shows the history bug of 0.10.0: there the second request holds only the second prompt.
pub async fn two_prompts(events: Events) {
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![text("The harbour master is Agneta Lindqvist.")]),
        Step::Answer(vec![text("She took office nine years ago.")]),
    ]);
    agent
        .prompt_with_sender("Who is the harbour master?", events.clone())
        .await;
    user_types().await;
    agent
        .prompt_with_sender("Since when is she in office?", events)
        .await;
}

pub async fn continue_rerun_branch(events: Events) {
    let mut agent = harbour_agent(vec![
        Step::Answer(vec![text("Pier three is free all week.")]),
        Step::Answer(vec![text("It costs forty crowns a night.")]),
        Step::Answer(vec![text("Forty crowns a night, water included.")]),
        Step::Answer(vec![text("Pier nine is cheaper, thirty crowns.")]),
    ]);
    agent
        .prompt_with_sender("Which pier is free this week?", events.clone())
        .await;

    user_types().await;
    agent.append_message(user("And what does it cost?"));
    agent
        .continue_loop_with_sender(events.clone(), ContinuationKind::Default)
        .await;

    // Ask the same again: drop the last answer.
    let mut history = agent.messages().to_vec();
    history.pop();
    agent.replace_messages(history.clone());
    let tag = String::new(); // phi-core writes its own
    agent
        .continue_loop_with_sender(events.clone(), ContinuationKind::Rerun { tag: tag.clone() })
        .await;

    // Ask something else at the same point.
    history.pop();
    user_types().await;
    history.push(user("Is there a cheaper one?"));
    agent.replace_messages(history);
    agent
        .continue_loop_with_sender(events, ContinuationKind::Branch { tag })
        .await;
}

/// Two loops at once on one channel: one with generated ids (bare UUIDs, no dots), one whose host
/// chose ids that have nothing to do with each other. Their tools overlap.
pub async fn two_loops(events: Events) {
    let first_tool_runs = Signal::new();
    let second_tool_runs = Signal::new();
    let first_answered = Signal::new();
    let count = |id| call(id, "count_gulls", json!({"roof": "fish market hall"}));
    let gulls = |running: &Signal, until: &Signal| {
        let running = running.clone();
        vec![
            ScriptedTool::returns("count_gulls", "seventeen gulls on the roof")
                .on_start(move || running.cancel())
                .after(until)
                .shared(),
        ]
    };

    let generated = loop_config(
        claude(),
        vec![
            Step::Answer(vec![count("call_gulls_generated")]),
            Step::AnswerAndSignal(
                vec![text("Seventeen gulls, says the first clerk.")],
                first_answered.clone(),
            ),
        ],
    );
    let mut first = AgentContext {
        tools: gulls(&first_tool_runs, &second_tool_runs),
        ..AgentContext::default()
    };
    let chosen = loop_config(
        gpt(),
        vec![
            Step::AnswerAfter(first_tool_runs, vec![count("call_gulls_chosen")]),
            Step::Answer(vec![text("Seventeen gulls, says the second clerk.")]),
        ],
    );
    let mut second = AgentContext {
        tools: gulls(&second_tool_runs, &first_answered),
        agent_id: Some("night-clerk".into()),
        session_id: Some("gull-census-spring".into()),
        loop_id: Some("roof-round-one".into()),
        ..AgentContext::default()
    };
    let never = CancellationToken::new;
    tokio::join!(
        agent_loop(
            vec![user("First clerk, count the gulls.")],
            &mut first,
            &generated,
            events.clone(),
            never()
        ),
        agent_loop(
            vec![user("Second clerk, count the gulls.")],
            &mut second,
            &chosen,
            events.clone(),
            never()
        ),
    );
}

/// phi-core takes the text before the first dot of a loop id for the session id.
pub async fn session_id_with_dots(events: Events) {
    let config = loop_config(
        claude(),
        vec![Step::Answer(vec![text("The night shift begins at ten.")])],
    );
    let mut context = AgentContext {
        agent_id: Some("shift-planner".into()),
        session_id: Some("pier.9.night shift".into()),
        loop_id: Some("pier.9.night shift.harbour.1".into()),
        ..AgentContext::default()
    };
    agent_loop(
        vec![user("When does the night shift begin?")],
        &mut context,
        &config,
        events.clone(),
        CancellationToken::new(),
    )
    .await;
    // A continuation: its parent looks as if it belonged to the session "pier".
    let config = loop_config(
        claude(),
        vec![Step::Answer(vec![text("It ends at six in the morning.")])],
    );
    context.parent_loop_id = context
        .loop_id
        .replace("pier.9.night shift.harbour.2".into());
    context.continuation_kind = Some(ContinuationKind::Default);
    user_types().await;
    let question = user("And when does it end?");
    context.messages.push(question.clone());
    context.user_context.push(question);
    phi_core::agent_loop_continue(&mut context, &config, events, CancellationToken::new()).await;
}
