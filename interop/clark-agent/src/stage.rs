//! Where a scenario plays: its event streams, its trajectory, its tree, and the runs on them.

use crate::clock;
use crate::model::{Script, ScriptedModel};
use crate::plugins::text_of_user;
use crate::tools::Tool;
use crate::truth::{Tree, Truth};
use async_trait::async_trait;
use clark_agent::event::EventSink;
use clark_agent::*;
use serde_json::{json, Value};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub const MODEL: &str = "estuary/large-2";
const SYSTEM_PROMPT: &str = "You keep the tide tables of the Saltmarsh pilot station.";

/// Shared by the runs of one scenario.
#[derive(Clone)]
pub struct Stage {
    scenario: &'static str,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    streams: Mutex<Vec<Arc<EventStream>>>,
    envelopes: Arc<Mutex<Vec<String>>>,
    trajectory: Arc<Trajectory>,
    session: Mutex<Option<String>>,
    runs: Mutex<Vec<Truth>>,
    ids: Mutex<usize>,
    stop: CancellationToken,
}

impl Stage {
    pub fn new(scenario: &'static str) -> Self {
        clock::start();
        Self {
            scenario,
            inner: Arc::default(),
        }
    }

    /// A sink of events. The main stream has no name. A stream that serves one run only knows its run.
    pub fn stream(&self, name: &str, identity: Option<&RunIdentity>) -> Arc<EventStream> {
        self.new_stream(name, identity, Duration::ZERO)
    }

    /// A main stream that takes its time over updates of tools.
    pub fn slow_stream(&self, identity: &RunIdentity) -> Arc<EventStream> {
        self.new_stream("", Some(identity), Duration::from_millis(20))
    }

    fn new_stream(
        &self,
        name: &str,
        identity: Option<&RunIdentity>,
        slowness: Duration,
    ) -> Arc<EventStream> {
        let stream = Arc::new(EventStream {
            name: name.into(),
            run_id: identity.map(|identity| identity.run_id.clone()),
            slowness,
            lines: Mutex::new(vec![]),
            envelopes: self.inner.envelopes.clone(),
        });
        self.inner.streams.lock().unwrap().push(stream.clone());
        stream
    }

    pub fn recorder(&self) -> Arc<TrajectoryRecorder> {
        Arc::new(TrajectoryRecorder::new(self.inner.trajectory.clone()))
    }

    /// The user's stop button.
    pub fn stop(&self) -> CancellationToken {
        self.inner.stop.clone()
    }

    /// A top-level run with an identity, in the scenario's conversation, on the main stream.
    pub fn main_run(&self) -> RunPlan {
        let identity = self.identity(&self.conversation());
        let stream = self.stream("", Some(&identity));
        self.run(Some(identity), &stream)
    }

    /// Named after the scenario.
    pub fn conversation(&self) -> String {
        format!("conv-{}", self.scenario)
    }

    /// An identity of a top-level run in a conversation.
    pub fn identity(&self, conversation: &str) -> RunIdentity {
        *self.inner.session.lock().unwrap() = Some(conversation.into());
        RunIdentity::root()
            .with_run_id(self.next_id())
            .with_conversation_id(conversation)
    }

    /// An identity of a top-level run outside any conversation.
    pub fn lone_identity(&self) -> RunIdentity {
        RunIdentity::root().with_run_id(self.next_id())
    }

    pub fn child_identity(&self, parent: &RunIdentity) -> RunIdentity {
        RunIdentity::child_of(parent).with_run_id(self.next_id())
    }

    /// Looks as a random one, and comes from the name of the scenario and the number of the run.
    fn next_id(&self) -> String {
        let mut ids = self.inner.ids.lock().unwrap();
        *ids += 1;
        let mut hash = 0xcbf2_9ce4_8422_2325_u64; // FNV-1a
        for byte in format!("{} {}", *ids, self.scenario).bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let (left, right) = (hash >> 32, hash & 0xffff_ffff);
        format!("{left:08x}-5a17-4a55-8c1a-0000{right:08x}")
    }

