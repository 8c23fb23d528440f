//! Runs inside of runs. The crate emits nothing for a child unless the host wires a sink; these are the ways to do it.

use crate::model::*;
use crate::stage::*;
use crate::tools::*;
use clark_agent::stream::StreamErrorKind;
use clark_agent::*;
use serde_json::json;
use std::sync::Arc;

const CREW: &str = "You are a deckhand. Answer in one line.";

/// What a child run is asked and does.
#[derive(Clone, Copy)]
struct Errand {
    /// The tool of the parent that stands for it.
    name: &'static str,
    tool: &'static str,
    result: &'static str,
    takes: u64,
    report: &'static str,
}

const SOUNDING: Errand = Errand {
    name: "send_sounder",
    tool: "drop_lead",
    result: "seven fathoms",
    takes: 30,
    report: "Seven fathoms under the bow.",
};

const LOOKOUT: Errand = Errand {
    name: "send_lookout",
    tool: "use_glass",
    result: "a sail to the north",
    takes: 45,
    report: "A sail to the north.",
};

impl Errand {
    fn script(self) -> Script {
        vec![
            vec![answer(vec![call(
                "call_child",
                self.tool,
                json!({"where": "bow"}),
            )])],
            vec![answer(vec![text(self.report)])],
        ]
    }

    fn tools(self) -> Vec<Tool> {
        vec![returns(self.tool, self.result).taking(self.takes)]
    }
}

/// How a child is wired.
#[derive(Clone)]
struct Wiring {
    stage: Stage,
    parent: Parent,
    /// The parent's stream; `None` gives each child its own.
    stream: Option<Arc<EventStream>>,
    recorder: Option<Arc<TrajectoryRecorder>>,
    /// Whether the result's details name the child.
    details: bool,
}

/// What a tool of a parent needs to know of it.
#[derive(Clone)]
struct Parent {
    identity: RunIdentity,
    truth: crate::truth::Truth,
}

impl Parent {
    fn of(run: &RunPlan) -> Self {
        Self {
            identity: run.identity(),
            truth: run.truth.clone(),
        }
    }
}

impl Wiring {
    /// The parent's tool that sends a child on an errand.
    fn tool(&self, errand: Errand) -> Tool {
        let wiring = self.clone();
        works(errand.name, move |call_id, arguments| {
            let wiring = wiring.clone();
            async move {
                let identity = wiring.stage.child_identity(&wiring.parent.identity);
                let stream = match &wiring.stream {
                    Some(stream) => stream.clone(),
                    None => wiring.stage.stream(errand.name, Some(&identity)),
                };
                let mut child = wiring
                    .stage
                    .run(Some(identity.clone()), &stream)
                    .system_prompt(CREW)
                    .tools(errand.tools())
                    .script(errand.script());
                wiring.parent.truth.child_run(&call_id, &child.truth);
                if let Some(recorder) = &wiring.recorder {
                    child = child.recorder(recorder);
                }
                let task = arguments["task"].as_str().unwrap_or_default();
                child.play(vec![user(task)]).await;
                let mut result = ToolResult::text(errand.report);
                if wiring.details {
                    result.details = json!({"child_run_id": identity.run_id});
                }
                result
            }
        })
        .taking(1)
    }
}

fn send(id: &str, errand: Errand) -> Part {
    call(id, errand.name, json!({"task": "Look and report."}))
}

/// A parent with one stream that its children share, or not.
fn parent(stage: &Stage, shared: bool) -> (RunPlan, Arc<EventStream>) {
    let identity = stage.identity(&stage.conversation());
    // A sink that serves several runs cannot name one.
    let stream = stage.stream("", Some(&identity).filter(|_| !shared));
    (stage.run(Some(identity), &stream), stream)
}

/// One child on the parent's sink: its lines stand between start and end of the parent's tool.
pub async fn shared_sink(stage: Stage) {
    let (run, stream) = parent(&stage, true);
    let wiring = Wiring {
        stage: stage.clone(),
        parent: Parent::of(&run),
        stream: Some(stream),
        recorder: None,
        details: true,
    };
    run.tools(vec![wiring.tool(SOUNDING), returns("read_wind", "calm")])
        .script(vec![
            vec![answer(vec![
                text("I send someone."),
                send("call_send", SOUNDING),
            ])],
            vec![answer(vec![call("call_wind", "read_wind", json!({}))])],
            vec![answer(vec![text("Seven fathoms, and calm.")])],
        ])
        .play(vec![user("How deep is it under the bow?")])
        .await;
}

