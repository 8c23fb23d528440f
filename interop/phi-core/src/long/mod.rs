//! Long sessions, for tests of size, loss and speed; see "Long sessions" in README.md. Their streams are
//! up to some hundred megabytes: they are compressed and compared while phi-core writes them.

mod author;
mod library;

use crate::check::Normaliser;
use crate::scenarios::claude;
use author::{next_millisecond, tools, Author, Model, SharedAuthor, Sizes};
use library::Library;
use phi_core::context::{CompactionConfig, ContextConfig, ExecutionLimits};
use phi_core::types::*;
use phi_core::{Agent, BasicAgent};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};

const PROMPT: usize = 40_000;

/// About 4 KB of new text a turn.
const SIZES: Sizes = Sizes {
    prompt: 600,
    thinking: 420,
    remark: 340,
    answer: 1600,
    result: 3000,
};

/// How a run begins, and how many turns it has.
enum Run {
    Prompt(usize),
    /// Continues the run before with another question.
    Continue(usize),
    /// Goes back to this number of messages before the end, and asks something else there.
    Branch(usize, usize),
}

struct Plan {
    name: &'static str,
    sizes: Sizes,
    runs: Vec<Run>,
    /// The user interrupts, and the context is compacted when it exceeds COMPACT_AT.
    eventful: bool,
}

fn plans() -> Vec<Plan> {
    let plan = |name, runs| Plan {
        name,
        sizes: SIZES,
        runs,
        eventful: false,
    };
    let prompts = |runs, turns| (0..runs).map(|_| Run::Prompt(turns)).collect();
    vec![
        plan("long-200", prompts(1, 200)),
        plan("long-20x10", prompts(20, 10)),
        Plan {
            sizes: Sizes {
                prompt: 1800,
                thinking: 700,
                answer: 1300,
                ..SIZES
            },
            ..plan("long-200x1", prompts(200, 1))
        },
        Plan {
            eventful: true,
            ..plan(
                "long-mixed",
                vec![Run::Prompt(100), Run::Continue(50), Run::Branch(60, 50)],
            )
        },
        Plan {
            sizes: Sizes {
                result: 4000,
                ..SIZES
            },
            ..plan("long-400", prompts(1, 400))
        },
    ]
}

/// Estimated tokens of the messages when compaction is let through: shortly before turn 100.
const COMPACT_AT: usize = 93_000;

/// The second level of phi-core's own compaction: older turns become one line each.
fn compacting() -> ContextConfig {
    ContextConfig {
        max_context_tokens: 60_000,
        system_prompt_tokens: 14_000,
        compaction: CompactionConfig::default(),
        ..ContextConfig::default()
    }
}

fn agent(plan: &Plan, author: &SharedAuthor) -> BasicAgent {
    let system_prompt = prose_of_many_pages(author, PROMPT);
    let agent = BasicAgent::new(claude())
        .with_session_id(plan.name)
        .with_provider_override(Arc::new(Model(author.clone())))
        .with_system_prompt(system_prompt)
        .with_tools(tools(author))
        .without_context_management()
        .with_execution_limits(ExecutionLimits {
            max_turns: 1000,
            max_total_tokens: usize::MAX,
            max_duration: Duration::from_secs(3600),
            max_cost: None,
        });
    if !plan.eventful {
        return agent;
    }
    author.lock().unwrap().steering = Some(agent.control_handle());
    agent
        .with_context_config(compacting())
        // phi-core asks from 85 % of the window on.
        .on_before_compaction_start(|estimated, _| {
            let allowed = estimated > COMPACT_AT;
            if allowed {
                // What compaction writes must not share a millisecond with the messages before it.
                std::thread::sleep(Duration::from_millis(2));
            }
            allowed
        })
}

/// A system prompt made of pieces of many documents, as hosts put them together.
fn prose_of_many_pages(author: &SharedAuthor, bytes: usize) -> String {
    let mut author = author.lock().unwrap();
    let mut prompt = String::new();
    while prompt.len() + 2000 <= bytes {
        prompt += &author.prose(2000);
        prompt += "\n\n";
    }
    prompt
}