    /// A run on this stage. It is in the tree from now on.
    pub fn run(&self, identity: Option<RunIdentity>, stream: &Arc<EventStream>) -> RunPlan {
        self.plan("run", identity, stream)
    }

    /// The same for a run that continues without a prompt.
    pub fn continuation(
        &self,
        identity: Option<RunIdentity>,
        stream: &Arc<EventStream>,
    ) -> RunPlan {
        self.plan("run_continue", identity, stream)
    }

    fn plan(
        &self,
        entry: &'static str,
        identity: Option<RunIdentity>,
        stream: &Arc<EventStream>,
    ) -> RunPlan {
        let mut runs = self.inner.runs.lock().unwrap();
        let truth = Truth::new(runs.len(), identity.as_ref(), entry, &stream.name);
        runs.push(truth.clone());
        drop(runs);
        let mut builder = AgentBuilder::new().event_sink(stream.clone());
        if let Some(conversation) = identity
            .as_ref()
            .and_then(|identity| identity.conversation_id.clone())
        {
            builder = builder.conversation_id(conversation);
        }
        RunPlan {
            stage: self.clone(),
            entry,
            identity,
            truth,
            builder,
            recorder: None,
            history: vec![],
            system_prompt: SYSTEM_PROMPT.into(),
            tools: vec![],
            model_id: Some(MODEL.into()),
            script: vec![],
        }
    }

    /// The scenario's files: name of the kind and content.
    pub fn files(self) -> Vec<(String, String)> {
        let mut files = vec![];
        for stream in self.inner.streams.lock().unwrap().iter() {
            let infix = if stream.name.is_empty() {
                String::new()
            } else {
                format!("{}.", stream.name)
            };
            let lines = stream.lines.lock().unwrap().concat();
            files.push((format!("{infix}events.ndjson"), lines));
        }
        let envelopes = self.inner.envelopes.lock().unwrap().concat();
        files.push(("enveloped.ndjson".into(), envelopes));
        let trajectory = self.inner.trajectory.0.lock().unwrap().concat();
        files.push(("trajectory.jsonl".into(), trajectory));
        let runs = self.inner.runs.lock().unwrap();
        let tree = Tree {
            session: self.inner.session.lock().unwrap().clone(),
            runs: runs.iter().map(Truth::so_far).collect(),
        };
        let mut tree = serde_json::to_string_pretty(&tree).expect("JSON");
        tree.push('\n');
        files.push(("tree.json".into(), tree));
        files
    }
}