/// The same without any word of the child in the tool's result: only time says which call it belongs to.
pub async fn shared_sink_without_details(stage: Stage) {
    let (run, stream) = parent(&stage, true);
    let wiring = Wiring {
        stage: stage.clone(),
        parent: Parent::of(&run),
        stream: Some(stream),
        recorder: None,
        details: false,
    };
    run.tools(vec![wiring.tool(SOUNDING), wiring.tool(LOOKOUT)])
        .script(vec![
            vec![answer(vec![send("call_sound", SOUNDING)])],
            vec![answer(vec![send("call_look", LOOKOUT)])],
            vec![answer(vec![text("Deep water, and company.")])],
        ])
        .play(vec![user("Have a look around.")])
        .await;
}

/// One recorder for parent and child: behind the child's records the parent's carry the child's id.
pub async fn shared_recorder(stage: Stage) {
    let (run, stream) = parent(&stage, true);
    let recorder = stage.recorder();
    let wiring = Wiring {
        stage: stage.clone(),
        parent: Parent::of(&run),
        stream: Some(stream),
        recorder: Some(recorder.clone()),
        details: true,
    };
    run.recorder(&recorder)
        .tools(vec![wiring.tool(SOUNDING)])
        .script(vec![
            vec![answer(vec![send("call_send", SOUNDING)])],
            vec![answer(vec![text("Seven fathoms.")])],
        ])
        .play(vec![user("How deep is it?")])
        .await;
}

/// A child with a sink and a stream of its own.
pub async fn own_sink(stage: Stage) {
    let (run, _) = parent(&stage, false);
    let wiring = Wiring {
        stage: stage.clone(),
        parent: Parent::of(&run),
        stream: None,
        recorder: None,
        details: false,
    };
    run.tools(vec![wiring.tool(SOUNDING)])
        .script(vec![
            vec![answer(vec![send("call_send", SOUNDING)])],
            vec![answer(vec![text("Seven fathoms.")])],
        ])
        .play(vec![user("How deep is it?")])
        .await;
}

/// Two children at the same time on the parent's sink: no line says whose it is.
pub async fn parallel_shared_sink(stage: Stage) {
    let (run, stream) = parent(&stage, true);
    let wiring = Wiring {
        stage: stage.clone(),
        parent: Parent::of(&run),
        stream: Some(stream),
        recorder: None,
        details: true,
    };
    play_two_at_once(run, wiring).await;
}

/// The same with one recorder for all three: the records get the id of whoever began last.
pub async fn parallel_shared_recorder(stage: Stage) {
    let (run, stream) = parent(&stage, true);
    let recorder = stage.recorder();
    let wiring = Wiring {
        stage: stage.clone(),
        parent: Parent::of(&run),
        stream: Some(stream),
        recorder: Some(recorder.clone()),
        details: false,
    };
    play_two_at_once(run.recorder(&recorder), wiring).await;
}

/// Two children at the same time, each with its own sink.
pub async fn parallel_own_sinks(stage: Stage) {
    let (run, _) = parent(&stage, false);
    let wiring = Wiring {
        stage: stage.clone(),
        parent: Parent::of(&run),
        stream: None,
        recorder: None,
        details: false,
    };
    play_two_at_once(run, wiring).await;
}

async fn play_two_at_once(run: RunPlan, wiring: Wiring) {
    run.tools(vec![wiring.tool(SOUNDING), wiring.tool(LOOKOUT)])
        .script(vec![
            vec![answer(vec![
                send("call_sound", SOUNDING),
                send("call_look", LOOKOUT),
            ])],
            vec![answer(vec![text("Seven fathoms; a sail to the north.")])],
        ])
        .play(vec![user("Sound and look out.")])
        .await;
}

/// The child dies on the parent's sink: its lines stop without an end, and the parent's go on.
pub async fn dying_child(stage: Stage) {
    let (run, stream) = parent(&stage, true);
    let (inner, handle) = (stage.clone(), Parent::of(&run));
    let tool = works(SOUNDING.name, move |call_id, _| {
        let (stage, parent, stream) = (inner.clone(), handle.clone(), stream.clone());
        async move {
            let identity = stage.child_identity(&parent.identity);
            let child = stage.run(Some(identity), &stream);
            parent.truth.child_run(&call_id, &child.truth);
            child
                .system_prompt(CREW)
                .tools(SOUNDING.tools())
                .script(vec![
                    vec![answer(vec![call("call_child", SOUNDING.tool, json!({}))])],
                    vec![failed(
                        vec![text("Sev")],
                        StreamErrorKind::Fatal,
                        "the line parted",
                    )],
                ])
                .play(vec![user("Sound the depth.")])
                .await;
            ToolResult::error("the deckhand did not come back")
        }
    });
    run.tools(vec![tool])
        .script(vec![
            vec![answer(vec![send("call_send", SOUNDING)])],
            vec![answer(vec![text("Nobody knows how deep it is.")])],
        ])
        .play(vec![user("How deep is it?")])
        .await;
}

