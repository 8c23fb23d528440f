//! Which tools the model is offered, and which calls are refused.

use crate::model::*;
use crate::plugins::*;
use crate::stage::*;
use crate::tools::*;
use crate::truth::{Conflict, Fate, Truth};
use clark_agent::AgentBuilder;
use serde_json::json;
use std::sync::Arc;

fn station() -> Vec<Tool> {
    vec![
        returns("read_gauge", "1.10 m"),
        returns("open_gate", "gate opens"),
        returns("sound_horn", "one long blast"),
    ]
}

fn gated(builder: AgentBuilder, gate: Gate) -> AgentBuilder {
    builder.tool_gate_arc(Arc::new(gate))
}

/// Only reading in the first turn, anything in the second.
pub async fn one_gate(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            let gate = Gate::new("opening_gate", vec![Some(vec!["read_gauge"]), None], truth);
            gated(builder, gate)
        })
        .tools(station())
        .script(vec![
            vec![answer(vec![call("call_read", "read_gauge", json!({}))])],
            vec![answer(vec![call("call_open", "open_gate", json!({}))])],
            vec![answer(vec![text("Open.")])],
        ])
        .play(vec![user("Open the lock when the level allows.")])
        .await;
}

/// Two gates that agree on something, and a third without an opinion.
pub async fn agreeing_gates(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            let quiet = Gate::new(
                "quiet_hours",
                vec![Some(vec!["read_gauge", "open_gate"])],
                truth,
            );
            let phase = Gate::new(
                "phase_gate",
                vec![Some(vec!["sound_horn", "read_gauge"])],
                truth,
            );
            let silent = Gate::new("silent_gate", vec![None], truth);
            gated(gated(gated(builder, quiet), phase), silent)
        })
        .tools(station())
        .script(vec![
            vec![answer(vec![call("call_read", "read_gauge", json!({}))])],
            vec![answer(vec![text("One metre ten.")])],
        ])
        .play(vec![user("How deep?")])
        .await;
}

/// Two gates that agree on nothing: the one of higher priority wins, at the first model call only.
pub async fn conflicting_gates(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            let quiet = Gate::new("quiet_hours", vec![Some(vec!["read_gauge"]), None], truth);
            let fog = Gate::new(
                "fog_gate",
                vec![Some(vec!["sound_horn", "open_gate"])],
                truth,
            )
            .of_priority(7)
            .conflicting(Conflict {
                plugins: vec!["quiet_hours".into(), "fog_gate".into()],
                chosen_plugin: Some("fog_gate".into()),
                allow: vec!["open_gate".into(), "sound_horn".into()],
            });
            gated(gated(builder, quiet), fog)
        })
        .tools(station())
        .script(vec![
            vec![answer(vec![call("call_horn", "sound_horn", json!({}))])],
            vec![answer(vec![text("Sounded.")])],
        ])
        .play(vec![user("Fog is coming in.")])
        .await;
}

/// An advisory gate is silenced by another; the wire shows both lists and not which of them counts.
pub async fn silenced_gate(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            let advice =
                Gate::new("thrifty_gate", vec![Some(vec!["read_gauge"])], truth).advisory();
            let phase = vec![Some(vec!["sound_horn", "read_gauge"])];
            let phase = Gate::new("phase_gate", phase, truth)
                .of_priority(3)
                .suppressing();
            gated(gated(builder, advice), phase)
        })
        .tools(station())
        .script(vec![vec![answer(vec![text("Standing by.")])]])
        .play(vec![user("Stand by.")])
        .await;
}

/// Both gates allow nothing. The loop then offers everything.
pub async fn gates_that_allow_nothing(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            let closed = Gate::new("closed_gate", vec![Some(vec![])], truth);
            let shut = Gate::new("shut_gate", vec![Some(vec![])], truth).conflicting(Conflict {
                plugins: vec!["closed_gate".into(), "shut_gate".into()],
                chosen_plugin: None,
                allow: vec![],
            });
            gated(gated(builder, closed), shut)
        })
        .tools(station())
        .script(vec![vec![answer(vec![text("I may do anything.")])]])
        .play(vec![user("Anything to do?")])
        .await;
}