/// A sink that writes each event in both forms, bare and in an envelope.
pub struct EventStream {
    name: String,
    run_id: Option<String>,
    slowness: Duration,
    lines: Mutex<Vec<String>>,
    /// Of all streams of the scenario together, in the order of time.
    envelopes: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl EventSink for EventStream {
    async fn emit(&self, event: AgentEvent) {
        if matches!(event, AgentEvent::ToolExecutionUpdate { .. }) && !self.slowness.is_zero() {
            tokio::time::sleep(self.slowness).await;
        }
        let event = serde_json::to_string(&event).expect("JSON");
        let mut lines = self.lines.lock().unwrap();
        lines.push(format!("{event}\n"));
        let run_id = match &self.run_id {
            Some(run_id) => format!(r#""run_id":{},"#, json!(run_id)),
            None => String::new(),
        };
        self.envelopes.lock().unwrap().push(format!(
            "{{\"ts\":{},\"seq\":{},{run_id}\"event\":{event}}}\n",
            clock::tick(),
            lines.len()
        ));
    }
}

#[derive(Default)]
struct Trajectory(Mutex<Vec<String>>);

#[async_trait]
impl TrajectorySink for Trajectory {
    async fn record(&self, record: TrajectoryRecord) -> Result<(), TrajectoryError> {
        let line = serde_json::to_string(&record).expect("JSON");
        self.0.lock().unwrap().push(format!("{line}\n"));
        Ok(())
    }
}

/// A run in preparation. `builder` is the crate's own, for all that a scenario wants of it.
pub struct RunPlan {
    stage: Stage,
    entry: &'static str,
    identity: Option<RunIdentity>,
    pub truth: Truth,
    pub builder: AgentBuilder,
    recorder: Option<Arc<TrajectoryRecorder>>,
    history: Vec<AgentMessage>,
    system_prompt: String,
    tools: Vec<Tool>,
    model_id: Option<String>,
    script: Script,
}

impl RunPlan {
    pub fn identity(&self) -> RunIdentity {
        self.identity.clone().expect("a run with an identity")
    }

    pub fn configure(
        mut self,
        configure: impl FnOnce(AgentBuilder, &Truth) -> AgentBuilder,
    ) -> Self {
        self.builder = configure(self.builder, &self.truth);
        self
    }

    pub fn script(mut self, script: Script) -> Self {
        self.script = script;
        self
    }

    pub fn tools(mut self, tools: Vec<Tool>) -> Self {
        self.tools = tools;
        self
    }

    pub fn history(mut self, history: Vec<AgentMessage>) -> Self {
        self.history = history;
        self
    }

    pub fn system_prompt(mut self, prompt: &str) -> Self {
        self.system_prompt = prompt.into();
        self
    }

    pub fn without_model_id(mut self) -> Self {
        self.model_id = None;
        self
    }

    /// A recorder that other runs use too. Without it the run has its own.
    pub fn recorder(mut self, recorder: &Arc<TrajectoryRecorder>) -> Self {
        self.recorder = Some(recorder.clone());
        self
    }

    /// Plays the run to its end. Returns the whole transcript, as a host would keep it: history, prompts and what
    /// the loop returned.
    pub async fn play(self, prompts: Vec<AgentMessage>) -> Vec<AgentMessage> {
        let model = Arc::new(ScriptedModel::new(
            self.script,
            self.model_id.clone(),
            self.truth.clone(),
        ));
        let mut registry = ToolRegistry::new();
        for tool in self.tools {
            registry.register(tool.of(&self.truth));
        }
        let recorder = self.recorder.unwrap_or_else(|| self.stage.recorder());
        let mut builder = self
            .builder
            .stream(model.clone())
            .tools(registry)
            .event_observer_arc(recorder);
        if let Some(id) = self.model_id {
            builder = builder.model_id(id);
        }
        let config = builder.build().expect("a stream is set");
        let mut context = AgentContext::new(self.system_prompt).with_messages(self.history.clone());
        context.identity = self.identity;

        for prompt in &prompts {
            self.truth.input(text_of_user(prompt));
        }
        let signal = self.stage.stop();
        let result = if self.entry == "run" {
            run(prompts, context, &config, signal).await
        } else {
            assert!(prompts.is_empty(), "a continuation has no prompt");
            run_continue(context, &config, signal).await
        };
        // Late tool updates come from tasks of their own.
        tokio::task::yield_now().await;

        let mut transcript = self.history;
        match result {
            Ok(result) => {
                self.truth.told(&result.messages);
                self.truth.returned("completed", None);
                transcript.extend(result.messages);
            }
            Err(LoopError::Aborted) => self.truth.returned("aborted", None),
            Err(error) => self.truth.returned("error", Some(error.to_string())),
        }
        model.assert_all_played();
        transcript
    }
}

pub fn user(text: &str) -> AgentMessage {
    AgentMessage::User {
        content: UserContent::Text(text.into()),
        timestamp: Some(clock::milliseconds()),
    }
}

pub fn custom(kind: &str, payload: Value) -> AgentMessage {
    AgentMessage::Custom {
        kind: kind.into(),
        payload,
        timestamp: Some(clock::milliseconds()),
    }
}