/// Three generations on one sink.
pub async fn grandchild(stage: Stage) {
    let (run, stream) = parent(&stage, true);
    let (inner, handle) = (stage.clone(), Parent::of(&run));
    let tool = works("send_mate", move |call_id, _| {
        let (stage, parent, stream) = (inner.clone(), handle.clone(), stream.clone());
        async move {
            let identity = stage.child_identity(&parent.identity);
            let mate = stage.run(Some(identity), &stream).system_prompt(CREW);
            parent.truth.child_run(&call_id, &mate.truth);
            let wiring = Wiring {
                stage: stage.clone(),
                parent: Parent::of(&mate),
                stream: Some(stream),
                recorder: None,
                details: false,
            };
            mate.tools(vec![wiring.tool(SOUNDING)])
                .script(vec![
                    vec![answer(vec![send("call_send", SOUNDING)])],
                    vec![answer(vec![text("The hand says seven fathoms.")])],
                ])
                .play(vec![user("Have it sounded.")])
                .await;
            ToolResult::text("the mate says seven fathoms")
        }
    });
    run.tools(vec![tool])
        .script(vec![
            vec![answer(vec![call("call_mate", "send_mate", json!({}))])],
            vec![answer(vec![text("Seven fathoms.")])],
        ])
        .play(vec![user("Have the depth sounded.")])
        .await;
}

/// Neither parent nor child has an identity: nothing but the nesting of the lines tells them apart.
pub async fn without_identities(stage: Stage) {
    let stream = stage.stream("", None);
    let run = stage.run(None, &stream);
    let (inner, truth) = (stage.clone(), run.truth.clone());
    let tool = works(SOUNDING.name, move |call_id, _| {
        let (stage, parent, stream) = (inner.clone(), truth.clone(), stream.clone());
        async move {
            let child = stage.run(None, &stream);
            parent.child_run(&call_id, &child.truth);
            child
                .system_prompt(CREW)
                .tools(SOUNDING.tools())
                .script(SOUNDING.script())
                .play(vec![user("Sound the depth.")])
                .await;
            ToolResult::text(SOUNDING.report)
        }
    });
    run.tools(vec![tool])
        .script(vec![
            vec![answer(vec![send("call_send", SOUNDING)])],
            vec![answer(vec![text("Seven fathoms.")])],
        ])
        .play(vec![user("How deep is it?")])
        .await;
}

/// A tool starts a run that names no parent: the host made a fresh identity. The lines nest all the same.
pub async fn nameless_parent(stage: Stage) {
    let (run, stream) = parent(&stage, true);
    let (inner, truth) = (stage.clone(), run.truth.clone());
    let tool = works(SOUNDING.name, move |call_id, _| {
        let (stage, parent, stream) = (inner.clone(), truth.clone(), stream.clone());
        async move {
            let identity = stage.identity(&stage.conversation());
            let child = stage.run(Some(identity), &stream);
            parent.child_run(&call_id, &child.truth);
            child
                .system_prompt(CREW)
                .tools(SOUNDING.tools())
                .script(SOUNDING.script())
                .play(vec![user("Sound the depth.")])
                .await;
            ToolResult::text(SOUNDING.report)
        }
    });
    run.tools(vec![tool])
        .script(vec![
            vec![answer(vec![send("call_send", SOUNDING)])],
            vec![answer(vec![text("Seven fathoms.")])],
        ])
        .play(vec![user("How deep is it?")])
        .await;
}

/// Two runs that have nothing to do with each other share a sink.
pub async fn strangers(stage: Stage) {
    let stream = stage.stream("", None);
    let play = |errand: Errand| {
        let identity = stage.lone_identity();
        stage
            .run(Some(identity), &stream)
            .system_prompt(CREW)
            .tools(errand.tools())
            .script(errand.script())
            .play(vec![user(errand.name)])
    };
    futures::join!(play(SOUNDING), play(LOOKOUT));
}