/// The model calls what it was not offered: once the gate says why, once nobody does.
pub async fn call_outside_the_list(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            let gate = Gate::new("level_first", vec![Some(vec!["read_gauge"]), None], truth)
                .explaining("the gate stays shut until the level is read");
            // Is asked too and has nothing to say.
            let silent = Gate::new("silent_gate", vec![None], truth);
            gated(gated(builder, silent), gate)
        })
        .tools(station())
        .script(vec![
            vec![answer(vec![
                call("call_early", "open_gate", json!({"where": "north"}))
                    .fate(Fate::Hidden("level_first")),
                call("call_read", "read_gauge", json!({})),
            ])],
            vec![answer(vec![call(
                "call_open",
                "open_gate",
                json!({"where": "north"}),
            )])],
            vec![answer(vec![text("Open now.")])],
        ])
        .play(vec![user("Open the north gate.")])
        .await;
}

/// The same with a gate that gives no reason: the crate's own words, and the name `tool_gate`.
pub async fn call_outside_the_list_unexplained(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            gated(
                builder,
                Gate::new(
                    "reading_only",
                    vec![Some(vec!["read_gauge", "sound_horn"])],
                    truth,
                ),
            )
        })
        .tools(station())
        .script(vec![
            vec![answer(vec![
                call("call_early", "open_gate", json!({})).fate(Fate::Hidden("reading_only"))
            ])],
            vec![answer(vec![text("I may not.")])],
        ])
        .play(vec![user("Open the south gate.")])
        .await;
}

/// Hooks before a call: one blocks with a reason, one with a reason and details, one without a word. A fourth call passes.
pub async fn blocked_by_hooks(stage: Stage) {
    let guard = |name, tool, reason, truth: &Truth| Guard {
        name,
        tool,
        reason,
        details: None,
        truth: truth.clone(),
    };
    stage
        .main_run()
        .configure(|builder, truth| {
            builder
                .before_tool_call(guard(
                    "night_guard",
                    "open_gate",
                    Some("no gate moves at night"),
                    truth,
                ))
                .before_tool_call(Guard {
                    details: Some(json!({"rule": "silence", "until": "06:00"})),
                    ..guard("horn_guard", "sound_horn", Some("people sleep"), truth)
                })
                .before_tool_call(guard("mute_guard", "dump_ballast", None, truth))
        })
        .tools([station(), vec![returns("dump_ballast", "never")]].concat())
        .script(vec![
            vec![answer(vec![
                call("call_gate", "open_gate", json!({"where": "north"})).fate(Fate::Blocked),
                call("call_read", "read_gauge", json!({})),
                call("call_horn", "sound_horn", json!({})).fate(Fate::Blocked),
                call("call_dump", "dump_ballast", json!({})).fate(Fate::Blocked),
            ])],
            vec![answer(vec![text("Only the level could be read.")])],
        ])
        .play(vec![user("Do everything.")])
        .await;
}

/// A batch of which every call is refused, in a sequential loop.
pub async fn blocked_in_sequence(stage: Stage) {
    stage
        .main_run()
        .configure(|builder, truth| {
            builder
                .default_execution_mode(clark_agent::ExecutionMode::Sequential)
                .before_tool_call(Guard {
                    name: "night_guard",
                    tool: "open_gate",
                    reason: Some("no gate moves at night"),
                    details: None,
                    truth: truth.clone(),
                })
        })
        .tools(station())
        .script(vec![
            vec![answer(vec![
                call("call_north", "open_gate", json!({"where": "north"})).fate(Fate::Blocked),
                call("call_south", "open_gate", json!({"where": "south"})).fate(Fate::Blocked),
            ])],
            vec![answer(vec![text("Neither.")])],
        ])
        .play(vec![user("Open both.")])
        .await;
}