/// Runs phi-core's own agent through the plan.
async fn play(plan: &Plan, library: &Library, events: UnboundedSender<AgentEvent>) {
    let author = Arc::new(Mutex::new(Author::new(library, plan.sizes)));
    let mut agent = agent(plan, &author);
    for run in &plan.runs {
        next_millisecond().await;
        let (Run::Prompt(turns) | Run::Continue(turns) | Run::Branch(_, turns)) = run;
        let question = author.lock().unwrap().prompt(*turns);
        let kind = match run {
            Run::Prompt(_) => {
                agent.prompt_with_sender(question, events.clone()).await;
                continue;
            }
            Run::Continue(_) => ContinuationKind::Default,
            Run::Branch(back, _) => {
                let mut history = agent.messages().to_vec();
                history.truncate(history.len() - back);
                agent.replace_messages(history);
                let tag = String::new(); // phi-core writes its own
                ContinuationKind::Branch { tag }
            }
        };
        agent.append_message(Message::user(question).into());
        agent.continue_loop_with_sender(events.clone(), kind).await;
    }
}

/// Plays a plan and hands on each line of its stream, without its end, as soon as it is there.
async fn lines(
    plan: &Plan,
    library: &Library,
    mut line: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    let (sender, mut receiver) = unbounded_channel();
    let write = async move {
        while let Some(event) = receiver.recv().await {
            line(&serde_json::to_string(&event)?)?;
        }
        Ok(())
    };
    let ((), written) = tokio::join!(play(plan, library, sender), write);
    written
}

fn file_name(plan: &Plan) -> String {
    format!("{}.events.ndjson.zst", plan.name)
}

/// Writes `<name>.events.ndjson.zst` of every long session.
pub async fn generate(metadata: &Path, folder: &Path) -> io::Result<()> {
    let library = Library::open(metadata)?;
    fs::create_dir_all(folder)?;
    for plan in plans() {
        let file = File::create(folder.join(file_name(&plan)))?;
        // A request repeats the one before it. A reader needs the memory of the window, 32 MiB.
        let mut packed = zstd::Encoder::new(BufWriter::new(file), 19)?;
        packed.long_distance_matching(true)?;
        packed.window_log(25)?;
        packed.include_checksum(true)?;
        lines(&plan, &library, |line| {
            packed.write_all(line.as_bytes())?;
            packed.write_all(b"\n")
        })
        .await?;
        packed.finish()?.flush()?;
    }
    Ok(())
}

/// Prints the first differing line of each long session that drifted; true if none did.
pub async fn check(metadata: &Path, folder: &Path) -> io::Result<bool> {
    let library = Library::open(metadata)?;
    let mut clean = true;
    for plan in plans() {
        let name = file_name(&plan);
        let packed = BufReader::new(File::open(folder.join(&name))?);
        let mut committed = BufReader::new(zstd::Decoder::with_buffer(packed)?).lines();
        let (mut expected, mut actual) = (Normaliser::new(), Normaliser::new());
        let mut number = 0;
        let mut difference = None;
        lines(&plan, &library, |line| {
            number += 1;
            if difference.is_none() {
                let left = committed.next().transpose()?.unwrap_or_default();
                let (left, right) = (expected.normalise(&left), actual.normalise(line));
                difference = first_difference(&left, &right).map(|found| (number, found));
            }
            Ok(())
        })
        .await?;
        if difference.is_none() && committed.next().is_some() {
            difference = Some((number + 1, "only the committed stream goes on".to_string()));
        }
        if let Some((number, found)) = difference {
            println!("drift in {name}, line {number}, {found}");
            clean = false;
        }
    }
    Ok(clean)
}

/// The surroundings of the place where two lines part.
fn first_difference(committed: &str, regenerated: &str) -> Option<String> {
    if committed == regenerated {
        return None;
    }
    let same = committed
        .chars()
        .zip(regenerated.chars())
        .take_while(|(left, right)| left == right)
        .count();
    let around = |line: &str| -> String {
        line.chars()
            .skip(same.saturating_sub(100))
            .take(200)
            .collect()
    };
    Some(format!(
        "character {same}:\n  committed:   {}\n  regenerated: {}",
        around(committed),
        around(regenerated)
    ))
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn a_difference_shows_its_surroundings_only() {
        assert_eq!(first_difference("same", "same"), None);
        let long = "x".repeat(5000);
        let found = first_difference(&format!("{long}a{long}"), &format!("{long}b{long}")).unwrap();
        assert!(found.starts_with("character 5000:"), "{found}");
        assert!(found.len() < 500, "{found}");
    }
}
