//! Hooks, input filters, steering, stopping, permission.

use super::*;
use crate::release::deny_tool;
use crate::scripted::{call, text, ScriptedTool};
use async_trait::async_trait;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

pub async fn before_loop_veto(events: Events) {
    harbour_agent(vec![])
        .on_before_loop(|_, _| false)
        .prompt_with_sender("Open the sluice gates.", events)
        .await;
}

/// First loop: vetoed before its first turn. Second loop: vetoed after it.
pub async fn before_turn_veto(events: Events) {
    let allowed_turns = Arc::new(AtomicUsize::new(0));
    let limit = allowed_turns.clone();
    let mut agent = harbour_agent(vec![Step::Answer(vec![
        text("Reading the gauge before opening anything."),
        call(
            "call_gauge",
            "read_gauge",
            json!({"gauge": "upper sluice basin"}),
        ),
    ])])
    .with_tools(vec![ScriptedTool::returns(
        "read_gauge",
        "basin two metres above sill",
    )
    .shared()])
    .on_before_turn(move |_, turn| turn < limit.load(Ordering::SeqCst));
    agent
        .prompt_with_sender("Open the lower sluice.", events.clone())
        .await;
    allowed_turns.store(1, Ordering::SeqCst);
    user_types().await;
    agent
        .prompt_with_sender("Open the upper sluice.", events)
        .await;
}

/// Rejects anything about ransom, warns about anything about pirates.
struct HarbourPolice;

#[async_trait]
impl InputFilter for HarbourPolice {
    async fn filter(&self, text: &str) -> FilterResult {
        if text.contains("ransom") {
            FilterResult::Reject("harbour police: ransom talk is not forwarded".into())
        } else if text.contains("pirates") {
            FilterResult::Warn("harbour police: rumour, unconfirmed".into())
        } else {
            FilterResult::Pass
        }
    }
}

pub async fn rejected_before_run(events: Events) {
    let mut agent = harbour_agent(vec![Step::Answer(vec![text(
        "No pirates were sighted inside the breakwater.",
    )])])
    .with_input_filter(HarbourPolice);
    agent
        .prompt_with_sender("Draft a ransom note for the Petrel.", events.clone())
        .await;
    user_types().await;
    agent
        .prompt_with_sender("Are there pirates near the Petrel?", events)
        .await;
}

/// First loop: a steering message is rejected. Second loop: a follow-up is.
pub async fn rejected_during_run(events: Events) {
    let controls = Controls::default();
    let (steering, follow_ups) = (controls.steering.clone(), controls.follow_ups.clone());
    let agent = harbour_agent(vec![
        Step::Answer(vec![call(
            "call_rope_1",
            "count_rope",
            json!({"store": "rope loft"}),
        )]),
        Step::Answer(vec![call(
            "call_sail_2",
            "count_sails",
            json!({"store": "sail loft"}),
        )]),
        Step::Answer(vec![text("Nineteen sails are in the loft.")]),
    ])
    .with_input_filter(HarbourPolice)
    .with_tools(vec![
        ScriptedTool::returns("count_rope", "thirty-one coils of hemp")
            .on_finish(move || steering.post("Now write the ransom letter first!"))
            .shared(),
        ScriptedTool::returns("count_sails", "nineteen sails, two torn")
            .on_finish(move || follow_ups.post("And then demand the ransom in gold."))
            .shared(),
    ]);
    controls
        .run(&agent, 1, "Count the rope in the loft.", events.clone())
        .await;
    controls
        .run(&agent, 2, "Count the sails in the loft.", events)
        .await;
}

pub async fn steering_and_follow_up(events: Events) {
    let controls = Controls::default();
    let (steering, follow_ups) = (controls.steering.clone(), controls.follow_ups.clone());
    let agent = harbour_agent(vec![
        Step::Answer(vec![call(
            "call_ferry",
            "find_ferry",
            json!({"route": "to Gannet Island"}),
        )]),
        Step::Answer(vec![text("The evening ferry also takes bicycles.")]),
        Step::Answer(vec![text("A return ticket costs eleven crowns.")]),
    ])
    .with_tools(vec![ScriptedTool::returns(
        "find_ferry",
        "ferry leaves at 18:40 from pier two",
    )
    .on_finish(move || {
        steering.post("Make sure it takes bicycles!");
        follow_ups.post("What does a return ticket cost?");
    })
    .shared()]);
    controls
        .run(&agent, 1, "Find me a ferry to Gannet Island.", events)
        .await;
}

/// The user interrupts while the first of three tools runs; the other two never start.
pub async fn skipped(events: Events) {
    let controls = Controls::default();
    let steering = controls.steering.clone();
    let agent = harbour_agent(vec![
        Step::Answer(vec![
            call(
                "call_paint_bow",
                "paint_hull",
                json!({"part": "bow, sea green"}),
            ),
            call(
                "call_paint_keel",
                "paint_hull",
                json!({"part": "keel, tar black"}),
            ),
            call(
                "call_polish",
                "polish_brass",
                json!({"part": "ship's bell"}),
            ),
        ]),
        Step::Answer(vec![text("Stopped painting after the bow.")]),
    ])
    .with_tool_execution(ToolExecutionStrategy::Sequential)
    .with_tools(vec![
        ScriptedTool::returns("paint_hull", "one coat applied")
            .on_finish(move || steering.post("Stop painting, it starts to rain!"))
            .shared(),
        ScriptedTool::returns("polish_brass", "bell shines").shared(),
    ]);
    controls
        .run(
            &agent,
            1,
            "Paint the Sandpiper and polish her bell.",
            events,
        )
        .await;
}

pub async fn cancel_while_streaming(events: Events) {
    let controls = Controls::default();
    let agent = harbour_agent(vec![Step::StoppedAfter(
        "The history of this harbour begins with",
        controls.stop.clone(),
    )]);
    controls
        .run(&agent, 1, "Tell me the history of the harbour.", events)
        .await;
}

pub async fn cancel_while_tool_runs(events: Events) {
    let controls = Controls::default();
    let stop = controls.stop.clone();
    let agent = harbour_agent(vec![Step::Answer(vec![
        text("Pumping out the dry dock."),
        call(
            "call_pump",
            "run_pump",
            json!({"dock": "dry dock number two"}),
        ),
    ])])
    .with_tools(vec![ScriptedTool::runs_until_stopped("run_pump")
        .on_start(move || stop.cancel())
        .shared()]);
    controls
        .run(&agent, 1, "Pump out the dry dock.", events)
        .await;
}

/// One of two parallel calls is denied; the denied one has no ToolExecution events.
pub async fn tool_denied_by_hook(events: Events) {
    let agent = harbour_agent(vec![
        Step::Answer(vec![
            call(
                "call_copy",
                "copy_ledger",
                json!({"target": "backup vault"}),
            ),
            call(
                "call_burn",
                "burn_ledger",
                json!({"page": "page ninety-one"}),
            ),
        ]),
        Step::Answer(vec![text(
            "The ledger was copied; I may not burn its pages.",
        )]),
    ])
    .with_tools(vec![
        ScriptedTool::returns("copy_ledger", "ledger copied to the vault").shared(),
        ScriptedTool::returns("burn_ledger", "this result must never appear").shared(),
    ]);
    deny_tool(
        agent,
        "burn_ledger",
        "harbour rule 7: ledgers are never destroyed",
    )
    .prompt_with_sender("Copy the ledger, then burn page 91.", events)
    .await;
}
